"""The sheets of a plan as HTML, below the page that plays the plan."""

from __future__ import annotations

import html
from collections.abc import Sequence

from jaxvrp.io.plan_files import Sheet

IDLE = "nothing to do"


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
