"""The map of a story at a time: places as they stand, ways so far, names; what never changes is drawn apart."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from jaxvrp.io.messages import cut
from jaxvrp.show.drawing.palette import EDGE, FAINT, FRAME, GRID, GROUND, INK, LOST, NOTE, text_colour
from jaxvrp.show.drawing.paper import centred, inches_square, legend_entry, legible, outline, place_labels, scale_bar
from jaxvrp.show.looks import SHAPES, Looks, Mark
from jaxvrp.story import STANDINGS, Place, Region, Standing, Story, Vehicle, held

FEW = 12
"""Up to so many customers, who served is written beside them; so many vehicles are named one by one."""

LONGEST = 16
"""Letters of a name in a legend, and before a chart."""

INSIDE = 9.5
"""Points of a circle from which on its number stands inside."""


class Way:
    """The track of a vehicle, cut where it is on board of another."""

    def __init__(self, vehicle: Vehicle):
        self.times = np.array([time for time, _ in vehicle.track])
        self.places = np.array([place for _, place in vehicle.track], float).reshape(-1, 2)
        middles = (self.times[1:] + self.times[:-1]) / 2
        hosts = [held(vehicle.hosts, time) for time in middles]
        self.rides = np.array([host is not None and host[1] is not None for host in hosts], bool)  # to the next place

    def at(self, time: float) -> np.ndarray:
        """Where it is, `f64[2]`."""
        return np.array([np.interp(time, self.times, axis) for axis in self.places.T])

    def line(self, since: float, until: float) -> np.ndarray:
        """Where it went by itself between two times, `f64[P, 2]`; NaN where a line ends and another one begins."""
        inside = np.flatnonzero((self.times > since) & (self.times < until))
        places = np.concatenate([[self.at(since)], self.places[inside], [self.at(until)]])
        first = int((self.times <= since).sum()) - 1
        rides = np.append(self.rides, False)[np.clip(np.append(first, inside), 0, None)]
        return np.insert(places, np.flatnonzero(rides) + 1, np.nan, axis=0)


def end_of(story: Story) -> float:
    """When all has happened."""
    ends = [vehicle.track[-1][0] for vehicle in story.vehicles if vehicle.track]
    changes = [place.standings[-1].time for place in story.places if place.standings]
    return max([story.span[0], *story.clocks[-1:], *ends, *changes])


def standing_at(place: Place, time: float) -> Standing:
    """How it stands with a place; hidden before its first standing."""
    return held(place.standings, time) or Standing(time, "hidden")


def requests_of(story: Story, end: str) -> list[Place]:
    """A place for each request: its `end`, "pickup" or "drop-off", where it has that, else its only place."""
    changing = [place for place in story.places if place.standings]
    return [place for place in changing if place.kind == end] or changing


class Name(NamedTuple):
    """A text at a place: the number inside, or words beside it, which may say who served it when."""

    text: Any
    place: Place
    is_number: bool = False
    says_service: bool = False


class RouteMap:
    """A map in axes: what never changes; marks, ways and names are added by those who draw a still or an animation.

    Sizes of marks and letters are in typographic points; `point` is how many units of the map such a point is.
    """

    def __init__(self, story: Story, axes: Any):
        self.story, self.axes, self.looks = story, axes, Looks(story)
        self.ways = [Way(vehicle) for vehicle in story.vehicles]
        self.centre, self.half = _extent(story, self.ways)
        changing = [place for place in story.places if place.standings]
        side = inches_square(axes)
        self.point = 2 * self.half / side / 72
        self.size = float(np.clip(14 * np.sqrt(FEW / max(len(changing), FEW)) * side / 5.4, 3.2, 14.0))
        self.font = legible(axes, float(np.clip(0.8 * self.size, 5.8, 8.5))) if self.size > 4.5 else 0.0
        short = all(len(place.label) <= 2 for place in changing if place.kind == "customer")
        self.has_numbers_inside = self.size >= INSIDE and short and not story.by_vehicle
        self._ground()

    def _ground(self) -> None:
        """The ground, zones, places where nothing happens, and the scale."""
        axes, (x, y) = self.axes, self.centre
        axes.set(xlim=(x - self.half, x + self.half), ylim=(y - self.half, y + self.half), xticks=[], yticks=[])
        axes.set(facecolor=GROUND, aspect="equal")
        axes.spines[:].set(visible=True, color=FRAME, linewidth=0.8)
        if self.story.area and self.story.zones:
            for low, high, lines in zip(*self.story.area, (axes.axvline, axes.axhline), strict=True):
                for line in np.linspace(low, high, self.story.zones + 1):
                    lines(line, color=GRID, linewidth=0.8, zorder=1)
        for region in self.story.regions:
            self._draw_region(region)
        scale_bar(axes, self.story.units.length or "units")
        for place in (place for place in self.story.places if not place.standings):
            self._draw_fixed(place)

    def _draw_region(self, region: Region) -> None:
        from matplotlib.patches import Polygon

        look: dict[str, Any] = {"facecolor": "none", "edgecolor": LOST, "hatch": "//", "alpha": 0.35, "linewidth": 0.9}
        self.axes.add_patch(Polygon(region.corners, **look, zorder=1.5))
        below = {"xytext": (0, -6), "textcoords": "offset points", "path_effects": outline()}
        lowest = min(region.corners, key=lambda corner: corner[1])
        self.axes.annotate(region.name, lowest, **{**centred(6.5, NOTE), **below}, zorder=2.5)

    def _draw_fixed(self, place: Place) -> None:
        is_depot = place.kind == "depot"
        size = min(self.size + 2, 11.0) if is_depot else min(0.7 * self.size, 7.5)
        look = {"color": INK, "markeredgecolor": "white"} if is_depot else {"color": FAINT, "markeredgecolor": EDGE}
        self.axes.plot(*place.position, SHAPES[place.kind], markersize=size, **look, zorder=7 if is_depot else 2)
        if place.label and not is_depot and self.font:
            below = {"xytext": (0, -8.5), "textcoords": "offset points", "path_effects": outline()}
            self.axes.annotate(place.label, place.position, **{**centred(6.5, NOTE), **below}, zorder=2.5)

    # --- marks ------------------------------------------------------------------------------------------------------

    def marks(self, time: float) -> dict[Mark, list[tuple[float, float]]]:
        """The places that look alike at a time."""
        found: dict[Mark, list[tuple[float, float]]] = {}
        for place in self.story.places:
            mark = self.looks.mark(place, standing_at(place, time)) if place.standings else None
            if mark:
                found.setdefault(mark, []).append(place.position)
        return found

    def draw_marks(self, mark: Mark, places: list[tuple[float, float]]) -> Any:
        """Markers that look alike; among many places, what is not done stands out."""
        size = self.size if mark.edge == "white" else max(self.size, 5.0)
        look = {"color": mark.face, "markeredgecolor": mark.edge, "markeredgewidth": max(mark.width * size, 0.5)}
        return self.axes.plot(*np.reshape(places, (-1, 2)).T, mark.shape, markersize=size, **look, zorder=5)[0]

    def draw_way(self, vehicle: int, line: np.ndarray) -> Any:
        """A line along a way."""
        is_ink, size = self.story.vehicles[vehicle].colour is None, self.size
        width = (1.4 if is_ink else 1.0) * 0.16 * float(np.clip(size, 6.0, 11.0))
        look = {"linewidth": width, "alpha": 0.45 if is_ink else 0.8 if size > 5 else 0.6}
        return self.axes.plot(*line.T, **self.looks.line(vehicle), **look, solid_joinstyle="round", zorder=3)[0]

    def draw_arrows(self, vehicle: int, line: np.ndarray) -> None:
        """Arrowheads on long stretches of a way."""
        from matplotlib.collections import PolyCollection

        least = 72 * self.point * max(0.04 * self.size, 0.22)
        steps = np.diff(line, axis=0)
        length = np.hypot(*steps.T)
        chosen = np.nan_to_num(length) > least
        along = steps[chosen] / length[chosen, None]
        turn = np.stack([along, np.stack([-along[:, 1], along[:, 0]], axis=1)], axis=1)  # [A, 2, 2]
        dart = np.array([(-1, -0.9), (1, 0), (-1, 0.9), (-0.45, 0)])
        size = 0.4 * float(np.clip(self.size, 6.0, 9.0)) * self.point
        heads = (line[:-1] + 0.55 * steps)[chosen, None] + size * dart @ turn
        look: dict[str, Any] = {"facecolor": self.looks.colour(vehicle), "edgecolor": "white", "linewidth": 0.4}
        self.axes.add_collection(PolyCollection(heads, **look, zorder=4), autolim=False)

    # --- names ------------------------------------------------------------------------------------------------------

    def draw_names(self, time: float) -> list[Name]:
        """Texts at the places, as at a time: numbers inside; beside, who served when where no colour tells it."""
        changing = [place for place in self.story.places if place.standings]
        names = [Name(self._number(place), place, is_number=True) for place in changing if self._is_inside(place)]
        beside = [(place, words) for place in changing if (words := self._beside(place, time))]
        if self.font and beside:
            look = {**centred(self.font, INK), "path_effects": outline(2.0), "zorder": 8}
            spots = self._spots([place for place, _ in beside], [words for _, words in beside])
            for (place, words), spot in zip(beside, spots, strict=True):
                text = self.axes.text(*spot, words, **look)
                names.append(Name(text, place, says_service=words != place.label))
        for name in names:
            self.show_name(name, time)
        return names

    def _spots(self, places: list[Place], words: list[str]) -> np.ndarray:
        """Where names stand, `f64[P, 2]`: beside their places, so that they cover little."""
        ways = [_dense(way.line(*way.times[[0, -1]]), self.half / 40) for way in self.ways if len(way.times)]
        spots = place_labels(
            np.array([place.position for place in places]) - self.centre,
            np.array([(0.6 * len(text), 1.1) for text in words]) * self.font * self.point,
            markers=np.array([place.position for place in self.story.places]) - self.centre,
            radius=self.size / 2 * self.point,
            crowd=np.concatenate([np.zeros((0, 2)), *ways]) - self.centre,
            limit=self.half,
        )
        return spots + self.centre

    def show_name(self, name: Name, time: float) -> None:
        """Let a text look as its place does at a time."""
        text, standing = name.text, standing_at(name.place, time)
        is_served, is_lost = standing.name in ("served", "late"), standing.name == "lost"
        text.set_visible(standing.name != "hidden" and (is_served or not name.says_service))
        if name.is_number:
            text.set_color("white" if is_served else LOST if is_lost else INK)
        else:
            colour = self.looks.colour(standing.vehicle) if is_served and not self.story.by_vehicle else INK
            text.set_color(LOST if is_lost else text_colour(colour))
            text.set_fontweight("bold" if is_lost else "normal")

    def _is_inside(self, place: Place) -> bool:
        return self.has_numbers_inside and place.kind == "customer"

    def _number(self, place: Place) -> Any:
        look = centred(0.6 * self.size, INK)
        return self.axes.text(*place.position, place.label, **look, zorder=5.5)

    def _beside(self, place: Place, time: float) -> str:
        """What is written beside a place: its label, and who served it when, where there is room for that."""
        label = "" if self._is_inside(place) else place.label
        served = next((each for each in place.standings if each.name in ("served", "late") and each.time <= time), None)
        if self.story.by_vehicle or served is None:
            return label
        is_brief = len(requests_of(self.story, "drop-off")) > FEW
        name = "" if is_brief or served.vehicle is None else self.story.vehicles[served.vehicle].name
        service = f"{name} @ {self.story.units.brief(served.time)}".strip()
        return label if label and is_brief else ": ".join(filter(None, [label, service]))


# --- legend -----------------------------------------------------------------------------------------------------------


def keys_of_map(story: Story, *, moving: bool = False) -> list[Any]:
    """Legend entries of what a map shows: at its end, or ever if it moves."""
    looks = Looks(story)
    kinds = dict.fromkeys(place.kind for place in story.places if not place.standings or place.kind != "customer")
    entries = [_key_of_kind(kind, looks.words(kind)) for kind in kinds if looks.words(kind)]
    found = {
        standing.name: (place, dataclasses.replace(standing, vehicle=None))
        for place in story.places
        for standing in (place.standings if moving else place.standings[-1:])
    }
    if story.by_vehicle:  # the vehicles' colours say it
        found.pop("served", None)
    for name in (name for name in STANDINGS if name in found and looks.words(name)):
        if mark := looks.mark(*found[name]):
            look = {"color": mark.face, "markeredgecolor": mark.edge, "markeredgewidth": 1.3}
            entries.append(legend_entry(marker=mark.shape, **look, label=looks.words(name)))
    if len(story.vehicles) <= FEW:
        entries += [_key_of_vehicle(looks, at) for at in range(len(story.vehicles))]
    if crashes_of(story):
        entries.append(legend_entry(marker="X", color=LOST, label=looks.words("crashed")))
    return entries


def _key_of_kind(kind: str, words: str) -> Any:
    look = {"color": FAINT, "markeredgecolor": EDGE} if kind == "node" else {"color": INK}
    return legend_entry(marker=SHAPES[kind], **look, label=words)


def _key_of_vehicle(looks: Looks, at: int) -> Any:
    vehicle = looks.story.vehicles[at]
    is_ink = vehicle.colour is None
    look = {"marker": truck_marker(), "color": INK, "markersize": 12} if is_ink else {**looks.line(at), "linewidth": 2}
    return legend_entry(**look, label=cut(vehicle.name, LONGEST))


def crashes_of(story: Story) -> list[tuple[float, float]]:
    """Where vehicles crashed, by the end."""
    crashed = [vehicle for vehicle in story.vehicles if any(each.name == "crashed" for each in vehicle.activities)]
    return [vehicle.track[-1][1] for vehicle in crashed]


def _extent(story: Story, ways: list[Way]) -> tuple[np.ndarray, float]:
    """The middle of the map, `f64[2]`, and half its side."""
    corners = [np.array(each) for each in (story.area, *(region.corners for region in story.regions)) if each]
    positions = np.array([place.position for place in story.places], float).reshape(-1, 2)
    places = np.concatenate([positions, *corners, *(way.places for way in ways)])
    low, high = places.min(axis=0), places.max(axis=0)
    return (low + high) / 2, 0.55 * max(float((high - low).max()), 1e-9)


def _dense(line: np.ndarray, gap: float) -> np.ndarray:
    """Points along a line, `f64[K, 2]`, so far from each other."""
    steps = np.diff(line, axis=0)
    counts = np.ceil(np.nan_to_num(np.hypot(*steps.T)) / gap).astype(int)
    shares = [np.arange(count) / count for count in counts if count]
    segment = np.repeat(np.arange(len(steps)), counts)
    return line[segment] + np.concatenate([np.zeros(0), *shares])[:, None] * steps[segment]


def truck_marker() -> Any:
    """A marker (a matplotlib path) that shows a truck from its side."""
    from matplotlib.path import Path as Shape

    cargo = Shape([(-1.3, -0.45), (0.35, -0.45), (0.35, 0.75), (-1.3, 0.75), (-1.3, -0.45)], closed=True)
    cab = Shape([(0.45, -0.45), (1.3, -0.45), (1.3, 0.0), (0.95, 0.4), (0.45, 0.4), (0.45, -0.45)], closed=True)
    return Shape.make_compound_path(cargo, cab, Shape.circle((-0.75, -0.6), 0.27), Shape.circle((0.8, -0.6), 0.27))
