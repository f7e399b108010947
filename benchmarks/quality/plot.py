"""Tables of quality as pictures: every player's figure with its interval, and its seconds for an instance."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.quality.seeds import Estimate
from jaxvrp.pictures import new_figure, save_still, series_look

DPI = 120
MARGIN = 0.05
"""Decades that are left beside the least and the greatest seconds, so that no point lies on the edge."""


@dataclasses.dataclass(frozen=True)
class Point:
    """A player.

    Attributes:
        name: of the row.
        values: the figure, of each seed.
        seconds: of the processor, for an instance.
    """

    name: str
    values: Sequence[float]
    seconds: float


def draw(points: Sequence[Point], figure_name: str, title: str, path: pathlib.Path) -> None:
    """One row a player, the best uppermost of those that are given first; trained ones have an interval."""
    figure = _new_figure(10, 1.2 + 0.28 * len(points))
    figure.suptitle(title, fontsize=10)
    quality, time = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    for place, point in enumerate(points):
        estimate = Estimate.of(point.values)
        color = "C1" if math.isnan(estimate.half) else "C0"
        quality.plot(point.values, [place] * len(point.values), "|", color=color, markersize=7, alpha=0.6)
        half = None if math.isnan(estimate.half) else [estimate.half]
        quality.errorbar([estimate.mean], [place], xerr=half, fmt="o", color=color, markersize=4, capsize=3)
        time.plot([point.seconds], [place], "o", color=color, markersize=4)
    quality.set(xlabel=figure_name, yticks=range(len(points)), yticklabels=[point.name for point in points])
    quality.invert_yaxis()
    _show_seconds(time, points)
    for axes in (quality, time):
        _unclutter(axes)
    save_still(figure, path, dpi=DPI)


def draw_curve(
    points: Sequence[Point], method_of: Callable[[str], str], figure_name: str, title: str, path: pathlib.Path
) -> None:
    """The figure against the seconds of the processor; the points of a method, at several budgets, are joined.

    Args:
        points: of all players.
        method_of: from the name of a player to that of its method.
        figure_name: of the axis.
        title: of the picture.
        path: where it is written.
    """
    figure = _new_figure(7.5, 4.2)
    axes = figure.subplots()
    methods = dict.fromkeys(method_of(point.name) for point in points)
    for number, method in enumerate(methods):
        budgets = sorted((point for point in points if method_of(point.name) == method), key=lambda each: each.seconds)
        seconds = [point.seconds for point in budgets]
        means = [Estimate.of(point.values).mean for point in budgets]
        look: dict[str, Any] = {"marker": "o", "markersize": 4, **series_look(number)}
        axes.plot(seconds, means, label=method, **look)
    axes.set(ylabel=figure_name, title=title)
    _show_seconds(axes, points)
    _unclutter(axes)
    figure.legend(loc="outside right upper", frameon=False)
    save_still(figure, path, dpi=DPI)


def _new_figure(width: float, height: float) -> Any:
    """A figure of that size in inches that makes room for its labels."""
    figure = new_figure(width, height, DPI)
    figure.set_layout_engine("constrained")
    return figure


def _show_seconds(axes: Any, points: Sequence[Point]) -> None:
    """The seconds of all points as the logarithmic x-axis, from one power of ten to another.

    Labels are at powers of ten alone, of which whole decades have two at least: what lies between them matplotlib
    labels, too, where the axis is about a decade long, and such labels overlap on a narrow one.
    """
    exponents = [math.log10(point.seconds) for point in points]
    limits = 10.0 ** math.floor(min(exponents) - MARGIN), 10.0 ** math.ceil(max(exponents) + MARGIN)
    axes.set(xlabel="CPU s / instance", xscale="log", xlim=limits)
    axes.tick_params(axis="x", which="minor", labelbottom=False)


def _unclutter(axes: Any) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
