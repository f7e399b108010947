"""The baselines of any environment on fixed instances, with the headlines of its toolbox."""

from __future__ import annotations

from collections.abc import Sequence

import jaxvrp
from jaxvrp import registry
from jaxvrp.io.command_line import Parser, UserError, positive
from train.running.loop.evaluator import Evaluator
from train.running.shown.tables import figures_table

SEED = 1_000_003
"""The instances of the trainer's default `eval_seed`."""


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = Parser("benchmarks.quality", "The baselines of an environment on fixed instances.")
    parser.add_argument("--env", required=True, help="a registered name, or package.module:make")
    parser.add_argument("--episodes", type=positive, default=512, help="instances (default: 512)")
    args = parser.parse_args(argv)
    try:
        env = jaxvrp.make(args.env)
    except (ValueError, TypeError) as error:
        raise UserError(f"--env: {error}") from None
    figures = Evaluator(env, args.episodes, SEED).baselines()
    print(figures_table(figures, registry.toolbox_of(env).headlines))
