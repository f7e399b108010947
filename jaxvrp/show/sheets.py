"""The sheets of a plan as HTML, below the page that plays the plan."""

from __future__ import annotations

import html
from collections.abc import Sequence

from jaxvrp.io.problems.plan_files import Link, Sheet

IDLE = "nothing to do"

SIDES, MARGIN = (460.0, 240.0), 12.0
"""Pixels of a map of a tour: the most each way, and around it."""


def to_html(sheets: Sequence[Sheet]) -> str:
    """A section with all sheets."""
    if not sheets:
        return ""
    return f'<section id="sheets" aria-label="Sheets">\n{"".join(map(_table, sheets))}</section>'


def _table(sheet: Sheet) -> str:
    title, note = sheet.title, " · ".join(filter(None, (sheet.note, "" if sheet.rows else IDLE)))
    title, note = html.escape(title), html.escape(note)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in sheet.columns)
    rows = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>\n" for row in sheet.rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>"
    return (
        f'<section class="card sheet"><header><h2>{title}</h2><span>{note}</span></header>\n'
        f'{_tour(sheet)}<div class="wide-table">{table}</div></section>\n'
    )


def _cell(cell: str | Link) -> str:
    if isinstance(cell, str):
        return html.escape(cell)
    return f'<a href="{html.escape(cell.address)}">{html.escape(cell.text)}</a>'


def _tour(sheet: Sheet) -> str:
    """A small map of the tour: its stops are numbered in their order."""
    if not sheet.tour:
        return ""
    places = [place for place, _ in sheet.tour]
    low, high = ([edge(place[axis] for place in places) for axis in (0, 1)] for edge in (min, max))
    scale = min(side / (most - least or 1) for side, least, most in zip(SIDES, low, high, strict=True))
    width, height = (scale * (most - least) + 2 * MARGIN for least, most in zip(low, high, strict=True))
    points = [(MARGIN + scale * (x - low[0]), MARGIN + scale * (high[1] - y)) for x, y in places]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    marks, number = "", 0
    for (x, y), (_, is_stop) in zip(points, sheet.tour, strict=True):
        number += is_stop
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7"/>' if is_stop else ""
        marks += shape or f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"/>'
        marks += f'<text x="{x:.1f}" y="{y:.1f}">{number}</text>' if is_stop else ""
    label = html.escape(f"The tour of {sheet.title}")
    return (
        f'<svg class="tour" role="img" aria-label="{label}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">'
        f'<polyline points="{line}"/>{marks}</svg>\n'
    )
