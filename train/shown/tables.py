"""Aligned tables of figures, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.card import Headline
from jaxvrp.io.messages import printable


def figures_table(figures: dict[str, dict[str, Any]], headlines: Sequence[Headline]) -> str:
    """The aligned table of several players on the same instances, one row each; without headlines, of all figures."""
    columns = column_titles(next(iter(figures.values())), headlines)
    rows = [["", *columns.values()]]
    for name, values in figures.items():
        rows.append([name, *(_cell(values[key]) for key in columns)])
    return aligned(rows)


def column_titles(figures: Mapping[str, Any], headlines: Sequence[Headline]) -> dict[str, str]:
    """The columns of a table by name, with their titles, from the figures of any player; of agents, one for each."""
    named: dict[str, str] = {}
    for headline in headlines:
        name, title = headline.figure, headline.title
        agents = {f"{name}_{agent}": f"{title} {agent}" for agent in range(len(figures))}
        found = {name: title} if name in figures else {key: head for key, head in agents.items() if key in figures}
        named |= found if found or headline.optional else {name: title}
    return {"return": "return", **(named or {key: key for key in figures}), "length": "steps"}


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
        return f"{_number(np.mean(value))} ± {_number(deviation_of(np.array(value)))}"
    return _number(value)


def deviation_of(values: np.ndarray) -> np.ndarray:
    """The standard deviation of a sample, along the last axis, of two or more seeds."""
    return values.std(axis=-1, ddof=1)


def _number(value: Any) -> str:
    """Three decimals, or two digits of what is smaller than 0.01."""
    return f"{value:.2g}" if 0.0 < abs(value) < 0.01 else f"{value:.3f}"
