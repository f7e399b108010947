"""What each part of a configuration is worth: the same training with one part changed at a time, several seeds each.

python -m benchmarks.ablation --out result.json
python -m benchmarks.ablation --suite truck_drone_scarce --only 'as it is' 'no imitation' --num_seeds 3

A suite (`benchmarks/suites/NAME.yaml`) names a configuration, what is given to all, and what is changed. Every other
key of `python -m train.mappo --help` is given to all as well.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jaxvrp
from benchmarks import learning
from benchmarks.measuring import measure
from jaxvrp.io.command_line import Parser, UserError, positive
from jaxvrp.io.yaml_text import read_yaml
from train import aligned, entry

SUITES = pathlib.Path(__file__).parent / "suites"
Record = dict[str, Any]


def replaced(words: Sequence[str], changes: Sequence[str]) -> list[str]:
    """Words `--key value ...` with those of `changes`, which take the place of the same keys."""
    keys = {key for key in changes if key.startswith("--")}
    starts = [place for place, word in enumerate(words) if word.startswith("--")]
    kept = [words[start:end] for start, end in itertools.pairwise([*starts, len(words)])]
    return [*itertools.chain.from_iterable(given for given in kept if given[0].split("=")[0] not in keys), *changes]


class Suite(NamedTuple):
    """Trainings that are compared: words of the command line for all, and by what a part is called when it changes."""

    config: str
    options: Sequence[str]
    parts: Mapping[str, Sequence[str]]


def read_suite(name: str) -> Suite:
    """The suite `benchmarks/suites/NAME.yaml`, or that of a path.

    Raises:
        UserError: no such file, or it says something else; one line.
    """
    path = pathlib.Path(name) if name.endswith(".yaml") else SUITES / f"{name}.yaml"
    try:
        content = read_yaml(path)
        parts = {str(part): shlex.split(words or "") for part, words in content["parts"].items()}
        return Suite(content["config"], shlex.split(content.get("options") or ""), parts)
    except OSError as error:
        known = ", ".join(sorted(each.stem for each in SUITES.glob("*.yaml")))
        raise UserError(f"--suite {name}: {error.strerror}; give a path, or one of: {known}") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: {error}; see {SUITES.name}/truck_drone_basic.yaml for what is needed") from None


def table(records: Mapping[str, Record], titles: dict[str, str]) -> learning.Table:
    """A head and a row for each part that was changed; of several seeds, the mean and the range."""
    head, *rows = learning.table({name: record["figures"] for name, record in records.items()}, titles)
    seconds = (f"{record['cpu_seconds']:.0f}" for record in records.values())
    return [["changed", *head[1:], "CPU s"], *([*row, taken] for row, taken in zip(rows, seconds, strict=True))]


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args, words = _parser().parse_known_args(argv)
    suite = read_suite(args.suite)
    measure.check_result_file(args.out, [suite.config])
    chosen = args.only or list(suite.parts)
    if unknown := [name for name in chosen if name not in suite.parts]:
        raise UserError(f"--only: nothing is called '{unknown[0]}'; choose among: {', '.join(suite.parts)}")
    words = replaced(["--config", suite.config, "--num_seeds", str(args.num_seeds), *suite.options], words)
    bar = measure.progress(chosen, "training")
    trainings = {name: learning.trained("mappo", replaced(words, suite.parts[name])) for name in bar}
    records: dict[str, Record] = {
        name: {"figures": each.summary["policy"], "seconds": each.seconds, "cpu_seconds": each.cpu_seconds}
        for name, each in trainings.items()
    }
    config = trainings[chosen[0]].config
    header = measure.machine(["python", "-m", "benchmarks.ablation", *argv], measure.device_name())
    how = {
        "training": f"mappo, {' '.join(words)}: all seeds in one program, one part changed at a time",
        "figures": f"means over {config.eval_episodes} fixed instances, whole episodes, deterministic policy, "
        "after the last update; of the seeds: mean (least to largest)",
        "CPU s": "seconds of all cores for all seeds together, with compilation and evaluation",
    }
    titles = learning.titles_of(jaxvrp.make(**config.env), records[chosen[0]]["figures"])
    report = f"{measure.described(header, how)}\n\n{aligned(table(records, titles))}"
    measure.write_result(args.out, {"machine": header, "protocol": how, "titles": titles, "records": records}, report)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.ablation", "What each part of a configuration is worth.")
    parser.epilog = "Any key of python -m train.mappo --help can be given: --total_steps 100000"
    parser.add_argument(
        "--suite",
        default="truck_drone_basic",
        help="a file of benchmarks/suites, by name or path: what is changed (default: truck_drone_basic)",
    )
    parser.add_argument("--only", nargs="+", help="what is changed (default: each)")
    parser.add_argument("--num_seeds", type=positive, default=3, help="independent trainings of each (default: 3)")
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    return parser


if __name__ == "__main__":
    entry(main)
