"""From the keywords of `jaxvrp.make("pcb", ...)` to the environment: boards read or drawn, padded, wired."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.envs.pcb.baselines.annealing import anneal, net_widths
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.measure import placement_targets
from jaxvrp.envs.pcb.problem import board as board_module
from jaxvrp.envs.pcb.problem import generator
from jaxvrp.envs.pcb.problem.board import Board, as_float32, stack
from jaxvrp.envs.pcb.problem.bookshelf import read_bookshelf
from jaxvrp.envs.pcb.problem.instance import Sizes, Targets, Wiring, agent_targets, wire
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.problem.pcb_reader import read_pcb
from jaxvrp.io.messages import nearest

GENERATED = "generated"
GIVEN = "given"
RESTARTS = 8
TARGETS = ("file", "annealing", "unknown")

Boards = str | os.PathLike | Board | Sequence[str | os.PathLike | Board]


@dataclasses.dataclass(frozen=True)
class Supply:
    """Which boards an environment draws its problems from.

    Attributes:
        targets: those of the files (unknown for generated boards), of the best of a short annealing, or unknown.
        num_boards, board_seed: generated boards.
        board_index: only this board of those read; None for all.
        annealing_moves: moves of each of 8 restarts, for `targets="annealing"`.
    """

    targets: str = fields.option("file", help="", choices=TARGETS)
    num_boards: int = fields.option(64, help="", minimum=1)
    board_seed: int = fields.option(0, help="", minimum=0, maximum=2**32 - 1)
    board_index: int | None = fields.option(None, help="", minimum=0)
    annealing_moves: int = fields.option(20_000, help="", minimum=1)


def make(*, boards: Boards = GENERATED, **parameters: Any) -> Pcb:
    """The environment `pcb`.

    Args:
        boards: `"generated"`; a file, `.pcb`, `.nodes` (Bookshelf) or `.npz` (from `save`); a `Board`; or a list of
            these. All are padded to the largest.
        **parameters: fields of `Pcb` and of `Supply`; of `generator.Parameters` for generated boards.

    Raises:
        ValueError: a parameter is unknown or out of range, a file is damaged; one line that says which.
        TypeError: a value has the wrong type.
        OSError: a file cannot be read.
    """
    own = {"boards", "wirings", "targets", "sizes", "source"}
    kinds = {"supply": Supply, "generator": generator.Parameters, "env": Pcb}
    names = {kind: {f.name for f in dataclasses.fields(cls)} for kind, cls in kinds.items()}
    names["env"] -= own
    _refuse_unknown(parameters, set().union(*names.values()) | {"boards"})
    given = {kind: {k: v for k, v in parameters.items() if k in names[kind]} for kind in kinds}
    supply = fields.build(Supply, given["supply"], "parameter of 'pcb':")
    drawn = boards == GENERATED if isinstance(boards, str) else False
    if not drawn and given["generator"]:
        raise ValueError(f"{next(iter(given['generator']))} is of generated boards; leave it out, or boards")
    made = generator.make_parameters(**given["generator"])
    batch = _drawn(supply, made) if drawn else stack(_chosen(_read_all(boards), supply.board_index))
    source = {"boards": _named(boards), **dataclasses.asdict(supply), **(dataclasses.asdict(made) if drawn else {})}
    return _environment(batch, supply, source, given["env"])


def _environment(batch: Board, supply: Supply, source: dict[str, Any], options: dict[str, Any]) -> Pcb:
    sizes = Sizes.of(batch)
    boards = as_float32(batch)
    wirings = jax.jit(jax.vmap(lambda board: wire(board, sizes)))(boards)
    targets = _targets(boards, wirings, supply)
    made = {"boards": boards, "wirings": wirings, "targets": targets, "sizes": sizes, "source": tuple(source.items())}
    return fields.build(Pcb, {**made, **options}, "parameter of 'pcb':")


def _refuse_unknown(parameters: dict[str, Any], known: set[str]) -> None:
    for name in parameters.keys() - known:
        raise ValueError(f"unknown parameter of 'pcb': '{name}'; {nearest(name, known)}")


def _drawn(supply: Supply, of: generator.Parameters) -> Board:
    keys = jax.random.split(jax.random.key(supply.board_seed), supply.num_boards)
    return jax.device_get(jax.jit(jax.vmap(lambda key: generator.generate(key, of)))(keys))


def _read_all(boards: Boards) -> list[Board]:
    if isinstance(boards, str | os.PathLike | Board):
        boards = [boards]
    if not isinstance(boards, Sequence) or not boards:
        raise TypeError(f"boards is {boards!r}; it must be 'generated', a file, a Board, or a list of these")
    return [board for given in boards for board in _read(given)]


def _read(given: str | os.PathLike | Board) -> list[Board]:
    if isinstance(given, Board):
        return _one_by_one(jax.tree.map(np.asarray, given))
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"boards holds {given!r}; it must be a file or a Board")
    return [board.board if isinstance(board, Netlist) else board for board in read_boards(given)]


def read_boards(path: str | os.PathLike) -> Sequence[Board | Netlist]:
    """The boards of a `.pcb`, `.nodes` (Bookshelf) or `.npz` file, with names where it has them.

    Raises:
        ValueError: another ending, or a damaged file; one line.
        OSError: it cannot be read.
    """
    path = Path(path)
    if path.suffix == ".pcb":
        return read_pcb(path).boards
    if path.suffix == ".nodes":
        return [read_bookshelf(path)]
    if path.suffix != ".npz":
        raise ValueError(f"boards '{path}' is neither .pcb, .nodes (Bookshelf) nor .npz (jaxvrp.envs.pcb.save)")
    return _one_by_one(board_module.load(path))


def _one_by_one(boards: Board) -> list[Board]:
    """One board, or those of a batch."""
    if boards.exists.ndim == 1:
        return [boards]
    return [jax.tree.map(lambda leaf, row=row: leaf[row], boards) for row in range(boards.exists.shape[0])]


def _chosen(boards: list[Board], index: int | None) -> list[Board]:
    if index is None:
        return boards
    if index >= len(boards):
        raise ValueError(f"board_index is {index}, but there are {len(boards)} boards, from 0; lower it")
    return [boards[index]]


def _named(boards: Boards) -> Any:
    """As the keyword of `make`, where it can be written down."""
    if isinstance(boards, str | os.PathLike):
        return os.fspath(boards)
    if isinstance(boards, Board):
        return GIVEN
    paths = [given for given in boards if not isinstance(given, Board)]
    return tuple(map(os.fspath, paths)) if len(paths) == len(boards) else GIVEN


def _targets(boards: Board, wirings: Wiring, supply: Supply) -> Targets:
    if supply.targets == "annealing":
        boards = _annealed(boards, supply.annealing_moves)
    known = jax.vmap(agent_targets)(boards, wirings)
    if supply.targets == "unknown":
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.inf), known)
    return known


def _annealed(boards: Board, moves: int) -> Board:
    """With the lengths of the best of some annealed placements as targets; unknown where none became legal."""
    widths = net_widths(boards)

    def one(board: Board, key: jax.Array) -> Board:
        found = anneal(board, key, widths=widths, num_moves=moves, num_restarts=RESTARTS)
        best = jnp.argmin(found.hpwl)
        lengths = placement_targets(board, found.position[best], found.orientation[best])
        reached = (jnp.where(found.legal[best], length, jnp.inf) for length in lengths)
        return board.replace(**dict(zip(("target_wirelength", "target_hpwl"), reached, strict=True)))

    keys = jax.random.split(jax.random.key(0), boards.exists.shape[0])
    return jax.jit(jax.vmap(one))(boards, keys)
