"""Plans as files: `.json` has all of a plan, `.csv` what happens in it, a line each."""

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
        events: what is to be a line each of a table; of a plan, every one has all `columns`.
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
    """For a plan: of constraints, those that are broken; each has `count`, and `first_node`, the first at which."""
    found = {name: each for name, each in violations.items() if each.count}
    return {name: {"count": each.count, "first_node": each.first_node} for name, each in found.items()}
