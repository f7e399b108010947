"""What the names of a story look like in figures: `STANDINGS`, `ACTIVITIES` and `LOOKS` as colours, marks and words."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxvrp.show.drawing.palette import (
    BESIDE_STATUS,
    BLUE,
    EDGE,
    INK,
    LATE,
    LOST,
    NOTE,
    ON_TIME,
    PALE,
    RIGHT,
    SERIES,
    WAITING,
)
from jaxvrp.story import ACTIVITIES, Bar, Place, Standing, Story

SHAPES = {"depot": "s", "node": "s", "customer": "o", "pickup": "^", "drop-off": "v", "": "o"}
"""Markers of the kinds of places."""

SHADES = {
    "rests": "#D3D8DD",
    "moves": "#C9E1F4",
    "serves": "#CDE8D6",
    "waits": "#F5E3A8",
    "aboard": "#F1F3F5",
    "returns": "#A9BBD8",
    "crashed": "#E2938A",
}
"""What a vehicle was doing, as a ground behind its level."""

WINDOWS = {"window": "#BCD6EC", "second window": "#E2D8C3"}

WORDS = {
    "closed": "window not open",
    "open": "not served yet",
    "overdue": "deadline over",
    "asked": "asked now",
    "late": "served late",
    "moves": "on the way",
    "aboard": "on board",
    "node": "place to stop at",
}
"""What standings, activities and kinds are called, where that is not their name."""

DASHES: tuple[Any, ...] = (
    *("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))),
    *((0, (10, 2)), (0, (3, 1)), (0, (6, 1.2, 1.2, 1.2, 1.2, 1.2)), (0, (2, 2))),
)
"""Of vehicles, which these tell apart in grey."""

FLIGHTS: tuple[Any, ...] = ((0, (4, 2)), (0, (1.2, 1.2)))
"""Of drones beside trucks."""


MANY = 60
"""Places from which on dashes would not be told apart."""


class Mark(NamedTuple):
    """How a place stands on the map: a marker of matplotlib, its colours, and the width of its edge by its size."""

    shape: str
    face: str
    edge: str
    width: float


class Looks:
    """The looks of a story, which depend on what its colours mean: vehicles, or standings."""

    def __init__(self, story: Story):
        self.story = story
        self.colours = SERIES if story.by_vehicle else BESIDE_STATUS
        self.late = LOST if story.by_vehicle else LATE
        kinds = {vehicle.kind for vehicle in story.vehicles}
        self._flights = story.by_vehicle and "drone" in kinds
        self._dashes = story.by_vehicle and len(story.places) <= MANY

    def words(self, name: str) -> str:
        """What a standing, an activity or a kind is called; "" if it should not be mentioned."""
        usual = self.story.shortfall.lower() if name == "lost" else WORDS.get(name, name)
        return self.story.words.get(name, usual)

    def colour(self, vehicle: int | None) -> str:
        """The colour of a vehicle, by index; ink for nobody."""
        number = None if vehicle is None else self.story.vehicles[vehicle].colour
        return INK if number is None else self.colours[number % len(self.colours)]

    def line(self, vehicle: int) -> dict[str, Any]:
        """Colour and dashes of a vehicle; fleets larger than the palette repeat its colours with other dashes."""
        number = self.story.vehicles[vehicle].colour or 0
        again = number // len(self.colours)
        if self._flights:
            is_drone = self.story.vehicles[vehicle].kind == "drone"
            dashes = FLIGHTS[again % 2] if is_drone else DASHES[again % len(DASHES)]
        else:
            dashes = DASHES[(again + number * self._dashes) % len(DASHES)]
        return {"color": self.colour(vehicle), "linestyle": dashes}

    def mark(self, place: Place, standing: Standing) -> Mark | None:
        """The mark of a place; None while it is hidden."""
        shape, colour = SHAPES[place.kind], self.colour(standing.vehicle)
        by_vehicle, is_served = self.story.by_vehicle, standing.name in ("served", "late")
        if standing.name == "hidden":
            return None
        if is_served and by_vehicle:
            is_flown = standing.vehicle is not None and self.story.vehicles[standing.vehicle].kind == "drone"
            shape = "^" if is_flown and place.kind == "customer" else shape
            return Mark(shape, colour, *(("white", 0.07) if standing.name == "served" else (LOST, 0.16)))
        if is_served:
            face, edge = ON_TIME if standing.name == "served" else LATE, colour
            return Mark(shape, face, "white" if standing.vehicle is None else edge, 0.14)
        faces = {"closed": "white", "lost": "white", "asked": "white"}
        edges = {"overdue": self.late, "lost": LOST, "asked": INK, "promised": colour}
        return Mark(shape, faces.get(standing.name, WAITING), edges.get(standing.name, EDGE), 0.13)

    def dot(self, look: str, vehicle: int | None, shape: str) -> Mark:
        """The mark of a moment in a chart, in the colours that the place has on the map."""
        if look == "lost":
            return Mark("x", LOST, LOST, 0.35)
        if self.story.by_vehicle and (vehicle is not None or look in ("service", "late")):
            return Mark(SHAPES[shape], self.colour(vehicle), *((LOST, 0.2) if look == "late" else ("white", 0.1)))
        return Mark(SHAPES[shape], self.count(look), "white" if vehicle is None else self.colour(vehicle), 0.15)

    def bar(self, bar: Bar) -> dict[str, Any]:
        """The style of a bar: a patch of matplotlib."""
        if bar.look in ("wait", "waits"):
            return {"facecolor": "white", "edgecolor": EDGE, "linewidth": 0.5, "hatch": "////"}
        fixed = {**WINDOWS, "known": NOTE, "aboard": PALE, "rests": PALE, "late ride": LOST, "delay": self.late}
        face = fixed.get(bar.look, LOST if bar.look == "crashed" else self.colour(bar.vehicle))
        return {"facecolor": face, "edgecolor": "white", "linewidth": 0.5 if bar.look in ACTIVITIES else 0.0}

    def count(self, look: str) -> str:
        """The colour of what is in that of no vehicle."""
        return {"on time": ON_TIME, "gain": RIGHT, "late": self.late, "lost": LOST, "crashed": LOST}.get(look, BLUE)
