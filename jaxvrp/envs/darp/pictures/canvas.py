"""What the parts of a dial-a-ride picture share: colours, symbols, and a figure whose artists appear one by one.

matplotlib is imported inside the functions of all parts; nothing goes through pyplot.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxvrp import pictures
from jaxvrp.envs.darp.pictures.plan import Plan

# Okabe and Ito's palette and darker relatives; red is kept for what went wrong. The dashes tell vehicles apart in grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#7A4A1E", "#332288", "#7F8C9B")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (10, 2)),
    (0, (3, 1)),
    (0, (6, 1.2, 1.2, 1.2, 1.2, 1.2)),
    (0, (2, 2)),
)
WRONG, RIGHT, WAITING, INK = "#C62828", "#00734F", "#A4ABB3", pictures.INK
PICKUP_WINDOW, DROP_OFF_WINDOW = "#BCD6EC", "#E2D8C3"
MARKERS = ("v", "^")
"""By the node's parity: drop-offs point down, pickups up."""

SMALLEST_LETTERS = 6.5
"""Pixels; smaller letters are left out."""

MANY = 24
"""From so many requests on, the map has smaller symbols."""


@dataclasses.dataclass
class Picture:
    """A figure in the making.

    Attributes:
        plan: what it shows.
        figure: of matplotlib.
        map, loads, rows: its axes.
        headline: the text on top.
        events: artists, each with the number of legs after which it belongs to the picture.
    """

    plan: Plan
    figure: Any
    map: Any
    loads: Any
    rows: Any
    headline: Any
    events: list[tuple[int, Any]] = dataclasses.field(default_factory=list)

    @property
    def end(self) -> int:
        """The moment after all legs."""
        return len(self.plan.legs)

    def add(self, moment: int, *artists: Any) -> None:
        """Artists that belong to the picture from `moment` on."""
        self.events += [(moment, artist) for artist in artists]

    def letters(self, size: float) -> float:
        """`size` in points, or 0 if nobody could read that."""
        return size if size * self.figure.dpi / 72 >= SMALLEST_LETTERS else 0.0


def line_style(vehicle: int) -> dict[str, Any]:
    """Colour and dashes; fleets larger than the palette repeat its colours with other dashes."""
    turn = vehicle + vehicle // len(COLOURS)
    return {"color": COLOURS[vehicle % len(COLOURS)], "linestyle": DASHES[turn % len(DASHES)]}


def colour_of(vehicle: int) -> str:
    """Of a vehicle."""
    return line_style(vehicle)["color"]
