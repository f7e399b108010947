"""The right side of a dial-a-ride picture: the vehicles' loads over time, and a row for each request."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.darp.pictures.canvas import DROP_OFF_WINDOW, INK, MARKERS, PICKUP_WINDOW, WRONG, Picture, colour_of
from jaxvrp.envs.darp.pictures.plan import Leg, Plan

# --- loads ----------------------------------------------------------------------------------------------------------


def draw_loads(picture: Picture) -> None:
    """A lane for each vehicle that drove, with its load as steps, and its capacity."""
    axes, plan = picture.loads, picture.plan
    used = plan.used
    _time_axis(picture, axes, "passengers on board (dashed: capacity)")
    axes.tick_params(axis="x", labelbottom=False)
    if not used:
        axes.text(0.5, 0.5, "no vehicle left the depot", transform=axes.transAxes, **pictures.centred(8.5, WRONG))
        axes.set_yticks([])
        return
    most = max([1, *(leg.load for leg in plan.legs), *(plan.capacity(vehicle) or 0 for vehicle in used)])
    base = {vehicle: float(lane) for lane, vehicle in enumerate(reversed(used))}
    for vehicle in used:
        _draw_lane(axes, base[vehicle], plan.capacity(vehicle), most, picture.letters(7.5))
    since = 0.0
    for moment, leg in enumerate(plan.legs, 1):
        since = leg.leave if leg.origin == 0 else since
        picture.add(moment, *_draw_load(axes, plan, leg, since, base[leg.vehicle], 0.8 / most))
        since = leg.begin
    font = min(8.0, 0.85 * axes.get_window_extent().height / picture.figure.dpi * 72 / len(used))
    axes.set_ylim(-0.06, len(used))
    axes.set_yticks([base[vehicle] + 0.4 for vehicle in used], [f"vehicle {vehicle}" for vehicle in used])
    for tick, vehicle in zip(axes.get_yticklabels(), used, strict=True):
        tick.set(color=pictures.text_colour(colour_of(vehicle)), fontsize=font, weight="bold")


def _draw_lane(axes: Any, base: float, capacity: int | None, most: int, font: float) -> None:
    axes.axhline(base, color="#C9CDD2", linewidth=0.8, zorder=1)
    if capacity is None:
        return
    level = base + 0.8 * capacity / most
    axes.axhline(level, color="#7A828A", linewidth=0.9, linestyle=(0, (4, 2.5)), zorder=2)
    beside = {"transform": axes.get_yaxis_transform(), "fontsize": font, "color": "#6B727A", "va": "center"}
    axes.text(1.01, level, str(capacity) if font else "", **beside)


def _draw_load(axes: Any, plan: Plan, leg: Leg, since: float, base: float, unit: float) -> list[Any]:
    """The load from the last stop to this one, and its change here."""
    capacity = plan.capacity(leg.vehicle)
    colour = colour_of(leg.vehicle)
    before, after = base + unit * leg.load_before, base + unit * leg.load
    lines = axes.plot([since, leg.begin, leg.begin], [before, before, after], color=colour, linewidth=1.4, zorder=4)
    lines[0].set_solid_joinstyle("miter")
    bars = axes.bar(since, before - base, leg.begin - since, base, align="edge", color=colour, alpha=0.28, zorder=3)
    if capacity is not None and leg.load_before > capacity:
        level = base + unit * capacity
        bars = [*bars, *axes.bar(since, before - level, leg.begin - since, level, align="edge", color=WRONG, zorder=5)]
    if leg.wrong:
        lines += axes.plot(leg.begin, before, "X", color=WRONG, markersize=7, markeredgecolor="white", zorder=6)
    return [*bars, *lines]


def _time_axis(picture: Picture, axes: Any, title: str) -> None:
    first, last = picture.plan.span()
    axes.set_xlim(first - 0.015 * (last - first), last + 0.015 * (last - first))
    axes.grid(axis="x", color="#EEF0F2", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=9.5, loc="left", color=INK, pad=5)


# --- requests -------------------------------------------------------------------------------------------------------


def draw_rows(picture: Picture) -> None:
    """A row for each request, vehicle after vehicle in the order of pickups; those never picked up last."""
    axes, plan = picture.rows, picture.plan
    longest = float(plan.instance.max_ride_time)
    limit = f" (at most {longest:.4g})" if np.isfinite(longest) else ""
    _time_axis(picture, axes, f"requests: time windows (none: any time), service, ride{limit}")
    axes.set_xlabel("time", fontsize=8, labelpad=1)
    pickups = 2 * plan.requests - 1
    order = plan.requests[np.lexsort((plan.moment[pickups], plan.moment[pickups] == 0))]
    row_points = axes.get_window_extent().height / picture.figure.dpi * 72 / max(len(order), 1)
    font = picture.letters(min(8.0, 0.92 * row_points))
    for row, request in enumerate(order.tolist()):
        _draw_windows(axes, plan, row, request)
        _draw_ride(picture, row, request, float(np.clip(0.5 * row_points, 2.6, 6.5)))
        if font:
            _name_row(picture, row, request, font)
        if font and plan.trouble(request):
            _note(picture, row, request, font)
    first_rows = np.flatnonzero(np.diff(plan.visited_by[2 * order - 1])) + 0.5
    for line in first_rows:
        axes.axhline(line, color="#D5D9DD", linewidth=0.7, zorder=1)
    axes.set_ylim(max(len(order), 1) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_ylabel("request", fontsize=8, labelpad=18)


def _name_row(picture: Picture, row: int, request: int, font: float) -> None:
    """The number of the request, red in the end if nobody brought it."""
    axes = picture.rows
    beside = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center_baseline", "fontsize": font}
    axes.text(-0.012, row, str(request), color=INK, **beside)
    if not picture.plan.delivered[request]:
        picture.add(picture.end, axes.text(-0.012, row, str(request), color=WRONG, **beside))


def _draw_windows(axes: Any, plan: Plan, row: int, request: int) -> None:
    """The pickup's above, the drop-off's below; none where only the depot's binds."""
    first, last = plan.span()
    for node, y, colour in ((2 * request - 1, row - 0.2, PICKUP_WINDOW), (2 * request, row + 0.2, DROP_OFF_WINDOW)):
        start, end = (float(window[node]) for window in (plan.instance.earliest, plan.instance.deadline))
        start = max(start, first)
        if plan.binds(node) and start < last:
            axes.barh(y, min(end, last) - start, left=start, height=0.36, color=colour, linewidth=0, zorder=2)


