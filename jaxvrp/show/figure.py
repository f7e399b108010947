"""A whole story as a figure: headline and verdict, the map with its legend, the charts at its right; and its panels.

Every drawing function takes `fig` (it fills a figure, or a part of one) or `ax` (one panel), draws into a new one where
it is None, and returns it. matplotlib is imported inside the functions. Nothing goes through pyplot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxvrp.io.messages import cut
from jaxvrp.show import charts
from jaxvrp.show.drawing import paper
from jaxvrp.show.drawing.palette import INK, LOST, RIGHT, WRONG
from jaxvrp.show.route_map import RouteMap, crashes_of, end_of, keys_of_map, truck_marker
from jaxvrp.story import Chart, Story

DPI = 120
CHART = 5.0
"""Inches of the width of charts."""

MOST_CHARTS = 6
"""Of a figure, which shows the first ones."""

HEAD, TITLE, TICKS, KEYS = 0.72, 0.34, 0.36, 0.2
"""Inches: of the lines on top, of the title of a chart, of the times below it, of a row of a legend."""


SEPARATOR, LONGEST_HEADLINE = "   |   ", 130
"""Between the parts of a headline; letters."""


class StoryFigure(NamedTuple):
    """A figure of matplotlib, its map if there is anything on it, the axes of its charts, and the line on top."""

    figure: Any
    map: RouteMap | None
    charts: list[Any]
    headline: Any


def draw_story(story: Story, *, fig: Any = None) -> Any:
    """Draw a whole episode: what came of it, the map, and the charts; returns the figure.

    Args:
        story: of an episode.
        fig: a figure of matplotlib, or a part of one, to fill; None: a new one, of the size that suits.
    """
    picture = lay_out(story, fig=fig)
    if picture.map:
        _draw_end(picture.map)
    return paper.without_math(picture.figure)


def draw_map(story: Story, *, legend: bool = True, ax: Any = None) -> Any:
    """Draw the map of an episode at its end, with a legend below it or without; returns the axes."""
    axes = paper.axes_of(ax, 5.2, 5.2, DPI, (0.2, 0.75))
    route_map = RouteMap(story, axes)
    _draw_end(route_map)
    if legend:
        place = {"loc": "upper center", "ncols": 4, "bbox_to_anchor": (0.5, -0.01), "handlelength": 2.2}
        paper.legend(axes, keys_of_map(story), **place)
    return paper.without_math(axes)


def draw_chart(story: Story, chart: int | str = 0, *, legend: bool = True, ax: Any = None) -> Any:
    """Draw a chart of an episode, by its number or its title, with a legend below it or without; returns the axes.

    Raises:
        ValueError: the story has no such chart.
    """
    found = _chart_of(story, chart)
    least, best = charts.height_of(found)
    axes = paper.axes_of(ax, CHART, float(np.clip(best, least, 6.0)), DPI, (0.9, 0.75))
    charts.paint(story, found, axes)
    if legend and (keys := charts.keys_of(story, found)):
        below = -0.5 / (paper.points_high(axes) / 72)
        paper.legend(axes, keys, loc="upper left", ncols=3, bbox_to_anchor=(0.0, below))
    return paper.without_math(axes)


def _chart_of(story: Story, chart: int | str) -> Chart:
    titles = [each.title for each in story.charts]
    if isinstance(chart, str) and chart in titles:
        return story.charts[titles.index(chart)]
    if isinstance(chart, int) and -len(titles) <= chart < len(titles):
        return story.charts[chart]
    names = ", ".join(map(repr, titles)) or "none"
    raise ValueError(f"there is no chart {chart!r}; this episode has {names}, by number from 0")


def lay_out(story: Story, *, width: float | None = None, fig: Any = None) -> StoryFigure:
    """The figure without marks, ways and names on its map; it grows with the story.

    For screens, `width` is given in pixels, and the figure grows less.
    """
    has_map = bool(story.places or story.area or any(vehicle.track for vehicle in story.vehicles))
    named = sum(bool(place.standings and place.label) for place in story.places)
    side = float(np.clip(4.9 + 0.025 * named, 5.4, 6.4 if width else 9.4)) if has_map else 0.0
    columns, keys = max(3, int(side / 1.35)), keys_of_map(story, moving=width is not None)
    tall, shown = side + 0.2 + KEYS * math.ceil(len(keys) / columns), story.charts[:MOST_CHARTS]
    heights, below = _heights(story, shown, tall)
    up = HEAD + max(tall, float((heights + below).sum()))
    across = max(side + (CHART + 1.65 if story.charts else 0.4), 5.0)
    page = paper.new_paper(across, up, width / across if width else DPI, fig)
    headline, route_map = _write_head(page, story), None
    if has_map:
        route_map = RouteMap(story, page.axes(0.2, up - HEAD - side, side, side))
        corner = {"loc": "upper left", "bbox_to_anchor": page.place(0.15, up - HEAD - side - 0.06)}
        paper.legend(page.figure, keys, ncols=columns, handlelength=2.2, **corner)
    panels, top = [], up - HEAD
    for at, chart in enumerate(shown):
        panels.append(page.axes(side + 1.25, top - heights[at], CHART, heights[at]))
        is_last = at == len(shown) - 1
        charts.paint(story, chart, panels[-1], is_last=is_last)
        corner = {"loc": "upper left", "bbox_to_anchor": page.place(side + 1.2, top - heights[at] - TICKS + 0.06)}
        if chart_keys := charts.keys_of(story, chart):
            paper.legend(page.figure, chart_keys, ncols=3, **corner)
        top -= heights[at] + below[at]
    return StoryFigure(page.figure, route_map, panels, headline)


def _heights(story: Story, shown: Sequence[Chart], tall: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each chart, in inches: its height, and that of ticks, legend and the title of the next one below it.

    Charts fill `tall` inches, as far as they have use for it.
    """
    rows = np.array([math.ceil(len(charts.keys_of(story, chart)) / 3) for chart in shown])
    below = TICKS + KEYS * rows + TITLE * (np.arange(len(rows)) < len(rows) - 1)
    least, best = np.reshape([charts.height_of(chart) for chart in shown], (-1, 2)).T
    more = np.minimum(best, 2.2 * least) - least
    share = (tall - below.sum() - least.sum()) / max(float(more.sum()), 1e-9)
    return least + more * np.clip(share, 0.0, 1.0), below


