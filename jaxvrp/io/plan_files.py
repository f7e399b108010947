"""Plans as files: `.json` holds the whole plan, `.csv` its events, a line each."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxvrp.io.whole_files import write_json, write_text

ENDINGS = (".json", ".csv")
"""Of the files that plans are written to."""


def write_plan(
    path: str | os.PathLike, plan: Mapping[str, Any], events: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    """Write a plan, whole or not at all.

    Args:
        path: ends in one of `ENDINGS`.
        plan: a JSON object.
        events: the lines of the table; each has all `columns`.
        columns: of the table, in order.

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
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(events)
    write_text(path, table.getvalue())


def broken(violations: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The broken constraints of a plan; each has `count`, and `first_node`, where it is broken first."""
    found = {name: each for name, each in violations.items() if each.count}
    return {name: {"count": each.count, "first_node": each.first_node} for name, each in found.items()}
