"""Draw the learning curves of several runs in one figure: the mean over seeds and their band.

python -m train.plot runs/mappo_0 runs/mappo_1 runs/ippo_0 runs/ippo_1 --out curves.svg
python -m train.plot runs/* --metrics eval/return episode/return --band ci --labels MAPPO IPPO --out curves.pdf

Runs that learn the same, but for their seed, are one group, and one curve; those with `num_seeds` have several seeds.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxvrp import registry
from jaxvrp.io.command_line import Parser, UserError, check_picture_path, refuse_overwriting
from jaxvrp.io.json_files import LARGEST_JSON
from jaxvrp.io.messages import cut
from jaxvrp.io.whole_files import read_bytes
from jaxvrp.io.yaml_text import read_yaml
from jaxvrp.show import STILLS, save_still
from train.commands.entry import entry
from train.run.folder import CONFIG
from train.run.records import METRICS, RATES, Record, rates_of, read_start
from train.settings.config_file import flat
from train.shown.plots import BANDS, DPI, EVALUATION, TRAINING, Group, compare
from train.shown.report import whole_records

SEEDS = ("seed", "num_seeds")
"""Keys in which the runs of a group may differ."""

SHOWN = ("logger", "pictures")
"""Keys that say what is shown of a run, and change nothing that is learned."""

MOST_NAMED = 3
"""Most keys in a label; groups that differ in more keys are named by their first folder."""

LONGEST_LABEL = 60


class Run(NamedTuple):
    """A run folder: its algorithm and configuration, flat, and its records, from before the first update on."""

    folder: pathlib.Path
    values: dict[str, Any]
    records: tuple[Record, ...]


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    args = _arguments(argv)
    runs = [read(folder) for folder in args.runs]
    grouped = group_runs(runs)
    labels = args.labels or labels_of(grouped)
    if len(labels) != len(grouped):
        listed = [", ".join(str(run.folder) for run in group) for group in grouped]
        members = "; ".join(f"group {number}: {folders}" for number, folders in enumerate(listed, 1))
        raise UserError(f"--labels has {len(labels)} labels for {len(grouped)} groups of runs; {members}")
    groups = [Group(label, tuple(run.records for run in group)) for label, group in zip(labels, grouped, strict=True)]
    rates = {name: label for run in runs for name, label in read_rates(run).items()}
    metrics = chosen_metrics(runs, rates, args.metrics)
    figure = compare(groups, metrics, rates=[*rates], baselines=common_baselines(runs), band=args.band)
    save_still(figure, args.out, DPI)
    for label, group in zip(labels, grouped, strict=True):
        print(f"{label}: {', '.join(str(run.folder) for run in group)}")
    print(f"drew {args.out}")


def read(folder: pathlib.Path) -> Run:
    """A run folder, also of a run that is not over."""
    try:
        values = flat(read_yaml(folder / CONFIG))
    except (OSError, ValueError, AttributeError, TypeError):
        raise UserError(f"{folder} is no run folder: it has no readable {CONFIG}; give folders of runs") from None
    values.pop("changes", None)
    records = whole_records(folder / METRICS)
    if not records:
        raise UserError(f"{folder} has no record in {METRICS} so far; leave it out")
    return Run(folder, values, (*read_start(folder), *records))


def group_runs(runs: Sequence[Run]) -> list[list[Run]]:
    """Groups of runs that learn the same, but for their seeds."""
    groups: dict[str, list[Run]] = collections.defaultdict(list)
    for run in runs:
        groups[json.dumps(_learned(run), sort_keys=True, default=str)].append(run)
    for group in groups.values():
        known: dict[str, Run] = {}
        for run in group:
            seeds = str([run.values.get(name) for name in SEEDS])
            if seeds in known:
                raise UserError(
                    f"{known[seeds].folder} and {run.folder} are the same training, of the same seed; leave one out"
                )
            known[seeds] = run
    return list(groups.values())


def labels_of(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Labels of the groups: their algorithms, and the keys in which they differ."""
    values = [_learned(group[0]) for group in groups]
    names = sorted({name for each in values for name in each})
    different = [name for name in names if len({str(each.get(name)) for each in values}) > 1]
    labels = []
    for each in values:  # `mappo, critic local`
        rest = [f"{name} {each.get(name)}" for name in different if name != "algorithm"]
        is_needed = "algorithm" in different or not rest
        labels.append(", ".join([*([str(each.get("algorithm"))] if is_needed else []), *rest]))
    if len(different) > MOST_NAMED or any(len(label) > LONGEST_LABEL for label in labels):
        labels = [group[0].folder.resolve().name for group in groups]
    return labels