def _draw_ride(picture: Picture, row: int, request: int, size: float) -> None:
    """A line from pickup to drop-off, and the marks of both."""
    axes, plan = picture.rows, picture.plan
    pickup, drop_off = 2 * request - 1, 2 * request
    if plan.delivered[request]:
        bad = plan.too_long[request]
        colour, width = (WRONG, 0.5 * size) if bad else (colour_of(plan.visited_by[pickup]), 0.3 * size)
        ends = [plan.begin[pickup], plan.begin[drop_off]], [row - 0.2, row + 0.2]
        picture.add(plan.moment[drop_off], *axes.plot(*ends, color=colour, linewidth=width, zorder=3))
    for node, y in ((pickup, row - 0.2), (drop_off, row + 0.2)):
        if plan.moment[node]:
            late = plan.late[node] > 0
            look = {"color": WRONG if late else colour_of(plan.visited_by[node]), "markeredgecolor": "white"}
            marks = axes.plot(
                plan.begin[node],
                y,
                MARKERS[node % 2],
                **look,
                markersize=size * (1.25 if late else 1.0),
                markeredgewidth=0.1 * size,
                zorder=4 + late,
            )
            picture.add(plan.moment[node], *marks)


def _note(picture: Picture, row: int, request: int, font: float) -> None:
    """What went wrong, after the last mark, or before the first if there is no room."""
    axes, plan = picture.rows, picture.plan
    first, last = plan.span()
    visits = plan.begin[[2 * request - 1, 2 * request]]
    visits = visits[~np.isnan(visits)].tolist()
    fits = max(visits, default=first) < first + 0.66 * (last - first)
    at = max(visits, default=first) if fits else min(visits)
    place = {"xytext": (7 if fits else -7, 0), "textcoords": "offset points", "ha": "left" if fits else "right"}
    look = {"va": "center", "fontsize": font - 0.5, "color": WRONG, "path_effects": pictures.outline(2.0), "zorder": 7}
    moment = picture.end if not plan.delivered[request] else plan.moment[2 * request]
    picture.add(moment, axes.annotate(plan.trouble(request), (at, row), **place, **look))
