"""What got slower from one result to another, beyond the noise of its repeats.

python -m benchmarks.compare OLD.json NEW.json

Both are files that a benchmark of speed wrote (`--out`). A row is slower if even its fastest repeat is below the
slowest repeat of the old file. Where all rows have a NumPy reference, measured in turn with them, the ratios to it are
compared, so that a busier or another machine is not taken for a slower program. Exit status 1 if a row is slower.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Spread, rate
from jaxvrp.io.command_line import Parser, UserError
from jaxvrp.io.json_files import read_json
from train.running.command import command_line
from train.running.shown.tables import aligned

MACHINE = ("device", "cpu", "cores", "jax", "jaxlib")
"""Entries of a header that two results must share for their rates to be comparable."""

SLOWER, SAME, FASTER = "slower", "same", "faster"


@dataclasses.dataclass(frozen=True)
class Speeds:
    """Repeats of one row, in steps per second.

    Attributes:
        rates: of what is measured.
        reference: of the reference beside it, each in turn with a repeat; empty if there was none.
    """

    rates: tuple[float, ...]
    reference: tuple[float, ...] = ()

    @property
    def ratios(self) -> tuple[float, ...]:
        """Rates over those of the reference, of the same repeat."""
        return tuple(rate / beside for rate, beside in zip(self.rates, self.reference, strict=True))


def read_cases(cases: Sequence[dict[str, Any]]) -> dict[str, Speeds]:
    """The rows of a result of `benchmarks.throughput`, by name."""
    return dict(_throughput(cases))


def read_speeds(path: Path) -> tuple[dict[str, Any], dict[str, Speeds]]:
    """The header of a result, and its rows by name; those that failed are left out.

    Raises:
        UserError: no such file, or one that no benchmark of speed wrote.
    """
    try:
        content = read_json(path, "give a file that --out wrote")
        kind = next(kind for kind in READERS if kind in content)
        speeds = dict(READERS[kind](content[kind]))
        return dict(content["machine"]), speeds
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; give a file that --out wrote") from None
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        raise UserError(f"{path} is no result of a benchmark of speed; give a file that --out wrote") from None


def _throughput(cases: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Speeds]]:
    for case in (case for case in cases if "error" not in case):
        figures = case["steps_per_second"]
        # The first results of truck_drone did not name it.
        name = f"{case.get('env', 'truck_drone')} {tuple(case['size'])} batch {case['batch']}"
        changed = ", ".join(f"{key} {value}" for key, value in case.get("parameters", {}).items())
        yield (
            f"{name}, {changed}" if changed else name,
            Speeds(_numbers(figures["jax"]), _numbers(figures.get("numpy", ()))),
        )


def _training(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Speeds]]:
    for row in rows:
        yield f"{row['network']} {tuple(row['size'])}", Speeds(_numbers(row["steps_per_second"]))


READERS: dict[str, Callable[[Any], Iterator[tuple[str, Speeds]]]] = {"cases": _throughput, "rows": _training}
"""By the entry of a file that holds its rows."""


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    numbers = tuple(map(float, values))
    if not all(0 < number < float("inf") for number in numbers):
        raise ValueError("a rate is no number above 0")
    return numbers


def verdict(old: Sequence[float], new: Sequence[float]) -> str:
    """`SLOWER` or `FASTER` if the ranges of the repeats do not overlap, else `SAME`."""
    before, after = Spread.of(old), Spread.of(new)
    if after.high < before.low:
        return SLOWER
    return FASTER if after.low > before.high else SAME


def compared(old: Speeds, new: Speeds, *, by_ratio: bool) -> tuple[str, float]:
    """The verdict on a row, and its median over the old one; by ratios to the reference, if wanted and measured."""
    if by_ratio and old.reference and new.reference:
        before, after = old.ratios, new.ratios
    else:
        before, after = old.rates, new.rates
    return verdict(before, after), Spread.of(after).median / Spread.of(before).median


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; exit status 1 if a row is slower.

    Raises:
        UserError: a file that cannot be read, or files without a row in common.
    """
    parser = Parser("benchmarks.compare", "What got slower from one result to another, beyond the noise.")
    parser.add_argument("old", type=Path, help="JSON file that a benchmark wrote")
    parser.add_argument("new", type=Path, help="the same, later")
    args = parser.parse_args(argv)
    (old_machine, old), (new_machine, new) = read_speeds(args.old), read_speeds(args.new)
    names = [name for name in old if name in new]
    if not names:
        raise UserError(f"{args.old} and {args.new} have no row in common; measure the same sizes and batches")
    differing = [name for name in MACHINE if old_machine.get(name) != new_machine.get(name)]
    by_ratio = all(old[name].reference and new[name].reference for name in names)
    verdicts = {name: compared(old[name], new[name], by_ratio=by_ratio) for name in names}
    print(_table(old, new, verdicts, by_ratio=by_ratio))
    _print_remarks(differing, len(old.keys() ^ new.keys()), by_ratio=by_ratio)
    slower = [name for name, (word, _) in verdicts.items() if word == SLOWER]
    print(f"\n{len(slower)} of {len(names)} rows are slower" + (f": {', '.join(slower)}" if slower else ""))
    if slower:
        sys.exit(1)


def _table(
    old: dict[str, Speeds], new: dict[str, Speeds], verdicts: dict[str, tuple[str, float]], *, by_ratio: bool
) -> str:
    rows = [["row", "old", "new", "new / old" + (", of ratios" if by_ratio else ""), ""]]
    for name, (word, factor) in verdicts.items():
        medians = [rate(Spread.of(speeds[name].rates).median) for speeds in (old, new)]
        rows.append([name, *medians, f"{factor:.2f}", word])
    return aligned(rows)


def _print_remarks(differing: Sequence[str], num_unmatched: int, *, by_ratio: bool) -> None:
    if by_ratio:
        print("\ncompared are the ratios to the reference of the same run, so that the machine's own speed cancels")
    if differing and not by_ratio:
        print(f"\nthe files differ in {', '.join(differing)}, so what differs may be the machine")
    if num_unmatched:
        print(f"\n{num_unmatched} rows are in one of the files only")


if __name__ == "__main__":
    command_line.entry(main)
