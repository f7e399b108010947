"""How good plans are: baselines, and what was learned, on fixed instances.

python -m benchmarks.quality                                          # truck_drone at three sizes
python -m benchmarks.quality --env darp --run DIR --solvers pyvrp     # see darp.py
python -m benchmarks.quality --env pcb --td3 DIR --sac DIR            # see pcb.py
python -m benchmarks.quality --env my_package.my_module:make          # any other: its baselines
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.measuring.subject import module_of
from benchmarks.quality import contest
from jaxvrp import registry
from jaxvrp.io.command_line import Parser, positive
from train import Evaluator, RunConfig, entry, figures_table, value_of


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `--env` says whose (the learners' default), one with a file here has options of its own."""
    argv = sys.argv[1:] if argv is None else list(argv)
    env = value_of(argv, "env") or RunConfig().env["name"]
    module = module_of("benchmarks.quality", env)
    (module.main if module else baselines)(argv)


def baselines(argv: Sequence[str]) -> None:
    """The baselines of any environment, with its headlines."""
    parser = Parser("benchmarks.quality", "The baselines of an environment on fixed instances.")
    parser.add_argument("--env", required=True, help="a registered name, or package.module:make")
    parser.add_argument("--episodes", type=positive, default=512, help="instances (default: 512)")
    args = parser.parse_args(argv)
    env = contest.made(args.env, {})
    figures = Evaluator(env, args.episodes, contest.SEED).baselines()
    print(figures_table(figures, registry.card_of(env).headlines))


if __name__ == "__main__":
    entry(main)
