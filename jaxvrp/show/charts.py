"""The charts of a story over its clock: rows of bars and dots, levels of vehicles, numbers that grow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxvrp.io.messages import cut
from jaxvrp.show.drawing.palette import EDGE, FRAME, GRID, INK, LOST, NOTE, PALE, series_look, text_colour
from jaxvrp.show.drawing.paper import legend_entry, legible, outline, points_high
from jaxvrp.show.looks import SHADES, Looks
from jaxvrp.show.route_map import LONGEST, end_of
from jaxvrp.story import Bar, Chart, Counts, Dot, Levels, Lines, Row, Rows, Story, Vehicle

LANE = 0.42
"""Half the height of a lane, by the distance of lanes."""

ROUND = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
"""Minutes between two times of an axis, where these are of the clock."""


def height_of(chart: Chart) -> tuple[float, float]:
    """The least and the best height of a chart, in inches."""
    if isinstance(chart, Counts | Lines):
        return 1.0, 1.8
    if isinstance(chart, Levels):
        lanes = max(len(chart.vehicles), 1)
        return max(0.7, min(0.3 * lanes, 4.0)), max(0.7, (0.8 if chart.shaded else 0.55) * lanes)
    rows = max(len(chart.rows), 1)
    return max(0.5, min(0.16 * rows, 4.4)), max(0.5, 0.3 * rows)


def span_of(story: Story, chart: Chart) -> tuple[float, float]:
    """The times of a chart; windows that close long after the end stretch rows alone."""
    (first, last), end = story.span, end_of(story)
    return (first, end) if not isinstance(chart, Rows) and end < first + 0.7 * (last - first) else (first, last)


def paint(story: Story, chart: Chart, axes: Any, *, is_last: bool = True) -> None:
    """Draw a chart; the unit of time stands below the last one of several."""
    if isinstance(chart, Rows):
        _paint_rows(story, chart, axes)
    elif isinstance(chart, Levels):
        _paint_levels(story, chart, axes)
    elif isinstance(chart, Counts):
        _paint_counts(story, chart, axes)
    else:
        for at, (_, vehicle, points) in enumerate(chart.lines):
            axes.plot(*np.reshape(points, (-1, 2)).T, **_look_of_line(Looks(story), at, vehicle))
    _time_axis(story, axes, *span_of(story, chart), is_last=is_last)
    axes.set_title(chart.title, fontsize=9.5, loc="left", color=INK, pad=5)


def _time_axis(story: Story, axes: Any, first: float, last: float, *, is_last: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    units = story.units
    room = 0.015 * max(last - first, 1e-6)
    axes.set_xlim(first - room, max(last, first + 1e-6) + room)
    width = axes.get_window_extent().width / axes.figure.dpi
    most = int(np.clip(9 * width / len(units.brief(round(last))), 2, 8))
    if units.clock:
        times = _clock_times(units.clock, first, last, most)
        axes.set_xticks(times, [units.brief(time) for time in times])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=units.time == "step"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:.12g}"))
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if is_last:
        axes.set_xlabel("time" if units.clock else units.time or "time", fontsize=8, labelpad=1, color=INK)


def _clock_times(clock: tuple[float, float], first: float, last: float, most: int) -> list[float]:
    """Times at which the clock, as of `Units`, is round, `most` of them or one more."""
    start, minutes = clock
    begin, end = start + first * minutes, start + last * minutes
    rough = (end - begin) / most
    step = next((step for step in ROUND if step >= rough), ROUND[-1] * math.ceil(rough / ROUND[-1]))
    return [(step * at - start) / minutes for at in range(math.ceil(begin / step), math.floor(end / step) + 1)]


def _name_lanes(axes: Any, places: list[float], names: list[str], colours: list[str], font: float) -> None:
    """What stands in front of lanes, as far as it can be read."""
    font = legible(axes, font)
    axes.set_yticks(places, [cut(name, LONGEST) if font else "" for name in names], fontsize=font or 1)
    for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
        tick.set_color(text_colour(colour))


# --- rows -----------------------------------------------------------------------------------------------------------


def _paint_rows(story: Story, chart: Rows, axes: Any) -> None:
    looks, count = Looks(story), max(len(chart.rows), 1)
    row_points = points_high(axes) / count
    size, font = float(np.clip(0.42 * row_points, 2.6, 6.5)), min(8.0, 0.92 * row_points)
    for at, row in enumerate(chart.rows):
        for bar in row.bars:
            _paint_bar(looks, axes, at, bar, row_points)
        for dot in row.dots:
            _paint_dot(looks, axes, at, dot, size)
        if legible(axes, font):
            _write_words(looks, axes, at, row, font - 0.5)
    axes.set_ylim(count - 0.4, -0.6)
    is_lost = [any(dot.look == "lost" for dot in row.dots) or (row.note and not row.dots) for row in chart.rows]
    colours = [LOST if lost else looks.colour(row.vehicle) for lost, row in zip(is_lost, chart.rows, strict=True)]
    _name_lanes(axes, list(range(len(chart.rows))), [row.label for row in chart.rows], colours, font)
    if _goes_on(story):
        axes.axvline(end_of(story), color=INK, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
    if story.by_vehicle:
        for at in range(1, len(chart.rows)):
            if chart.rows[at].vehicle != chart.rows[at - 1].vehicle:
                axes.axhline(at - 0.5, color=PALE, linewidth=0.6, zorder=1)


def _goes_on(story: Story) -> bool:
    """Whether windows close after the end."""
    first, last = story.span
    return end_of(story) < last - 0.005 * (last - first)


def _paint_bar(looks: Looks, axes: Any, row: int, bar: Bar, row_points: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    y, style = row - bar.where, looks.bar(bar)
    if bar.thick:
        corner = bar.begin, y - bar.thick / 2
        axes.add_patch(Rectangle(corner, bar.end - bar.begin, bar.thick, **style, zorder=2))
    else:
        width = 0.7 if bar.look in ("known", "approach") else float(np.clip(0.1 * row_points, 1.0, 2.0))
        look: dict[str, Any] = {"color": style["facecolor"], "linewidth": width, "solid_capstyle": "butt"}
        axes.add_line(Line2D([bar.begin, bar.end], [y, y], **look, zorder=2.5))


def _paint_dot(looks: Looks, axes: Any, row: int, dot: Dot, size: float) -> None:
    from matplotlib.lines import Line2D

    mark = looks.dot(dot.look, dot.vehicle, dot.shape)
    is_late, size = dot.look == "late", size * {"late": 1.2, "lost": 0.75}.get(dot.look, 1.0)
    look: dict[str, Any] = {"color": mark.face, "markeredgecolor": mark.edge, "markeredgewidth": mark.width * size}
    place = [dot.time], [row - dot.where]
    axes.add_line(Line2D(*place, marker=mark.shape, markersize=size, **look, zorder=4 + is_late))


def _write_words(looks: Looks, axes: Any, at: int, row: Row, font: float) -> None:
    """What is to be said of a row, beside its last mark, or before the first one where there is no room.

    That is what went wrong, and who came when, where no colour tells it.
    """
    story, (first, last) = looks.story, looks.story.span
    words, colour = row.note, LOST
    if not story.by_vehicle and row.dots and (vehicle := row.dots[-1].vehicle) is not None:
        note = f" ({row.note})" if row.note else ""
        time = story.units.brief(row.dots[-1].time)
        words, colour = f"{story.vehicles[vehicle].name} @ {time}{note}", looks.colour(vehicle)
    starts = [dot.time for dot in row.dots] + [bar.begin for bar in row.bars if bar.look in ("delay", "wait")]
    fits = max(starts, default=first) <= first + 0.66 * (last - first)
    mark = max(starts, default=first) if fits else min(starts)
    place = {"xytext": (6 if fits else -6, 0), "textcoords": "offset points", "ha": "left" if fits else "right"}
    look = {"va": "center_baseline", "fontsize": font, "color": text_colour(colour), "path_effects": outline(2.0)}
    axes.annotate(words, (mark, at), **place, **look, zorder=7)


# --- levels ---------------------------------------------------------------------------------------------------------


def _paint_levels(story: Story, chart: Levels, axes: Any) -> None:
    """A lane for each vehicle, the first one on top, empty at its bottom."""
    looks, count = Looks(story), max(len(chart.vehicles), 1)
    most = max((vehicle.capacity for at in chart.vehicles if not (vehicle := story.vehicles[at]).is_share), default=1.0)
    for lane, at in enumerate(chart.vehicles):
        vehicle = story.vehicles[at]
        if chart.shaded:
            _shade(vehicle, axes, lane)
        if vehicle.is_share:
            _paint_share(vehicle, axes, lane, looks.line(at))
        else:
            _paint_load(vehicle, axes, lane, looks.colour(at), max(most, *(level for _, level in vehicle.levels), 1e-9))
    axes.set_ylim(count - 0.5, -0.5)
    font = min(8.0, 0.8 * points_high(axes) / count)
    names = [story.vehicles[at].name for at in chart.vehicles]
    _name_lanes(axes, list(range(len(names))), names, [looks.colour(at) for at in chart.vehicles], font)


def _shade(vehicle: Vehicle, axes: Any, lane: int) -> None:
    """The ground tells what the vehicle does, a line on top when it carries something."""
    for each in vehicle.activities:
        box = {"left": each.begin, "height": 2 * LANE, "color": SHADES[each.name], "linewidth": 0}
        axes.barh(lane, each.end - each.begin, **box)
    ends = [*(time for time, _ in vehicle.carries[1:]), vehicle.track[-1][0] if vehicle.track else 0.0]
    for (begin, carries), end in zip(vehicle.carries, ends, strict=False):
        if carries:
            axes.plot([begin, end], [lane - LANE - 0.04] * 2, color=INK, linewidth=1.8, solid_capstyle="butt")


def _paint_share(vehicle: Vehicle, axes: Any, lane: int, line: dict[str, Any]) -> None:
    times, levels = np.reshape(vehicle.levels, (-1, 2)).T
    height = lane + LANE - 2 * LANE * levels / vehicle.capacity
    axes.plot(times, height, **line, linewidth=1.6, solid_joinstyle="round", clip_on=False)


def _paint_load(vehicle: Vehicle, axes: Any, lane: int, colour: str, most: float) -> None:
    """The load as steps, the capacity as a dashed line, and red what is above it."""
    base, unit = lane + LANE, -2 * LANE / most
    times, levels = np.reshape(vehicle.levels, (-1, 2)).T
    height = base + unit * levels
    axes.axhline(base, color=FRAME, linewidth=0.8, zorder=1)
    limit = base + unit * vehicle.capacity
    axes.axhline(limit, color="#7A828A", linewidth=0.9, linestyle=(0, (4, 2.5)), zorder=2)
    font = legible(axes, 7.5)
    look = {"transform": axes.get_yaxis_transform(), "fontsize": font, "color": NOTE, "va": "center"}
    axes.text(1.01, limit, f"{vehicle.capacity:g}" if font else "", **look)
    axes.fill_between(times, base, height, step="post", color=colour, alpha=0.28, linewidth=0, zorder=3)
    above = np.minimum(height, limit)  # y points down
    axes.fill_between(times, limit, above, step="post", color=LOST, linewidth=0, zorder=5)
    axes.plot(times, height, drawstyle="steps-post", color=colour, linewidth=1.4, solid_joinstyle="miter", zorder=4)


# --- counts and lines -------------------------------------------------------------------------------------------------


def _paint_counts(story: Story, chart: Counts, axes: Any) -> None:
    looks, (first, last) = Looks(story), span_of(story, chart)
    totals = [len(times) for _, _, times in chart.series]
    top = 1.3 * max(*totals, 1)
    for at, (words, name, times) in enumerate(chart.series):
        colour, count = looks.count(name), len(times)
        axes.step([first, *sorted(times), last], [*range(count + 1), count], where="post", color=colour, linewidth=1.6)
        is_crowded = any(0 <= other - count < 0.15 * top for at_other, other in enumerate(totals) if at_other != at)
        place = {"xytext": (0, -7 if is_crowded else 7), "textcoords": "offset points", "ha": "right", "va": "center"}
        look = {"fontsize": 8, "color": colour, "path_effects": outline()}
        axes.annotate(f"{count} {words}", (last, count), **place, **look)
    axes.set_ylim(0, top)
    axes.locator_params(axis="y", integer=True)


def _look_of_line(looks: Looks, at: int, vehicle: int | None) -> dict[str, Any]:
    return {**(series_look(at) if vehicle is None else looks.line(vehicle)), "linewidth": 1.4}


# --- legends --------------------------------------------------------------------------------------------------------


def keys_of(story: Story, chart: Chart) -> list[Any]:
    """Legend entries of a chart."""
    looks = Looks(story)
    if isinstance(chart, Rows):
        keys = [_key_of_row(looks, look, words) for look, words in chart.keys]
        dashed = {"linestyle": (0, (3, 2)), "linewidth": 0.9, "color": INK}
        return [*keys, legend_entry(**dashed, label="end")] if _goes_on(story) else keys
    if isinstance(chart, Counts):
        return []
    if isinstance(chart, Lines):
        lines = enumerate(chart.lines if len(chart.lines) > 1 else ())
        return [legend_entry(**_look_of_line(looks, at, v), label=cut(words, 24)) for at, (words, v, _) in lines]
    vehicles = [story.vehicles[at] for at in chart.vehicles]
    done = {activity.name for vehicle in vehicles for activity in vehicle.activities} if chart.shaded else set()
    keys = [
        legend_entry(marker="s", color=shade, markersize=9, label=looks.words(name))
        for name, shade in SHADES.items()
        if name in done and looks.words(name)
    ]
    if any(carries for vehicle in vehicles for _, carries in vehicle.carries):
        keys.append(legend_entry(linestyle="-", linewidth=1.8, color=INK, label="with a parcel"))
    if any(not vehicle.is_share for vehicle in vehicles):
        keys.append(legend_entry(linestyle=(0, (4, 2.5)), color="#7A828A", label="capacity"))
    if any(level > vehicle.capacity for vehicle in vehicles if not vehicle.is_share for _, level in vehicle.levels):
        keys.append(legend_entry(marker="s", color=LOST, markersize=9, label="overload"))
    return keys


def _key_of_row(looks: Looks, look: str, words: str) -> Any:
    """As bars and dots look."""
    from matplotlib.patches import Patch

    if look in ("service", "on time", "late", "lost", "gain"):
        mark = looks.dot(look, None, "")
        face = EDGE if mark.face == INK else mark.face
        edge = {"markeredgecolor": mark.edge, "markeredgewidth": 2} if mark.edge == LOST else {}
        return legend_entry(marker=mark.shape, color=face, label=words, **edge)
    if look in ("known", "approach", "ride", "late ride"):
        colour = LOST if look == "late ride" else EDGE
        width = 0.8 if look in ("known", "approach") else 2.2
        return legend_entry(linestyle="-", linewidth=width, color=colour, label=words)
    style = looks.bar(Bar(0.0, 1.0, look))
    return Patch(**{**style, "facecolor": EDGE if style["facecolor"] == INK else style["facecolor"]}, label=words)
