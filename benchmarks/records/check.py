"""Checks records: the set, every plan, and every figure, in NumPy, from the decisions of the plans alone.

python -m benchmarks.records.check
python -m benchmarks.records.check RECORD.json
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.records import published
from benchmarks.records.sets import find_set, generate
from jaxvrp.io.command_line import Parser, UserError
from jaxvrp.io.json_files import read_json
from jaxvrp.io.messages import cut, printable, shown
from train import entry

FORMAT = "jaxvrp-record-1"

RECORDS = pathlib.Path(__file__).parents[1] / "results" / "records"
"""What is checked where no record is named."""

TOLERANCE = 1e-9
"""Share by which a number may differ: other machines sum in another order."""


def figures_of(plans: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The means of all numbers that every plan has, see `jaxvrp.Problems.recompute`."""
    numbers = [name for name, value in plans[0].items() if isinstance(value, int | float)]
    return {name: float(np.mean([plan[name] for plan in plans])) for name in numbers}


def check(record: Any, source: str) -> None:
    """Compute again what a record says, but for times, versions and machine, which cannot be.

    Raises:
        UserError: it says something else; one line that begins with `source`.
        AttributeError, LookupError, TypeError, ValueError: it lacks something, or is damaged.
    """
    if record["format"] != FORMAT:
        raise UserError(f"{source} is no record: its format is {shown(record['format'])}; it must be {FORMAT}")
    name, version, checksum = (record["set"][key] for key in ("name", "version", "checksum"))
    known = find_set(name)
    if (version, checksum) != (known.problems.version, known.problems.checksum):
        raise UserError(f"{source} is of another version of {name}, or its checksum is wrong")
    problems = generate(name, known)
    if len(problems) != len(record["plans"]):
        raise UserError(f"{source} has {len(record['plans'])} plans for the {len(problems)} problems of {name}")
    plans = []
    for row, (problem, plan) in enumerate(zip(problems, record["plans"], strict=True)):
        try:
            plans.append(known.recompute(problem, plan))
        except ValueError as error:
            raise UserError(f"{source}: plan {row} is not feasible: {error}") from None
        _compare(plan, plans[-1], f"{source}: plan {row}")
    _compare(record["figures"], figures_of(plans), f"{source}: figures")


def _compare(said: Mapping[str, Any], found: Mapping[str, Any], place: str) -> None:
    for name in {**found, **said}:
        if name not in found or name not in said:
            raise UserError(f"{place}: {shown(name)} is {'missing' if name in found else 'no figure'}")
        if not _is_same(said[name], found[name]):
            raise UserError(f"{place}: {cut(name)} is {shown(said[name])}; from the plan follows {shown(found[name])}")


def _is_same(said: Any, found: Any) -> bool:
    if isinstance(found, float):
        return type(said) in (int, float) and math.isclose(said, found, rel_tol=TOLERANCE)
    return type(said) is type(found) and said == found


def shown_record(record: Mapping[str, Any]) -> str:
    """One line: set, player, figures and seconds."""
    figures = ", ".join(f"{name} {value:.2f}" for name, value in record["figures"].items())
    player = printable(", ".join(f"{name} {value}" for name, value in record["player"].items()), 200)
    cpu = record["seconds_per_problem"]["cpu"]
    return f"{record['set']['name']}, {len(record['plans'])} problems; {player}: {figures}; {cpu:.2g} CPU s a problem"


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: says that records are right, or what is wrong."""
    parser = Parser("benchmarks.records.check", "Check records: their sets or published files, plans, and figures.")
    parser.add_argument(
        "record", metavar="RECORD", nargs="*", help="files that runs wrote (default: those of benchmarks/results)"
    )
    args = parser.parse_args(argv)
    for source in args.record or sorted(map(str, RECORDS.rglob("*.json"))):
        try:
            record = read_json(source, "give a record")
        except ValueError as error:
            raise UserError(str(error)) from None
        is_published = isinstance(record, dict) and record.get("format") == published.FORMAT
        try:
            print(checked_published(record, source) if is_published else checked(record, source))
        except OSError as error:
            if args.record:
                raise UserError(f"{source} cannot be checked: {error}") from None
            print(f"{source} was not checked: {error}")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise UserError(f"{source} is damaged: {type(error).__name__}: {error}") from None


def checked(record: Any, source: str) -> str:
    """What is said of a record that is right."""
    check(record, source)
    return f"{shown_record(record)}\nset, plans and figures are right"


def checked_published(record: Any, source: str) -> str:
    """Likewise, of plans for published problems."""
    return f"{printable(published.check(record, source), 200)}\nplans and costs are right"


if __name__ == "__main__":
    entry(main)
