"""Sheets of a plan, tables for people: one for each vehicle; as HTML below the page that plays the plan."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from jaxvrp.toolbox import Sheet

TABLES = (("events", "who"), ("stops", "vehicle"), ("ways", "who"), ("parts", ""))
"""Where plans have their table, and the column that names the vehicle."""

IDLE = "nothing to do"

LONG = 1e5
"""Numbers from here on, as of clocks and maps that begin elsewhere, have all their digits."""


def plan_sheets(plan: Mapping[str, Any]) -> list[Sheet]:
    """The table of a plan, a sheet for each vehicle, also idle ones; columns without any entry are left out."""
    table, vehicle = next(((name, column) for name, column in TABLES if name in plan), ("", ""))
    entries = plan.get(table, ())
    first = entries[0] if entries else {}
    columns = tuple(name for name in first if name != vehicle and any(_shown(each[name]) for each in entries))
    routes = plan.get("routes", ()) if vehicle else ()
    names = routes if isinstance(routes, Mapping) else range(len(routes))
    sheets = []
    for name in dict.fromkeys([*names, *(each.get(vehicle, table) for each in entries)]):
        own = [each for each in entries if each.get(vehicle, table) == name]
        title = str(name) if not vehicle or isinstance(name, str) else f"{vehicle} {name}"
        sheets.append(Sheet(title, "", columns, tuple(tuple(_shown(each[key]) for key in columns) for each in own)))
    return sheets


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < LONG else f"{round(value, 3):.15g}"
    return "" if value is None else str(value)


def to_html(sheets: Sequence[Sheet]) -> str:
    """A section with all sheets."""
    if not sheets:
        return ""
    return f'<section id="sheets" aria-label="Sheets">\n{"".join(map(_table, sheets))}</section>'


def _table(sheet: Sheet) -> str:
    title, note = sheet.title, " · ".join(filter(None, (sheet.note, "" if sheet.rows else IDLE)))
    title, note = html.escape(title), html.escape(note)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in sheet.columns)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in sheet.rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>"
    return (
        f'<section class="card sheet"><header><h2>{title}</h2><span>{note}</span></header>\n'
        f'<div class="wide-table">{table}</div></section>\n'
    )
