"""Boards of a user's own, and plans for them: where each part lies, and what its nets come to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.factory import read_boards
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import as_float32
from jaxvrp.envs.pcb.problem.inspection import warnings_of
from jaxvrp.envs.pcb.problem.instance import Instance
from jaxvrp.envs.pcb.problem.netlist import Netlist, PcbFile, make_netlist
from jaxvrp.envs.pcb.problem.pcb_file import in_sheet, write_pcb
from jaxvrp.envs.pcb.rules import State
from jaxvrp.episodes import Episode
from jaxvrp.io.problems import plan_files
from jaxvrp.problems import Inspection, Problems

FORMAT = "jaxvrp-pcb-plan-1"


@dataclasses.dataclass(frozen=True)
class BoardOfFile:
    """A board with its names, which file it was read from, and which board of the file it is, from 0."""

    path: str
    row: int
    netlist: Netlist


def cost(env: Pcb, state: State, earned: jax.Array) -> jax.Array:
    """Wirelength in mm of the best placement without overlap, `f32[1]`; infinite if there was none."""
    metrics = env.metrics(state)
    return jax.numpy.where(metrics["became_legal"] > 0, metrics["best_hpwl"], jax.numpy.inf)[None]


def chosen_placement(problem: BoardOfFile, states: State) -> tuple[np.ndarray, np.ndarray]:
    """Centres `f32[N, 2]` and quarter turns `i32[N]` of the best placement; of the last one if none was legal."""
    found, count = (states.best if np.isfinite(states.best.hpwl[-1]) else states), problem.netlist.board.num_components
    return np.asarray(found.position[-1])[:count], np.asarray(found.orientation[-1])[:count]


class PcbProblems(Problems[BoardOfFile]):
    """Boards in files: `.pcb`, Bookshelf, `.npz`."""

    table = "parts"
    columns = ("part", "x", "y", "degrees", "side", "fixed", "overlap")
    endings = (*plan_files.ENDINGS, ".pcb")

    def read(self, path: str | os.PathLike, **given: Any) -> list[BoardOfFile]:
        """The boards of a file; parts without names are called part0, part1, ...; errors as of `read_boards`."""
        boards = read_boards(path, **given)
        named = [each if isinstance(each, Netlist) else make_netlist(each, Path(path).stem) for each in boards]
        return [BoardOfFile(os.fspath(path), row, netlist) for row, netlist in enumerate(named)]

    def parameters(self, problem: BoardOfFile, env: Pcb) -> dict[str, Any]:
        """The board of an environment that plays a problem; what is fixed stays where it is."""
        return {"boards": problem.path, "board_index": problem.row, "augment": False}

    def instance(self, problem: BoardOfFile, env: Pcb) -> Instance:
        """The problem in an environment with these parameters; movable parts begin anywhere."""
        instance: Instance = jax.jit(env.generate)(jax.random.key(0))
        return instance

    def inspect(self, problem: BoardOfFile, env: Pcb) -> Inspection:
        """Warnings of what is judged otherwise than a reader may expect."""
        return Inspection(warnings=tuple(warnings_of(problem.netlist)))

    def plan(self, problem: BoardOfFile, episode: Episode) -> dict[str, Any]:
        """The best placement of an episode, or the last if none was legal; `docs/solve.md` describes its keys."""
        netlist, board = problem.netlist, problem.netlist.board
        position, orientation = chosen_placement(problem, episode.states)
        measures = jax.device_get(jax.jit(measure_board)(as_float32(board), position, orientation))
        names = [part.name for part in netlist.components]
        overlaps = ~geometry.is_legal(measures.overlap) & board.exists
        wrong = [name for name, overlap in zip(names, overlaps, strict=True) if overlap]
        routes: dict[str, list[str]] = {}
        for pin in np.flatnonzero(board.signal_pin):
            pad = f"{names[board.pin_component[pin]]}.{netlist.pins[pin].name}"
            routes.setdefault(netlist.nets[board.pin_net[pin]].name, []).append(pad)
        places = [in_sheet(place, netlist.origin) for place in np.where(board.fixed[:, None], board.position, position)]
        parts = [
            {
                "part": name,
                **{axis: float(value) for axis, value in zip("xy", places[row], strict=True)},
                "degrees": part.drawn.degrees if part.drawn else 90 * int(orientation[row]),
                "side": int(board.side[row]),
                "fixed": bool(board.fixed[row]),
                "overlap": float(measures.overlap[row]),
            }
            for row, (name, part) in enumerate(zip(names, netlist.components, strict=True))
        ]
        return {
            "format": FORMAT,
            "hpwl": float(measures.hpwl),
            "feasible": not wrong,
            "violations": {"overlap": {"count": len(wrong), "first_part": wrong[0]}} if wrong else {},
            "routes": routes,
            "nets": {
                net.name: float(hpwl)
                for net, hpwl in zip(netlist.nets, measures.net_hpwl, strict=True)
                if net.name in routes
            },
            "parts": parts,
        }

    def write_plan(self, problem: BoardOfFile, path: str | os.PathLike, plan: Mapping[str, Any]) -> None:
        """Write a plan: `.json` all of it, `.csv` its parts, a line each, `.pcb` the board with its parts placed.

        Raises:
            ValueError: another ending, or a board that the format cannot hold.
            OSError: the file cannot be written.
        """
        if Path(path).suffix.lower() != ".pcb":
            super().write_plan(problem, path, plan)
            return
        netlist = problem.netlist
        fixed, position, orientation = (getattr(netlist.board, name) for name in ("fixed", "position", "orientation"))
        found = np.array([[part["x"], part["y"]] for part in plan["parts"]]) - np.array(netlist.origin)
        quarters = np.array([part["degrees"] // 90 for part in plan["parts"]], np.int32)
        board = netlist.board.replace(
            position=np.where(fixed[:, None], position, found).astype(position.dtype),
            orientation=np.where(fixed, orientation, quarters),
        )
        write_pcb(path, PcbFile((dataclasses.replace(netlist, board=board),)))


PROBLEMS = PcbProblems()
