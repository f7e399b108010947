"""The figure of a driven day, still or moving: a map, a lane of requests for each vehicle, and the answers so far.

matplotlib is imported inside the functions; nothing goes through pyplot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.dispatch.played import PlayedDay, name_of, summary, verdict
from jaxvrp.pictures import GROUND, INK
from jaxvrp.show.palette import EDGE, FRAME, GRID, PALE, RIGHT, SERIES, WRONG

MOVING_DPI = 90
FRAMES, PAUSE_MS, LAST_FRAME_MS, PALETTE_SIZE = 90, 110, 3000, 192
"""Of the animation."""

MANY = 60
"""From so many requests on, marks are smaller."""

NAMED_VEHICLES = 12
"""The most vehicles that the legend names one by one."""


class DayFigure(NamedTuple):
    """A figure of matplotlib, its axes (where, whose, how many), and the text on top."""

    figure: Any
    map: Any
    lanes: Any
    answers: Any
    headline: Any


def lanes_high(day: PlayedDay) -> float:
    """Inches of the lanes."""
    return float(np.clip(0.24 * (len(day.vehicles) + 1), 1.2, 4.4))


def lay_out(day: PlayedDay, dpi: float = 120.0, fig: Any = None) -> DayFigure:
    """Draw the whole day, into `fig` if there is one."""
    side, lanes = 5.4, lanes_high(day)  # inches
    keys = 0.2 * -(-len(map_keys(day)) // 5)
    across, up = side + 7.0, max(side + keys + 0.9, lanes + 3.4)
    answers = min(up - lanes - 2.2, 2.2)
    sheet = pictures.new_paper(across, up, dpi, fig)
    left = side + 1.3
    picture = DayFigure(
        sheet.figure,
        map=sheet.axes(0.2, up - 0.7 - side, side, side),
        lanes=sheet.axes(left, up - 0.9 - lanes, across - left - 0.3, lanes),
        answers=sheet.axes(left, up - 1.6 - lanes - answers, across - left - 0.3, answers),
        headline=sheet.text(0.2, up - 0.25, summary(day), fontsize=12.5, va="center", color=INK, weight="bold"),
    )
    colour = RIGHT if day.report.feasible else WRONG
    sheet.text(0.2, up - 0.5, verdict(day), fontsize=10, va="center", color=colour)
    draw_map(day, picture.map)
    draw_lanes(day, picture.lanes)
    draw_answers(day, picture.answers)
    corner = sheet.place(0.15, up - 0.75 - side)
    pictures.legend(sheet.figure, map_keys(day), loc="upper left", bbox_to_anchor=corner, ncols=5, handlelength=2.4)
    return picture


def look_of(day: PlayedDay, vehicle: int) -> dict[str, Any]:
    """Colour and dashes of a vehicle."""
    return pictures.series_look(day.vehicles.index(vehicle))


def draw_map(day: PlayedDay, axes: Any) -> list[Any]:
    """The driven routes, all requests, and the scale; returns the artists that an animation draws anew."""
    frame_map(day, axes)
    many = len(day.requests) >= MANY
    drawn = []
    for v in day.vehicles:
        width = 0.9 if many else 1.5
        drawn += axes.plot(*day.tracks[v].places.T, **look_of(day, v), linewidth=width, alpha=0.6, zorder=3)
    size = 3.2 if many else 6.5
    for request in day.requests:
        drawn += _draw_request(day, axes, request, size)
    return drawn


def frame_map(day: PlayedDay, axes: Any) -> None:
    """The ground, the depot, and the scale."""
    requests = slice(0, len(day.requests))
    tracks = [track.places for track in day.tracks.values()]
    places = np.concatenate([day.instance.area, day.instance.pickup[requests], day.instance.dropoff[requests], *tracks])
    low, high = places.min(axis=0), places.max(axis=0)
    middle, half = (low + high) / 2, 0.54 * float((high - low).max())
    axes.set(xlim=middle[0] + np.array([-half, half]), ylim=middle[1] + np.array([-half, half]), xticks=[], yticks=[])
    axes.set(facecolor=GROUND, aspect="equal")
    axes.spines[:].set(visible=True, color=FRAME, linewidth=0.8)
    pictures.scale_bar(axes, "km")
    if day.instance.depot is not None:
        axes.plot(*day.instance.depot, "s", color=INK, markersize=10, markeredgecolor="white", zorder=7)


def _draw_request(day: PlayedDay, axes: Any, request: int, size: float) -> list[Any]:
    """Marks in the colour of its vehicle, or a red cross."""
    ends = {"v": day.instance.dropoff[request]}
    if day.instance.depot is None:
        ends["^"] = day.instance.pickup[request]
    found = day.served.get(request)
    if found is None:
        place = ends.get("^", ends["v"])
        return axes.plot(*place, "x", color=WRONG, markersize=size, markeredgewidth=0.3 * size, zorder=6)
    look = {"color": look_of(day, found.vehicle)["color"], "markeredgecolor": "white", "markeredgewidth": 0.1 * size}
    return [
        artist
        for shape, place in ends.items()
        for artist in axes.plot(*place, shape, markersize=size, **look, zorder=5)
    ]


def map_keys(day: PlayedDay) -> list[Any]:
    """Legend entries of the map."""
    entry = pictures.legend_entry
    ends = [("v", "drop-off")] if day.instance.depot is not None else [("^", "pickup"), ("v", "drop-off")]
    keys = [entry(marker=marker, color=INK, label=label) for marker, label in ends]
    keys.append(entry(marker="x", color=WRONG, markeredgecolor=WRONG, markeredgewidth=2, label="rejected"))
    if day.instance.depot is not None:
        keys.append(entry(marker="s", color=INK, label="depot"))
    if len(day.vehicles) <= NAMED_VEHICLES:
        keys += [entry(**look_of(day, v), linewidth=2, label=name_of(day, v)) for v in day.vehicles]
    return keys


def draw_lanes(day: PlayedDay, axes: Any) -> None:
    """A lane for each vehicle: its requests from arrival to drop-off, thick from pickup on; below, those rejected."""
    time_axis(day, axes, "requests: thin from arrival, thick from pickup to drop-off")
    rows = {v: len(day.vehicles) - at for at, v in enumerate(day.vehicles)}
    for request, found in day.served.items():
        row = rows[found.vehicle] + 0.3 * (request % 5 - 2) / 2  # rides overlap
        colour = look_of(day, found.vehicle)["color"]
        axes.plot([day.arrival(request), found.pickup], [row, row], color=colour, linewidth=0.5, alpha=0.7, zorder=2)
        axes.plot(
            [found.pickup, found.dropoff], [row, row], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3
        )
    rejected = [day.arrival(request) for request in day.rejected()]
    axes.plot(rejected, [0.0] * len(rejected), "x", color=WRONG, markersize=4, markeredgewidth=1.2, zorder=3)
    for row in range(len(day.vehicles) + 1):
        axes.axhline(row - 0.5, color=PALE, linewidth=0.6, zorder=1)
    axes.set_ylim(-0.5, len(day.vehicles) + 0.5)
    axes.set_yticks([0, *rows.values()], ["rejected", *(name_of(day, v) for v in rows)])
    font = float(np.clip(0.8 * pictures.points_high(axes) / (len(rows) + 1), 4.0, 8.0))
    for tick, v in zip(axes.get_yticklabels(), [None, *rows], strict=True):
        tick.set(fontsize=font, color=WRONG if v is None else pictures.text_colour(look_of(day, v)["color"]))


def draw_answers(day: PlayedDay, axes: Any) -> None:
    """How many requests have been accepted and rejected, over time."""
    time_axis(day, axes, "answers so far")
    arrivals = np.array([day.arrival(request) for request in day.requests])
    accepted = np.array([request in day.served for request in day.requests], bool)
    for chosen, colour, label in ((accepted, RIGHT, "accepted"), (~accepted, WRONG, "rejected")):
        times = [0.0, *arrivals[chosen], day.end]
        counts = [*range(int(chosen.sum()) + 1), int(chosen.sum())]
        axes.step(times, counts, where="post", color=colour, linewidth=1.6)
        look = {"xytext": (4, 6), "textcoords": "offset points", "fontsize": 8, "color": colour, "va": "center"}
        axes.annotate(f"{counts[-1]} {label}", (0.01 * day.end, counts[-1]), **look, path_effects=pictures.outline())
    axes.set_ylim(0, max(1.3 * accepted.sum(), 1.3 * (~accepted).sum(), 1.0))
    axes.set_xlabel("minutes", fontsize=8, labelpad=1)


def time_axis(day: PlayedDay, axes: Any, title: str) -> None:
    """The axis of time, and what the panel shows."""
    end = max(1.01 * day.end, 1e-6)
    ticks = axes.xaxis.get_major_locator().tick_values(day.clock, day.clock + end)
    axes.set_xticks(ticks - day.clock, [f"{tick:.10g}" for tick in ticks])
    axes.set_xlim(0.0, end)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=9.5, loc="left", color=INK, pad=5)


def write_animation(day: PlayedDay, path: Path) -> None:
    """Write the day as it goes on as a GIF, whatever the name of `path`."""
    scene = _Scene(day)
    times = np.linspace(0.0, day.end, FRAMES)
    sample = np.concatenate([scene.frame(time) for time in (times[FRAMES // 2], times[-1])])
    palette = pictures.shared_palette(sample, ("white", GROUND, INK, *SERIES, WRONG, RIGHT), PALETTE_SIZE)
    pictures.write_gif(path, (scene.frame(time) for time in times), palette, PAUSE_MS, LAST_FRAME_MS)


class _Scene:
    """The picture at any time: vehicles move, requests appear, and what is still to come is covered."""

    def __init__(self, day: PlayedDay):
        self.day, self.picture = day, lay_out(day, MOVING_DPI)
        axes = self.picture.map
        axes.clear()
        frame_map(day, axes)
        many = len(day.requests) >= MANY
        self.trails = {
            v: axes.plot([], [], **look_of(day, v), linewidth=0.8 if many else 1.4, alpha=0.45, zorder=3)[0]
            for v in day.vehicles
        }
        self.bodies = {
            v: axes.plot(
                [], [], "D" if day.instance.is_drone[v] else "o", markersize=9, markeredgecolor="white", zorder=9,
                color=look_of(day, v)["color"],
            )[0]
            for v in day.vehicles
        }  # fmt: skip
        size = 5.0 if many else 7.0
        asked = "^" if day.instance.depot is None else "v"
        self.waiting = axes.plot([], [], asked, color="white", markeredgecolor=EDGE, markersize=size, zorder=6)[0]
        self.riding = axes.plot([], [], "v", color=INK, markeredgecolor="white", markersize=size, zorder=6)[0]
        self.lost = axes.plot([], [], "x", color=WRONG, markersize=size - 1, markeredgewidth=1.5, zorder=5)[0]
        self.covers = [
            panel.axvspan(0, 1, facecolor="white", alpha=0.86, zorder=8)
            for panel in (self.picture.lanes, self.picture.answers)
        ]
        moving = [*self.trails.values(), self.lost, self.waiting, self.riding, *self.bodies.values(), *self.covers]
        self.drawing = pictures.AnimatedFigure(self.picture.figure, [*moving, self.picture.headline])

    def frame(self, time: float) -> np.ndarray:
        """`u8[height, width, 3]`."""
        day, instance = self.day, self.day.instance
        for v in day.vehicles:
            self.trails[v].set_data(*day.tracks[v].until(time).T)
            self.bodies[v].set_data(*day.tracks[v].at(time)[:, None])
        known = [request for request in day.requests if day.arrival(request) <= time]
        served = {request: day.served[request] for request in known if request in day.served}
        waiting = [request for request, found in served.items() if time < found.pickup]
        riding = [request for request, found in served.items() if found.pickup <= time < found.dropoff]
        lost = [request for request in known if request not in day.served]
        asked = instance.pickup if instance.depot is None else instance.dropoff
        for artist, requests, places in (
            (self.waiting, waiting, asked),
            (self.riding, riding, instance.dropoff),
            (self.lost, lost, asked),
        ):
            artist.set_data(*places[np.array(requests, int)].T)
        for cover in self.covers:
            cover.set(x=time, width=max(1.01 * day.end - time, 0.0))
        done = len(served) - len(waiting) - len(riding)
        counts = f"{len(known):4d} asked", f"{len(lost):4d} rejected", f"{done:4d} served"
        parts = [f"clock {day.clock + time:6.1f}", *counts]
        self.picture.headline.set_text(summary(day) if time >= day.end else "   |   ".join(parts))
        return self.drawing.frame()