def read_rates(run: Run) -> dict[str, str]:
    """The rates of a run's environment, see `train.run.records.rates_of`.

    Those that the run has written; of a run that has not, of an earlier version, those of the registered environment.
    """
    written = _object_in(run.folder / RATES)
    if written is not None:
        # Foreign text is drawn as it is: a `$` begins no formula.
        return {name: cut(str(label), LONGEST_LABEL).replace("$", r"\$") for name, label in written.items()}
    card = registry.all_cards().get(str(run.values.get("env.name")))
    return rates_of(card.headlines) if card else {}


def chosen_metrics(runs: Sequence[Run], rates: Mapping[str, str], asked: Sequence[str] | None) -> dict[str, str]:
    """Names of metrics, and titles of their panels."""
    known = sorted({name for run in runs for record in run.records for name in record} - {"update", "env_steps"})
    titles = {EVALUATION: "return in evaluation"}
    titles |= {name: f"{label} (evaluation)" for name, label in rates.items()}
    titles |= {TRAINING: "return in training"}
    if asked is None:
        return {name: title for name, title in titles.items() if name in known}
    for name in asked:
        if name not in known:
            raise UserError(f"--metrics: no run has '{name}'; they have {', '.join(known)}")
    return {name: titles.get(name, name) for name in asked}


def common_baselines(runs: Iterable[Run]) -> dict[str, dict[str, float]]:
    """Figures of the baselines on which the summaries of all finished runs agree."""
    found: dict[str, list[float]] = collections.defaultdict(list)
    written = [summary for run in runs if (summary := _object_in(run.folder / "summary.json"))]
    for summary in written:
        for name, figures in summary.items():
            if name != "policy" and isinstance(figures, dict) and isinstance(figures.get("return"), float):
                found[name].append(figures["return"])
    agreed = {name: returns for name, returns in found.items() if len(returns) == len(written)}
    return {name: {"return": returns[0]} for name, returns in agreed.items() if max(returns) - min(returns) < 1e-4}


def _object_in(path: pathlib.Path) -> dict[str, Any] | None:
    """The object in a file of JSON; None if that is not there, or damaged."""
    try:
        content = json.loads(read_bytes(path, LARGEST_JSON))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _learned(run: Run) -> dict[str, Any]:
    """The keys that say what a run learns, without its seeds."""
    return {name: value for name, value in run.values.items() if name not in (*SEEDS, *SHOWN)}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("train.plot", "Learning curves of several runs: the mean over seeds, and their band.")
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN", help="folder of a run, finished or not")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the picture: .png, .svg or .pdf")
    parser.add_argument("--metrics", nargs="+", help="names of metrics.jsonl (default: returns and rates)")
    parser.add_argument("--labels", nargs="+", help="names of the curves, in order (default: the keys that differ)")
    parser.add_argument(
        "--band", choices=BANDS, default="range", help="least to largest seed (default), std, or 95 %% ci"
    )
    args = parser.parse_args(argv)
    check_picture_path(args.out, STILLS)
    refuse_overwriting(args.out, "--out", args.runs)
    return args


if __name__ == "__main__":
    entry(main)
