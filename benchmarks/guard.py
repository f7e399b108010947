"""Whether an environment has become much slower: its ratio to the NumPy reference, at a tiny size, beside a kept one.

python -m benchmarks.guard            # what CI runs; exit status 1 if a ratio is below a quarter of the kept one
python -m benchmarks.guard --write    # keep what is measured now

Rates themselves say nothing on another machine. Ratios of the same run do, roughly: a busy machine halves those of a
program with several threads. So this finds what is plainly wrong: a program that is traced again, a step that calls the
host, an algorithm of another order. What is slower by less is found by `benchmarks.compare`, on one machine. Programs
are compiled fast, since that takes longest here, so that ratios are lower than those of `benchmarks.throughput`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jaxvrp
from benchmarks import fast_compilation, measure
from benchmarks.compare import Speeds, read_cases, read_speeds
from benchmarks.measure import Spread
from benchmarks.throughput import Case, Record, measure_apart, subject_of
from jaxvrp.io.command_line import Parser, UserError
from train.running.command import command_line
from train.running.shown.tables import aligned

KEPT = Path(__file__).parent / "results" / "guard_cpu.json"
LEAST = 0.25
"""Share of the kept ratio below which an environment counts as much slower."""

BATCH, STEPS, REPEATS, SECONDS = 64, 100, 3, 0.1


def cases() -> Iterator[Case]:
    """One of each environment that has a reference and a tiny size."""
    for env in jaxvrp.registered():
        if (size := subject_of(env).tiny) is not None:
            yield Case(env, size, BATCH, STEPS, REPEATS, SECONDS)


def shares(kept: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """What is measured over what was kept, by row.

    Raises:
        UserError: a row was not kept.
    """
    for name in measured:
        if name not in kept:
            raise UserError(f"{KEPT} has no row '{name}'; run python -m benchmarks.guard --write")
    return {name: ratio / kept[name] for name, ratio in measured.items()}


def ratios(speeds: Mapping[str, Speeds]) -> dict[str, float]:
    """Median ratios to the reference, by row."""
    return {name: Spread.of(row.ratios).median for name, row in speeds.items()}


def measure_fast_compiled(case: Case) -> Record:
    """What `measure_apart` measures of a case, compiled fast."""
    return measure_apart(case, variables=fast_compilation.variables())


def main(
    argv: Sequence[str] | None = None, run: Callable[[Case], Record] = measure_fast_compiled, kept: Path = KEPT
) -> None:
    """The command line; `run` measures one case, and `kept` is the file of the ratios.

    Raises:
        UserError: a case could not be measured, or nothing was kept.
    """
    parser = Parser("benchmarks.guard", "Whether an environment has become much slower than it was.")
    parser.add_argument("--write", action="store_true", help="keep what is measured now")
    argv = sys.argv[1:] if argv is None else list(argv)
    args = parser.parse_args(argv)
    before = {} if args.write else ratios(read_speeds(kept)[1])
    records = []
    with measure.progress(list(cases()), "environment") as bar:
        for case in bar:
            bar.set_postfix_str(case.env)
            records.append(_measured(run(case)))
    result: dict[str, Any] = {
        "machine": measure.machine(["python", "-m", "benchmarks.guard", *argv], records[0]["device"]),
        "cases": records,
    }
    if args.write:
        measure.write_result(kept, result)
        print(f"wrote {kept}")
        return
    measured = ratios(read_cases(records))
    found = shares(before, measured)
    rows = [["row", "ratio", "kept", "share"]]
    rows += [[row, f"{measured[row]:.3g}x", f"{before[row]:.3g}x", f"{share:.2f}"] for row, share in found.items()]
    print(aligned(rows))
    if slow := [row for row, share in found.items() if share < LEAST]:
        print(f"\nmuch slower than they were: {', '.join(slow)}")
        sys.exit(1)


def _measured(record: Record) -> Record:
    if "error" in record:
        raise UserError(f"{record['env']} cannot be measured: {record['error']}")
    return record


if __name__ == "__main__":
    command_line.entry(main)
