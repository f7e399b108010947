"""How good plans are: baselines, and what was learned, on fixed instances.

python -m benchmarks.quality                                          # truck_drone at three sizes
python -m benchmarks.quality --battery_rate 1.0 --episodes 512
python -m benchmarks.quality --env darp --run DIR --solvers pyvrp     # see quality_darp.py
python -m benchmarks.quality --env pcb --td3 DIR --sac DIR            # see quality_pcb.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tqdm import tqdm

import jaxvrp
from benchmarks.measure import Size
from benchmarks.quality import darp, pcb
from jaxvrp.io.command_line import Parser, positive
from train.running import command_line
from train.running.evaluator import Evaluator
from train.running.tables import aligned

SIZES: tuple[Size, ...] = ((2, 3, 5), (4, 20, 10), (8, 50, 16))
FIGURES = ("return", "completion_rate", "success_rate", "on_time_rate", "length", "crashed_drones", "forced_returns")
SEED = 1_000_003
"""The instances of the trainer's default `eval_seed`."""


def rows(sizes: Sequence[Size], battery_rate: float, episodes: int) -> list[list[str]]:
    """A head and one row per size and baseline of `truck_drone`: means over whole episodes."""
    table = [["(drones, customers, nodes)", "player", *FIGURES]]
    for size in tqdm(sizes, unit="size"):
        drones, customers, nodes = size
        counts = {"num_drones": drones, "num_customers": customers, "num_route_nodes": nodes}
        env = jaxvrp.make("truck_drone", **counts, battery_rate=battery_rate)
        for name, figures in Evaluator(env, episodes, SEED).baselines().items():
            table.append([str(size), name, *(f"{figures[key]:.3f}" for key in FIGURES)])
    return table


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `--env` says whose, each environment has options of its own."""
    argv = sys.argv[1:] if argv is None else list(argv)
    others = {"darp": darp.main, "pcb": pcb.main}
    if (env := command_line.value_of(argv, "env")) in others:
        others[env](argv)
        return
    parser = Parser("benchmarks.quality", "Baselines of truck_drone on fixed instances.")
    parser.add_argument(
        "--env", choices=("truck_drone", "darp", "pcb"), help="--env pcb --help lists that one's options"
    )
    parser.add_argument("--battery_rate", type=_rate, default=0.5, help="battery per map unit flown (default: 0.5)")
    parser.add_argument("--episodes", type=positive, default=512, help="instances of each size (default: 512)")
    args = parser.parse_args(argv)
    print(aligned(rows(SIZES, args.battery_rate, args.episodes)))


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0")
    return rate


if __name__ == "__main__":
    command_line.entry(main)
