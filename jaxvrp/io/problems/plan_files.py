"""Plans as files, and as sheets, tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ENDINGS = (".json", ".csv")
"""Of files with plans: `.json` holds a whole plan, `.csv` its events, a line each."""

LONG = 1e5
"""Numbers from here on, as of clocks and maps that begin elsewhere, have all their digits."""


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
    columns = tuple(name for name in first if name != vehicle and any(words_of(each[name]) for each in entries))
    routes = plan.get("routes", ()) if vehicle else ()
    names = routes if isinstance(routes, Mapping) else range(len(routes))
    sheets = []
    for name in dict.fromkeys([*names, *(each.get(vehicle, table) for each in entries)]):
        rows = [each for each in entries if each.get(vehicle, table) == name]
        title = str(name) if not vehicle or isinstance(name, str) else f"{vehicle} {name}"
        sheets.append(Sheet(title, "", columns, tuple(tuple(words_of(each[key]) for key in columns) for each in rows)))
    return sheets


def words_of(value: Any) -> str:
    """An entry of a table for people; "" for what is not there, or not so."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < LONG else f"{round(value, 3):.15g}"
    return "" if value is None else str(value)
