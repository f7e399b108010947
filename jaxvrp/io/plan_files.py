"""Plans as files: `.json` holds the whole plan, `.csv` its events, a line each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxvrp.io.whole_files import write_csv, write_json

ENDINGS = (".json", ".csv")
"""Of the files that plans are written to."""


def write_plan(
    path: str | os.PathLike, plan: Mapping[str, Any], events: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    """Write a plan, a JSON object, or the table of its events, which have all `columns`; whole or not at all.

    Raises:
        ValueError: another ending.
        OSError: the file cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in ENDINGS:
        raise ValueError(f"a plan is written to {' or '.join(ENDINGS)}, not to '{Path(path).name}'")
    if suffix == ".json":
        write_json(path, plan)
        return
    write_csv(path, [columns, *([event.get(name) for name in columns] for event in events)])


def broken(violations: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The broken constraints of a plan; each has `count`, and `first_node`, where it is broken first."""
    found = violations.items()
    return {name: {"count": each.count, "first_node": each.first_node} for name, each in found if each.count}


def verdict(violations: Mapping[str, Any], place: Callable[[str, Any], str], most: int = 3) -> str:
    """'feasible', or the first `most` kinds of violations, each with its count and its first place.

    `place` says where a constraint is broken first: `(constraint, violation) -> words`.
    """
    found = violations.items()
    words = [
        f"{name.replace('_', ' ')} {each.count} (first: {place(name, each)})" for name, each in found if each.count
    ]
    if not words:
        return "feasible"
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return "not feasible: " + ", ".join(words[:most] + more)


def table_writer(table: str, columns: Sequence[str]) -> Callable[[Any, str | os.PathLike, Mapping[str, Any]], None]:
    """`(problem, path, plan)`: writes a plan by `write_plan`; a `.csv` has a line for each entry of `plan[table]`."""
    return lambda problem, path, plan: write_plan(path, plan, plan[table], columns)
