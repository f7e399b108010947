"""The figure of a plan: a map with the truck's tour and the drone's sorties, and what both do over time.

matplotlib is imported inside the functions; nothing goes through pyplot.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.tsp_drone.played import DRONE, TRUCK, Plan, verdict
from jaxvrp.pictures import GROUND, INK
from jaxvrp.pictures.palette import BLUE, EDGE, FRAME, ORANGE, PALE, RIGHT, WAITING, WRONG

COLOURS = {TRUCK: BLUE, DRONE: ORANGE}
ROWS = {TRUCK: 1, DRONE: 0}
"""Of the chart over time, from below."""

MANY = 40
"""From so many nodes on, they have no numbers."""


@dataclasses.dataclass
class PlanFigure:
    """The figure of a plan.

    Attributes:
        figure: of matplotlib.
        map, chart: its axes: where, and when.
        headline: the text on top.
    """

    figure: Any
    map: Any
    chart: Any
    headline: Any


def lay_out(plan: Plan, dpi: float = 120.0, fig: Any = None) -> PlanFigure:
    """Draw the whole plan, into `fig` if there is one."""
    side, across, up = 5.4, 11.2, 6.3  # inches
    sheet = pictures.new_sheet(across, up, dpi, fig)
    picture = PlanFigure(
        sheet.figure,
        map=sheet.axes(0.2, 0.2, side, side),
        chart=sheet.axes(side + 1.2, up - 2.6, across - side - 1.5, 1.5),
        headline=sheet.text(0.2, up - 0.25, summary(plan), fontsize=12.5, va="center", weight="bold"),
    )
    colour = RIGHT if plan.report.feasible else WRONG
    sheet.text(0.2, up - 0.5, verdict(plan.report), fontsize=10, va="center", color=colour)
    draw_map(plan, picture.map)
    draw_chart(plan, picture.chart)
    corner = sheet.place(side + 1.1, up - 3.3)
    pictures.legend(sheet.figure, [*map_keys(), *chart_keys()], loc="upper left", bbox_to_anchor=corner, ncols=2)
    return picture


def summary(plan: Plan) -> str:
    """Makespan, sorties and waiting, in a line."""
    sorties = sum(operation.fly is not None for operation in plan.report.operations)
    waits = f"truck waits {plan.waited(TRUCK):.3g}, drone {plan.waited(DRONE):.3g}"
    return f"makespan {plan.report.cost:.5g}   |   {sorties} sorties   |   {waits}"


def draw_map(plan: Plan, axes: Any) -> None:
    """The truck's tour, the drone's sorties, who served whom, and the scale."""
    locs = plan.instance.locs
    low, high = locs[plan.nodes].min(axis=0), locs[plan.nodes].max(axis=0)
    margin = 0.07 * max(*(high - low), 1e-9)
    middle, half = (low + high) / 2, max(high - low) / 2 + margin
    axes.set(xlim=middle[0] + np.array([-half, half]), ylim=middle[1] + np.array([-half, half]), xticks=[], yticks=[])
    axes.set_facecolor(GROUND)
    axes.set_aspect("equal")
    pictures.scale_bar(axes, "units")
    axes.spines[:].set(visible=True, color=FRAME)
    for leg in plan.legs:
        dashes = "-" if leg.who == TRUCK else (0, (4, 2))
        width = 2.0 if leg.who == TRUCK else 1.4
        axes.plot(*locs[[leg.origin, leg.node]].T, color=COLOURS[leg.who], linestyle=dashes, linewidth=width, zorder=2)
    for node in plan.nodes.tolist():
        _draw_node(plan, axes, node)


def _draw_node(plan: Plan, axes: Any, node: int) -> None:
    place, server = plan.instance.locs[node], plan.served_by[node]
    if node == 0:
        axes.plot(*place, "s", markersize=11, color=INK, markeredgecolor="white", zorder=4)
        return
    shape = "^" if server == DRONE else "o"
    colour = WAITING if server is None else COLOURS[server]
    edge = EDGE if server is None else "white"
    axes.plot(*place, shape, markersize=9, color=colour, markeredgecolor=edge, zorder=3)
    if len(plan.nodes) <= MANY:
        offset = {"xytext": (5, 5), "textcoords": "offset points"}
        axes.annotate(str(node), place, fontsize=8, color=INK, zorder=5, path_effects=pictures.outline(), **offset)


def draw_chart(plan: Plan, axes: Any) -> None:
    """What both do over time: on the way, on board, waiting."""
    for leg in plan.legs:
        span = [(leg.leave, leg.arrive - leg.leave)]
        axes.broken_barh(span, (ROWS[leg.who] - 0.32, 0.64), color=COLOURS[leg.who], edgecolor="white", linewidth=0.6)
        if leg.carries:
            axes.broken_barh(span, (ROWS[DRONE] - 0.32, 0.64), color=PALE, edgecolor="white", linewidth=0.6)
    for wait in plan.waits:
        span = [(wait.since, wait.until - wait.since)]
        place = (ROWS[wait.who] - 0.32, 0.64)
        axes.broken_barh(span, place, facecolor="white", edgecolor=EDGE, hatch="////", linewidth=0.6)
    axes.set(
        yticks=list(ROWS.values()), yticklabels=list(ROWS), ylim=(-0.6, 1.6), xlim=(0, max(plan.report.cost, 1e-6))
    )
    axes.set_xlabel("time", fontsize=8, color=INK)


def map_keys() -> list[Any]:
    """Legend entries of the map."""
    entry = pictures.legend_entry
    return [
        entry(marker="s", color=INK, label="depot"),
        entry(marker="o", color=BLUE, label="served by the truck"),
        entry(marker="^", color=ORANGE, label="served by the drone"),
        entry(linestyle="-", color=BLUE, label="truck's way"),
        entry(linestyle=(0, (4, 2)), color=ORANGE, label="drone's way"),
    ]


def chart_keys() -> list[Any]:
    """Legend entries of the chart over time, beside those of the map."""
    from matplotlib.patches import Patch

    return [
        Patch(color=PALE, label="drone on board"),
        Patch(facecolor="white", edgecolor=EDGE, hatch="////", label="waiting"),
    ]
