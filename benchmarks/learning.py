"""What a configuration learns, with several seeds: figures on the fixed instances beside those of the baselines.

python -m benchmarks.learning
python -m benchmarks.learning --config FILE --algorithm ippo --num_seeds 3 --out result.json

All seeds are trained in one program. Every other key of `python -m train.ALGORITHM --help` can be given too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jaxvrp
from benchmarks.measuring import measure
from benchmarks.measuring.measure import Spread
from jaxvrp import registry
from jaxvrp.io.command_line import Parser, positive
from train import ALGORITHMS, aligned, column_titles, entry, parse

Table = list[list[str]]


class Training(NamedTuple):
    """A training that has ended: `summary` is `{player: {figure: a number, or one for each seed}}`."""

    config: Any
    summary: dict[str, Any]
    seconds: float
    cpu_seconds: float


def trained(algorithm: str, words: Sequence[str]) -> Training:
    """Train with these words of the command line, in a folder that is removed afterwards."""
    config = parse(ALGORITHMS[algorithm].config_class, words, prog="benchmarks.learning", description="").config
    start, cpu_start = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        run = Path(folder) / "run"
        importlib.import_module(f"train.{algorithm}").main([*words, "--run_dir", str(run), "--pictures", "false"])
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return Training(config, summary, time.perf_counter() - start, time.process_time() - cpu_start)


def table(figures: dict[str, dict[str, Any]], titles: dict[str, str]) -> Table:
    """A head, the `titles` by figure, and a row for each player; of several seeds, the mean and the range."""
    rows = [["player", *titles.values()]]
    for player, values in figures.items():
        rows.append([player, *(_cell(values[name]) for name in titles)])
    return rows


def _cell(value: float | list[float]) -> str:
    if not isinstance(value, list):
        return f"{value:.3f}"
    mean = sum(value) / len(value)
    return f"{mean:.3f} ({Spread.of(value).low:.3f} to {Spread.of(value).high:.3f})"


def titles_of(env: jaxvrp.Environment, figures: Mapping[str, Any]) -> dict[str, str]:
    """The figures, of those of a player, that are worth a column, and their titles."""
    return column_titles(figures, registry.card_of(env).headlines)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args, words = _parser().parse_known_args(argv)
    measure.check_result_file(args.out, [args.config])
    words = ["--config", args.config, "--num_seeds", str(args.num_seeds), *words]
    config, figures, seconds, _ = trained(args.algorithm, words)
    titles = titles_of(jaxvrp.make(**config.env), figures["policy"])
    header = measure.machine(["python", "-m", "benchmarks.learning", *argv], measure.device_name())
    how = {
        "training": f"{args.algorithm}, {args.config}: {config.num_updates * config.steps_per_update} steps of each of "
        f"{config.num_seeds} seeds, in one program; {seconds:.0f} s with compilation and evaluation",
        "figures": f"means over {config.eval_episodes} fixed instances, whole episodes, deterministic policy; of the "
        "seeds: mean (least to largest)",
    }
    result = {"machine": header, "protocol": how, "seconds": seconds, "titles": titles, "figures": figures}
    measure.write_result(args.out, result, f"{measure.described(header, how)}\n\n{aligned(table(figures, titles))}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.learning", "What a configuration learns, with several seeds.")
    parser.epilog = "Any key of python -m train.mappo --help can be given: --total_steps 100000"
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="mappo", help="the learner (default: mappo)")
    parser.add_argument("--config", default="truck_drone_basic", help="as of train.mappo (default: the main job)")
    parser.add_argument("--num_seeds", type=positive, default=5, help="independent trainings (default: 5)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    return parser


if __name__ == "__main__":
    entry(main)
