"""Placement: annealing, random play and learned policies, from the same starts on the same boards.

python -m benchmarks.quality --env pcb                                   # three generated boards
python -m benchmarks.quality --env pcb --td3 DIR --sac DIR --published   # the boards of RL_PCB, from JAXVRP_DATA
"""

from __future__ import annotations

import argparse
import csv
import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxvrp
from benchmarks import measure
from benchmarks.quality.pcb_places import HEAD, Places, Result
from jaxvrp.envs.pcb import Board
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb
from jaxvrp.io.command_line import Parser, UserError, above_zero, positive
from jaxvrp.io.published_data import VARIABLE, data_folder
from train.running.command.keys import LAUNCH
from train.running.folder.run_folder import RunFolder, Trained
from train.running.shown.tables import aligned

PUBLISHED = ("adc0", "adc2", "afe")
FAMILY = "pcb/rl_pcb"
FULL_MOVES = 400_000
NOTES = """legal: starts from which a placement without overlap was reached; mean and least HPWL of the best such one of
each, in mm; gap: of that mean to {reference}; s/start: wall time, all starts together, compilation apart. An annealing
"in the same time" has as long as the slowest policy, from as many restarts."""


def generated(count: int, seed: int) -> Iterator[tuple[str, Board, float | None]]:
    """Boards of the generator that no default training meets: name, board, best known HPWL."""
    env: Any = jaxvrp.make("pcb", num_boards=count, board_seed=seed, max_parts=8)
    for index in range(count):
        yield f"generated {index}", jax.tree.map(lambda leaf, row=index: np.asarray(leaf[row]), env.boards), None


def published() -> Iterator[tuple[str, Board, float | None]]:
    """The three evaluation boards of RL_PCB, with the best HPWL known to us.

    Raises:
        UserError: they are not there.
    """
    folder = data_folder() / FAMILY
    path = folder / "base" / "evaluation.pcb"
    if not path.is_file():
        raise UserError(f"--published: there is no {path}; set {VARIABLE} to the folder that holds {FAMILY}")
    best = best_known(folder / "best_known_zero_overlap.csv")
    for index, (name, netlist) in enumerate(zip(PUBLISHED, read_pcb(path).boards, strict=True)):
        yield name, netlist.board, best.get(index)


def best_known(path: pathlib.Path) -> dict[int, float]:
    """HPWL in mm by index of the evaluation board; empty if there is no such file."""
    if not path.is_file():
        return {}
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if "eval" in row["split"]]
    key = next((name for name in rows[0] if "hpwl" in name.lower()), None) if rows else None
    return {int(row["index"]): float(row[key]) for row in rows} if key else {}


def compete(places: Places, runs: dict[str, Trained], temperature: float, quick: bool) -> dict[str, Result]:
    """Let everybody play on one board; results by player.

    Args:
        places: the board and its starts.
        runs: trained runs, by the name of their algorithm.
        temperature: of sampled actions.
        quick: leave out the long annealing.
    """
    turns: dict[str, Callable[[], Result]] = {
        "random play": places.play_randomly,
        "random legal placement": places.place_randomly,
    }
    for name, run in runs.items():
        turns[name] = functools.partial(places.play, run)
        sampled = f"{name}, sampled at temperature {temperature:g}"
        turns[sampled] = functools.partial(places.play, run, temperature=temperature)
    results = {}
    with measure.progress(turns.items(), "player", leave=False) as bar:
        for name, take_turn in bar:
            bar.set_postfix_str(name)
            results[name] = take_turn()
    slowest = max(result.seconds.wall for name, result in results.items() if "legal" not in name)
    results["annealing in the same time"] = places.anneal_for(slowest)
    if not quick:
        results[f"annealing, {FULL_MOVES} moves"] = places.anneal(FULL_MOVES)
    return results


def main(argv: Sequence[str]) -> None:
    """The command line."""
    args = _arguments(argv)
    measure.check_result_file(args.out, [args.td3, args.sac])
    names = {"TD3": args.td3, "SAC": args.sac}
    folders = {name: RunFolder(folder, trust=args.trust) for name, folder in names.items() if folder}
    runs = {name: folder.load(args.checkpoint) for name, folder in folders.items()}
    tables, reference = {}, "the best known" if args.published else "the best of all players"
    boards = published() if args.published else generated(args.boards, args.seed)
    for title, board, best in boards:
        places = Places(board, starts=args.starts, steps=args.steps)
        results = compete(places, runs, args.temperature, args.quick)
        known = best or min(result.least for result in results.values())
        tables[title] = [list(HEAD), *(result.row(name, known) for name, result in results.items())]
        print(f"\n{title}: {args.starts} starts, {args.steps} steps, best known {known:.2f} mm\n")
        print(aligned(tables[title]), flush=True)
    print(f"\n{NOTES.format(reference=reference)}")
    if args.out:
        header = measure.machine(["python", "-m", "benchmarks.quality", *argv], measure.device_name())
        options: dict[str, Any] = vars(args) | {"out": None}
        measure.write_result(args.out, {"machine": header, "options": options, "tables": tables})
        print(f"wrote {args.out}")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.quality", "Placement: annealing, random play and policies, side by side.")
    parser.add_argument("--env", choices=("pcb",), help="this environment")
    parser.add_argument("--td3", help="run folder of train.td3 on pcb: plays its policy")
    parser.add_argument("--sac", help="run folder of train.sac on pcb: plays its policy")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--temperature", type=above_zero, default=1.0, help="of sampled actions (default: 1)")
    parser.add_argument("--published", action="store_true", help="the evaluation boards of RL_PCB, from JAXVRP_DATA")
    parser.add_argument("--boards", type=positive, default=3, help="instead: generated boards (default: 3)")
    parser.add_argument("--seed", type=positive, default=1000, help="of these (default: 1000)")
    parser.add_argument("--starts", type=positive, default=16, help="of every player, the same (default: 16)")
    parser.add_argument("--steps", type=positive, default=600, help="of an episode (default: 600)")
    parser.add_argument("--quick", action="store_true", help=f"without the annealing of {FULL_MOVES} moves")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine and tables")
    return parser.parse_args(argv)
