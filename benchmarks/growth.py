"""How time per step, memory and compile time grow with the batch and with each number of the size.

python -m benchmarks.growth
python -m benchmarks.growth --env darp --out growth.png

One number is varied at a time, from the first size that the environment's throughput is measured at. Beside each time
stands what it should not outgrow: agents times entities (of a batch: nothing, since a step is that of one environment).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jaxvrp
from benchmarks import measure
from benchmarks.measure import Spread, rate
from benchmarks.subject import Subject
from benchmarks.throughput import Case, measure_apart, subject_of
from jaxvrp import pictures
from jaxvrp.io.command_line import Parser, UserError, check_picture_path, positive
from jaxvrp.pictures import STILLS, save_still, series_look
from train.running.command import command_line
from train.running.shown.tables import aligned

Record = dict[str, Any]

BATCH = "batch"
BATCHES = (1, 16, 256, 4096, 65536)

PANELS = {"time of a step, us": "microseconds", "memory, MiB": "mebibytes", "compile time, s": "compile_seconds"}
"""Titles of the plot, and the entries of a record that they show."""


def cases_of(env: str, subject: Subject, args: argparse.Namespace) -> Iterator[tuple[str, int, Case]]:
    """What is varied, its value, and the case to be measured."""
    first, labels = subject.sizes[0], subject.labels.split(",")
    for batch in args.batches:
        yield BATCH, batch, _case(env, first, batch, args)
    for label, values in subject.growth.items():
        for value in values:
            size = tuple(value if name == label else number for name, number in zip(labels, first, strict=True))
            yield label, value, _case(env, size, args.batch, args)


def _case(env: str, size: tuple[int, ...], batch: int, args: argparse.Namespace) -> Case:
    return Case(env, size, batch, args.steps, args.repeats, args.seconds, with_reference=False)


def record_of(varied: str, value: int, subject: Subject, measured: Record) -> Record:
    """What is kept of a case that `benchmarks.throughput` measured."""
    record = {"varied": varied, "value": value, "size": measured["size"], "batch": measured["batch"]}
    if "error" in measured:
        return {**record, "error": measured["error"]}
    speed = Spread.of(measured["steps_per_second"]["jax"]).median
    memory = measured["peak_memory_bytes"]
    return {
        **record,
        "steps_per_second": measured["steps_per_second"],
        "microseconds": 1e6 / speed,
        "work": 1 if varied == BATCH else subject.work(tuple(measured["size"])),
        "mebibytes": None if memory is None else memory / 2**20,
        "compile_seconds": measured["compile_seconds"],
    }


def exponent(values: Sequence[float], figures: Sequence[float]) -> float:
    """The power of `values` that fits `figures` best, by least squares of the logarithms; nan for a single value."""
    if len(set(values)) < 2:
        return float("nan")
    slope = float(np.polyfit(np.log(values), np.log(figures), 1)[0])
    return round(slope, 3) + 0.0  # no -0.0


def table(records: Sequence[Record]) -> str:
    """The aligned table, one row per case."""
    rows = [["varied", "value", "steps/s", "us/step", "agents x entities", "us / that", "memory", "compile"]]
    failed = []
    for record in records:
        name = [record["varied"], str(record["value"])]
        if "error" in record:
            failed.append(f"failed: {' '.join(name)}: {record['error']}")
            continue
        time = record["microseconds"]
        memory = "-" if record["mebibytes"] is None else f"{record['mebibytes']:.0f} MiB"
        cells = [rate(1e6 / time), f"{time:.3g}", str(record["work"]), f"{time / record['work']:.3g}"]
        rows.append([*name, *cells, memory, f"{record['compile_seconds']:.1f} s"])
    return "\n".join([aligned(rows), *failed])


def verdicts(records: Sequence[Record]) -> list[str]:
    """A line for each number that was varied: how time and compile time grow with it."""
    lines = []
    for varied, found in _by_varied(records).items():
        values, work = [record["value"] for record in found], [record["work"] for record in found]
        compiling = exponent(values, [record["compile_seconds"] for record in found])
        time = [record["microseconds"] for record in found]
        if varied == BATCH:
            how = f"time of a step as its power {exponent(values, time):.2f}"
        else:
            how = f"time of a step as the power {exponent(work, time):.2f} of agents x entities"
        lines.append(f"{varied}: {how}, compile time as its power {compiling:.2f}")
    return lines


def _by_varied(records: Sequence[Record]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        if "error" not in record:
            groups.setdefault(record["varied"], []).append(record)
    return groups


def draw(records: Sequence[Record], title: str, *, fig: Any = None) -> Any:
    """Time per step, memory and compile time against what was varied, on logarithmic axes.

    Args:
        records: of all cases.
        title: above all panels.
        fig: a figure of matplotlib, or a part of one, to fill; None: a new one.

    Returns:
        The figure.
    """
    figure = pictures.new_figure(12, 3.6, 120) if fig is None else fig
    if fig is None:
        figure.set_layout_engine("constrained")
    figure.suptitle(title, fontsize=10)
    for axes, (panel, entry) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for number, (varied, found) in enumerate(_by_varied(records).items()):
            points = [(record["value"], record[entry]) for record in found if record[entry] is not None]
            look = {**series_look(number), "marker": "o", "markersize": 4, "linewidth": 1.4}
            axes.plot(*zip(*points, strict=True), **look, label=varied)
        axes.set(title=panel, xlabel="value", xscale="log", yscale="log")
        axes.legend(fontsize=8, frameon=False)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main(argv: Sequence[str] | None = None, run: Callable[[Case, int | None], Record] = measure_apart) -> None:
    """The command line; `run` measures one case, on so many CPU devices.

    Raises:
        UserError: a mistake of the user's, as one line.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _arguments(argv)
    subject = subject_of(args.env)
    if not subject.growth:
        known = [name for name in jaxvrp.registered() if subject_of(name).growth]
        raise UserError(f"--env: nothing says what grows in '{args.env}'; choose one of: {', '.join(known)}")
    cases = list(cases_of(args.env, subject, args))
    records = []
    with measure.progress(cases, "case") as bar:
        for varied, value, case in bar:
            bar.set_postfix_str(f"{varied} {value}")
            records.append(record_of(varied, value, subject, run(case, None)))
    header = measure.machine(["python", "-m", "benchmarks.growth", *argv], measure.device_name())
    print(f"{measure.described(header, {})}\n\n{table(records)}\n")
    print("\n".join(verdicts(records)))
    if args.out:
        title = f"{args.env} {subject.sizes[0]}, one number varied at a time; {header['cpu']}"
        save_still(draw(records, title), args.out, dpi=120)
        measure.write_result(args.out.with_suffix(".json"), {"machine": header, "growth": records})
        print(f"wrote {args.out} and {args.out.with_suffix('.json')}")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("benchmarks.growth", "How time per step, memory and compile time grow.")
    parser.add_argument("--env", default="truck_drone", help="registered name (default: truck_drone)")
    parser.add_argument("--batches", type=positive, nargs="+", default=BATCHES, help="environments in parallel")
    parser.add_argument("--batch", type=positive, default=256, help="of the sizes that are varied (default: 256)")
    parser.add_argument("--repeats", type=positive, default=3, help="repeats of each case (default: 3)")
    parser.add_argument("--seconds", type=measure.seconds_option, default=0.5, help="least time of each (default: 0.5)")
    parser.add_argument("--steps", type=positive, default=32, help="scanned steps of one call (default: 32)")
    parser.add_argument("--out", type=Path, help="picture; the figures go into a .json file beside it")
    args = parser.parse_args(argv)
    if args.out:
        check_picture_path(args.out, STILLS)
    return args


if __name__ == "__main__":
    command_line.entry(main)
