"""What stands around the pictures of boards: legends below them, and headlines of figures above animated ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxvrp import pictures

LEGEND_ROW = 0.22
"""Inches that a row of a legend takes."""

FRAME_DPI = 100
"""Of animations and of the pictures of every step."""


def count_rows(entries: list[Any], columns: int) -> int:
    """Rows of a legend with these entries."""
    return -(-len(entries) // columns)


def draw_legend(sheet: pictures.Sheet, entries: list[Any], columns: int, left: float, top: float) -> None:
    """A legend whose upper left corner is at a place given in inches from the sheet's lower left one."""
    corner = sheet.place(left, top)
    pictures.legend(sheet.figure, entries, ncols=columns, loc="upper left", bbox_to_anchor=corner, handletextpad=0.5)


def new_headline(sheet: pictures.Sheet, left: float, below_top: float, fontsize: float) -> Any:
    """A line of text above everything, without words yet, at a place given in inches; its letters have one width."""
    style = {"fontsize": fontsize, "family": "monospace", "va": "center", "color": pictures.INK}
    return sheet.text(left, sheet.height - below_top, "", **style)


def join_words(parts: Iterable[str]) -> str:
    """Parts of a heading on one line."""
    return "  |  ".join(parts)