def headline_of(story: Story) -> str:
    """What came of an episode, the most important first, in a line that can be read."""
    parts = [f"{name} {value}" for name, value in story.summary]
    while len(SEPARATOR.join(parts)) > LONGEST_HEADLINE and len(parts) > 1:
        parts.pop()
    return SEPARATOR.join(parts)


def _write_head(page: paper.Paper, story: Story) -> Any:
    """The headline, as large as it fits, and the verdict; returns the headline."""
    words, room = headline_of(story), 72 * (page.width - 0.4)
    font = min(12.5, room / (0.68 * max(len(words), 1)))
    headline = page.text(0.2, page.height - 0.25, words, fontsize=font, va="center", color=INK, weight="bold")
    verdict = cut(story.verdict, LONGEST_HEADLINE)
    look = {"fontsize": min(10.0, room / (0.55 * max(len(verdict), 1))), "va": "center"}
    page.text(0.2, page.height - 0.5, verdict, **look, color=RIGHT if story.is_feasible else WRONG)
    return headline


def _draw_end(route_map: RouteMap) -> None:
    """The map as it is in the end."""
    story, axes = route_map.story, route_map.axes
    end = end_of(story)
    for at, (vehicle, way) in enumerate(zip(story.vehicles, route_map.ways, strict=True)):
        if len(way.times):
            line = way.line(way.times[0], way.times[-1])
            route_map.draw_way(at, line)
            route_map.draw_arrows(at, line)
        if vehicle.kind == "truck" and len(way.times) and not any(place.kind == "depot" for place in story.places):
            ring = {"markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.6}
            axes.plot(*way.places[0], "o", markersize=11, **ring, zorder=3)
            look = {"color": route_map.looks.colour(at), "markeredgecolor": "white", "markersize": 20}
            axes.plot(*way.places[-1], marker=truck_marker(), **look, zorder=7)
    for mark, places in route_map.marks(end).items():
        route_map.draw_marks(mark, places)
    for place in crashes_of(story):
        axes.plot(*place, "X", color=LOST, markersize=11, markeredgecolor="white", zorder=6)
    route_map.draw_names(end)
