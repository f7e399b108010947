"""Aligned tables of figures, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxvrp.card import Headline
from jaxvrp.io.messages import printable


def figures_table(figures: dict[str, dict[str, Any]], headlines: Sequence[Headline]) -> str:
    """The aligned table of several players on the same instances, one row each; without headlines, of all figures."""
    first = next(iter(figures.values()))
    shown = [headline for headline in headlines if not headline.optional or headline.figure in first]
    named = {headline.figure: headline.title for headline in shown} or {key: key for key in first}
    columns = {"return": "return", **named, "length": "steps"}
    rows = [["", *columns.values()]]
    for name, values in figures.items():
        rows.append([name, *(_cell(values[key]) for key in columns)])
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, numbers to the right, a rule under the head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    name_width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append("  ".join([name.ljust(name_width), *numbers]))
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cell(value: Any) -> str:
    """A number, or mean and standard deviation over seeds."""
    if isinstance(value, list):
        return f"{_number(np.mean(value))} ± {_number(np.std(value))}"
    return _number(value)


def _number(value: Any) -> str:
    """Three decimals, or two digits of what is smaller than 0.01."""
    return f"{value:.2g}" if 0.0 < abs(value) < 0.01 else f"{value:.3f}"
