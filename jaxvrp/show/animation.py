"""A story in a file, and its animation: vehicles move, places change, and charts hide what is still to come."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.show.drawing.files import AnimatedFigure, write_drawn, write_gif
from jaxvrp.show.drawing.palette import EDGE, FAINT, GROUND, INK, LATE, LOST, ON_TIME, PALE, WAITING, shared_palette
from jaxvrp.show.drawing.paper import centred, without_math
from jaxvrp.show.figure import DPI, SEPARATOR, draw_story, headline_of, lay_out
from jaxvrp.show.looks import SHADES, Looks
from jaxvrp.show.route_map import RouteMap, end_of, requests_of, standing_at, truck_marker
from jaxvrp.story import Story, held

WIDTH = 1080
"""Pixels."""

MAX_FRAMES, PLAY_MS, LAST_FRAME_MS, COLOURS = 90, 10_000, 3000, 240

HALO, HALO_EDGE = "#CFE3F3", "#9CC3E0"
"""Around a customer, of the time that is left for it."""

RECENT = 0.12
"""The share of an episode for which the ways of drones stay visible."""

BERTH = 0.18
"""Inches between drones on board."""


def write_picture(story: Story, path: str | os.PathLike) -> None:
    """Draw a story to a file by its ending: `.gif` an animation, `.png`, `.svg` or `.pdf` a still.

    An older file is replaced once the new one is complete.

    Raises:
        ValueError: another ending.
        OSError: the file cannot be written.
    """
    write_drawn(path, "an episode", lambda: draw_story(story), lambda partial: write_animation(story, partial), dpi=DPI)


def write_animation(story: Story, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    scene = Scene(story)
    times = frame_times(story)
    # One palette for all frames: with one for each, colours flicker and the file is several times as large.
    sample = np.concatenate([scene.frame(times[at]) for at in (0, len(times) // 2, -1)])
    meaning = (INK, PALE, EDGE, FAINT, ON_TIME, LATE, LOST, WAITING, *SHADES.values(), *Looks(story).colours)
    palette = shared_palette(sample, ("white", GROUND, *meaning), COLOURS)
    pause = int(np.clip(PLAY_MS / len(times), 100, 300))
    write_gif(path, map(scene.frame, times), palette, pause, LAST_FRAME_MS)


def frame_times(story: Story) -> list[float]:
    """Moments of the clock, evenly spread, the first and the last among them."""
    first, end = story.span[0], end_of(story)
    if end <= first:
        return [end]
    times = np.linspace(first, end, MAX_FRAMES)
    return np.unique(times.round()).tolist() if story.units.time == "step" else times.tolist()


class Scene:
    """The picture at any time."""

    def __init__(self, story: Story):
        self.story, self.end = story, end_of(story)
        picture = lay_out(story, width=WIDTH)
        self.headline = picture.headline
        self.parts = (_Marks(picture.map), _Fleet(picture.map)) if picture.map else ()
        self.starts, self.goals = requests_of(story, "pickup"), requests_of(story, "drop-off")
        covers = [axes.axvspan(0, 1, facecolor="white", alpha=0.86, zorder=8) for axes in picture.charts]
        self.covers = list(zip(covers, picture.charts, strict=True))
        artists = itertools.chain.from_iterable(part.artists for part in self.parts)
        self.animated = AnimatedFigure(without_math(picture.figure), [*artists, *covers, self.headline])

    def frame(self, time: float) -> np.ndarray:
        """`u8[height, width, 3]`."""
        for part in self.parts:
            part.show(time)
        for cover, axes in self.covers:
            last = axes.get_xlim()[1]
            cover.set(x=min(time, last), width=0.0 if time >= self.end else max(last - time, 0.0))
        self.headline.set_text(headline_of(self.story) if time >= self.end else self._words(time))
        return self.animated.frame()

    def _words(self, time: float) -> str:
        """The clock, with digits that keep their place, and how many have been served."""
        names = [standing_at(place, time).name for place in self.goals]
        units, shortfall = self.story.units, self.story.shortfall.lower()
        digits = 0 if units.time == "step" else 1
        clock = f"{time:{len(f'{self.end:.{digits}f}')}.{digits}f}"
        counted = f"step {clock}" if units.time == "step" else f"time {clock} {units.time}".rstrip()
        parts = [units.moment(time) if units.clock else counted]
        parts.append(f"served {sum(name in ('served', 'late') for name in names)} of {len(names)}")
        lost = [standing_at(place, time).name for place in self.starts].count("lost")
        parts += [f"{count} {words}" for count, words in ((names.count("late"), "late"), (lost, shortfall)) if count]
        return SEPARATOR.join(parts)


class _Marks:
    """Places as they stand, a halo around customers that can be served in time, and names."""

    def __init__(self, route_map: RouteMap):
        story, axes = route_map.story, route_map.axes
        self.map = route_map
        self.halo = axes.scatter([], [], color=HALO, linewidth=0.7, edgecolor=HALO_EDGE, zorder=4)
        self.waiting = [p for p in story.places if p.kind == "customer" and p.deadline is not None and p.standings]
        moments = sorted({standing.time for place in story.places for standing in place.standings})
        looks = dict.fromkeys(itertools.chain.from_iterable(route_map.marks(time) for time in moments))
        self.marks = {mark: route_map.draw_marks(mark, []) for mark in looks}
        self.names = route_map.draw_names(end_of(story))
        self.artists = [self.halo, *self.marks.values(), *(name.text for name in self.names)]

    def show(self, time: float) -> None:
        """As it is at a time."""
        found = self.map.marks(time)
        for mark, artist in self.marks.items():
            artist.set_data(*np.reshape(found.get(mark, []), (-1, 2)).T)
        for name in self.names:
            self.map.show_name(name, time)
        first, size = self.map.story.span[0], self.map.size
        is_open = [place for place in self.waiting if standing_at(place, time).name == "open"]
        ends = np.array([place.deadline for place in is_open], float)
        left = (ends - time) / np.maximum(ends - first, 1e-9)
        self.halo.set_offsets(np.reshape([place.position for place in is_open], (-1, 2)))
        self.halo.set_sizes((size * (1 + 1.1 * np.clip(left, 0, 1))) ** 2)


class _Fleet:
    """Vehicles with their signs or loads, ways, aims, parcels, and crosses for crashes."""

    def __init__(self, route_map: RouteMap):
        from matplotlib.collections import LineCollection

        self.map, axes, looks = route_map, route_map.axes, route_map.looks
        self.vehicles = route_map.story.vehicles
        fleet = range(len(self.vehicles))
        self.inch = 72 * route_map.point
        nothing = np.full((1, 2), np.nan)
        self.ways = [route_map.draw_way(at, nothing) for at in fleet]
        self.aims = LineCollection([], linewidths=1.0, linestyles=[(0, (2, 2))], zorder=4)
        axes.add_collection(self.aims, autolim=False)
        shapes = {"truck": (truck_marker(), 19.0), "drone": ("D", 9.5), "vehicle": ("o", 15.0)}
        self.bodies, self.signs = [], []
        for at, vehicle in enumerate(self.vehicles):
            shape, size = shapes[vehicle.kind]
            look = {"color": looks.colour(at), "markeredgecolor": "white", "zorder": 9}
            self.bodies += axes.plot([], [], marker=shape, linestyle="none", markersize=size, **look)
            self.signs.append(axes.text(0, 0, "", weight="bold", **centred(8.5), zorder=9.5))
        parcel = {"color": INK, "markersize": 5, "markeredgecolor": "white", "zorder": 9.6}
        (self.parcels,) = axes.plot([], [], "s", **parcel)
        (self.crosses,) = axes.plot([], [], "X", color=LOST, markersize=11, markeredgecolor="white", zorder=9.7)
        self.artists = [*self.ways, self.aims, *itertools.chain(*zip(self.bodies, self.signs, strict=True))]
        self.artists += [self.parcels, self.crosses]
        self.customers = np.array([p.position for p in route_map.story.places if p.kind == "customer"]).reshape(-1, 2)
        self.depots = np.array([p.position for p in route_map.story.places if p.kind == "depot"]).reshape(-1, 2)

    def show(self, time: float) -> None:
        """As it is at a time."""
        first, end = self.map.story.span[0], end_of(self.map.story)
        aims: list[tuple[Any, str]] = []
        parcels, crosses = [], []
        for at, (vehicle, way) in enumerate(zip(self.vehicles, self.map.ways, strict=True)):
            if not vehicle.track:
                continue
            place, is_aboard = self._place(at, time)
            since = max(time - RECENT * (end - first), way.times[0]) if vehicle.hosts else way.times[0]
            self.ways[at].set_data(*way.line(since, max(time, since)).T)
            is_shown = not self._is_in_depot(at, way.at(time))
            self.bodies[at].set(visible=is_shown, data=(place[:1], place[1:]))
            self._sign(at, place, time, is_shown=is_shown, is_aboard=is_aboard)
            aim = held(vehicle.aims, time)
            if aim and not is_aboard:
                lines = [[place, goal] for goal in aim.places] if aim.fan else [[place, *aim.places]]
                aims += [(line, self.map.looks.colour(at)) for line in lines if len(line) > 1]
            carries = held(vehicle.carries, time)
            parcels += [place - np.array([0.0, 0.125 * self.inch])] if carries and carries[1] else []
            crosses += [place] if any(a.name == "crashed" and a.begin <= time for a in vehicle.activities) else []
        self.aims.set_segments([line for line, _ in aims])
        self.aims.set_color([colour for _, colour in aims])
        self.parcels.set_data(*np.reshape(parcels, (-1, 2)).T)
        self.crosses.set_data(*np.reshape(crosses, (-1, 2)).T)

    def _place(self, at: int, time: float) -> tuple[np.ndarray, bool]:
        """Where a vehicle is drawn, and whether on board: above its host, or above a customer that it would hide."""
        vehicle, place = self.vehicles[at], self.map.ways[at].at(time)
        host = held(vehicle.hosts, time)
        if host and host[1] is not None:
            guests = [other for other, guest in enumerate(self.vehicles) if guest.hosts]
            number = guests.index(at)
            in_row = min(4, len(guests) - number // 4 * 4)
            across = (number % 4 - (in_row - 1) / 2) * BERTH
            return place + self.inch * np.array([across, 0.19 + BERTH * (number // 4)]), True
        if vehicle.hosts and len(self.customers):
            gap = float(np.linalg.norm(self.customers - place, axis=1).min())
            return place + np.array([0.0, max(0.24 * self.inch - gap, 0.0)]), False
        return place, False

    def _sign(self, at: int, place: np.ndarray, time: float, *, is_shown: bool, is_aboard: bool) -> None:
        """What stands inside its mark, which is smaller on board."""
        vehicle, text = self.vehicles[at], self.signs[at]
        level = held(vehicle.levels, time)
        sign = vehicle.sign or (f"{level[1]:g}" if level else "")
        text.set(position=place, text=sign, visible=is_shown and vehicle.kind != "truck")
        if vehicle.kind == "drone":
            text.set_fontsize(5.5 if is_aboard else 7.0)
            self.bodies[at].set_markersize(7.5 if is_aboard else 9.5)

    def _is_in_depot(self, at: int, place: np.ndarray) -> bool:
        is_there = len(self.depots) and np.linalg.norm(self.depots - place, axis=1).min() < 0.01 * self.inch
        return bool(is_there) and not self.vehicles[at].hosts and self.vehicles[at].kind != "truck"
