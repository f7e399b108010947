"""Plans as files: `.json` holds the whole plan, `.csv` its events, a line each; and as sheets, tables for people."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxvrp.io.whole_files import write_csv, write_json

ENDINGS = (".json", ".csv")
"""Of the files that plans are written to."""

LONG = 1e5
"""Numbers from here on, as of clocks and maps that begin elsewhere, have all their digits."""


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


class Link(NamedTuple):
    """A cell that leads to another page."""

    text: str
    address: str


class Sheet(NamedTuple):
    """A table of a plan for people: of one vehicle, say; `tour`: its places, and whether each is numbered on a map."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Link, ...], ...]
    tour: tuple[tuple[tuple[float, float], bool], ...] = ()


def plan_sheets(plan: Mapping[str, Any], table: str, vehicle: str) -> list[Sheet]:
    """The `table` of a plan, a sheet for each entry of the column `vehicle`, also for vehicles that are idle.

    Without such a column ("") there is one sheet. Columns without any entry are left out.
    """
    entries = plan.get(table, ())
    first = entries[0] if entries else {}
    columns = tuple(name for name in first if name != vehicle and any(_shown(each[name]) for each in entries))
    routes = plan.get("routes", ()) if vehicle else ()
    names = routes if isinstance(routes, Mapping) else range(len(routes))
    sheets = []
    for name in dict.fromkeys([*names, *(each.get(vehicle, table) for each in entries)]):
        rows = [each for each in entries if each.get(vehicle, table) == name]
        title = str(name) if not vehicle or isinstance(name, str) else f"{vehicle} {name}"
        sheets.append(Sheet(title, "", columns, tuple(tuple(_shown(each[key]) for key in columns) for each in rows)))
    return sheets


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < LONG else f"{round(value, 3):.15g}"
    return "" if value is None else str(value)
