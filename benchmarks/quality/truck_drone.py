"""Truck and drones: the greedy dispatcher and random play at three sizes.

python -m benchmarks.quality
python -m benchmarks.quality --battery_rate 1.0 --episodes 512
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import jaxvrp
from benchmarks.measure import Size, progress
from benchmarks.quality.baselines import SEED
from benchmarks.reference.truck_drone import SUBJECT
from jaxvrp.io.command_line import Parser, positive
from train.running.evaluator import Evaluator
from train.running.tables import aligned

FIGURES = ("return", "completion_rate", "success_rate", "on_time_rate", "length", "crashed_drones", "forced_returns")


def rows(sizes: Sequence[Size], battery_rate: float, episodes: int) -> list[list[str]]:
    """A head and one row per size and baseline: means over whole episodes."""
    table = [[f"({SUBJECT.labels.replace(',', ', ')})", "player", *FIGURES]]
    for size in progress(sizes, "size"):
        env = jaxvrp.make("truck_drone", **SUBJECT.parameters(size), battery_rate=battery_rate)
        for name, figures in Evaluator(env, episodes, SEED).baselines().items():
            table.append([str(size), name, *(f"{figures[key]:.3f}" for key in FIGURES)])
    return table


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = Parser("benchmarks.quality", "Baselines of truck_drone on fixed instances.")
    known = ", ".join(jaxvrp.registered())
    parser.add_argument(
        "--env",
        default="truck_drone",
        help=f"{known} or package.module:make (default: truck_drone); --env NAME --help lists the options of another",
    )
    parser.add_argument("--battery_rate", type=_rate, default=0.5, help="battery per map unit flown (default: 0.5)")
    parser.add_argument("--episodes", type=positive, default=512, help="instances of each size (default: 512)")
    args = parser.parse_args(argv)
    print(aligned(rows(SUBJECT.sizes, args.battery_rate, args.episodes)))


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0")
    return rate
