"""Whether an environment has become much slower: its ratio to the NumPy reference, at a tiny size, beside a kept one.

python -m benchmarks.guard            # what CI runs; exit status 1 if a ratio is below a quarter of the kept one
python -m benchmarks.guard --write    # keep what is measured now

Rates themselves say nothing on another machine. Ratios of the same run do, roughly: a busy machine halves those of a
program with several threads. So this finds what is plainly wrong: a program that is traced again, a step that calls the
host, an algorithm of another order. Programs are compiled fast, since that takes longest here, so that ratios are lower
than those of `benchmarks.throughput`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import jaxvrp
from benchmarks import fast_compilation, measure
from benchmarks.measure import Spread
from benchmarks.subject import subject_of
from benchmarks.throughput import Case, Record, measure_apart
from jaxvrp.io.command_line import Parser, UserError
from jaxvrp.io.json_files import read_json
from train import aligned, entry

KEPT = Path(__file__).parent / "results" / "guard_cpu.json"
LEAST = 0.25
"""Share of the kept ratio below which an environment counts as much slower."""

BATCH, STEPS, REPEATS, SECONDS = 64, 100, 3, 0.1


def cases() -> Iterator[Case]:
    """One of each environment that has a reference and a tiny size."""
    for env in jaxvrp.registered():
        if (size := subject_of(env).tiny) is not None:
            yield Case(env, size, BATCH, STEPS, REPEATS, SECONDS)


def ratios(records: Iterable[Record]) -> dict[str, float]:
    """Median over the repeats of the ratio to the reference, by row."""
    found = {}
    for record in records:
        rates = record["steps_per_second"]
        pairs = zip(rates["jax"], rates["numpy"], strict=True)
        name = f"{record['env']} {tuple(record['size'])} batch {record['batch']}"
        found[name] = Spread.of(jax / beside for jax, beside in pairs).median
    return found


def kept_ratios(path: Path) -> dict[str, float]:
    """The ratios that a file of `--write` holds.

    Raises:
        UserError: there is no such file.
    """
    try:
        return ratios(read_json(path, "give a file that --write wrote")["cases"])
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; run python -m benchmarks.guard --write") from None


def measure_fast_compiled(case: Case) -> Record:
    """What `measure_apart` measures of a case, compiled fast.

    Raises:
        UserError: it could not be measured.
    """
    record = measure_apart(case, variables=fast_compilation.variables())
    if "error" in record:
        raise UserError(f"{case.env} cannot be measured: {record['error']}")
    return record


def main(
    argv: Sequence[str] | None = None, run: Callable[[Case], Record] = measure_fast_compiled, kept: Path = KEPT
) -> None:
    """The command line; `run` measures one case, and `kept` is the file of the ratios.

    Raises:
        UserError: a case could not be measured, or was not kept.
    """
    parser = Parser("benchmarks.guard", "Whether an environment has become much slower than it was.")
    parser.add_argument("--write", action="store_true", help="keep what is measured now")
    argv = sys.argv[1:] if argv is None else list(argv)
    args = parser.parse_args(argv)
    before = {} if args.write else kept_ratios(kept)
    records = [run(case) for case in measure.progress(list(cases()), "environment")]
    if args.write:
        header = measure.machine(["python", "-m", "benchmarks.guard", *argv], records[0]["device"])
        measure.write_result(kept, {"machine": header, "cases": records})
        return
    rows, slow = [["row", "ratio", "kept", "share"]], []
    for name, ratio in ratios(records).items():
        if name not in before:
            raise UserError(f"{kept} has no row '{name}'; run python -m benchmarks.guard --write")
        share = ratio / before[name]
        rows.append([name, f"{ratio:.3g}x", f"{before[name]:.3g}x", f"{share:.2f}"])
        slow += [name] if share < LEAST else []
    print(aligned(rows))
    if slow:
        print(f"\nmuch slower than they were: {', '.join(slow)}")
        sys.exit(1)


if __name__ == "__main__":
    entry(main)
