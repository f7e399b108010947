"""The figure of a plan, still or moving: a map with tour and sorties, and what truck and drone do over time.

matplotlib is imported inside the functions; nothing goes through pyplot.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.truck_and_drone.played import DRONE, TRUCK, Plan, verdict
from jaxvrp.pictures import GROUND, INK
from jaxvrp.show.palette import EDGE, FRAME, PALE, RIGHT, SERIES, WAITING, WRONG

DPI, MOVING_DPI = 120, 90
FRAMES, PAUSE_MS, LAST_FRAME_MS, PALETTE_SIZE = 72, 110, 3000, 128
"""Of the animation."""

MANY = 40
"""From so many nodes on, they have no numbers."""


class PlanFigure(NamedTuple):
    """A figure of matplotlib, its axes (where, and when), and the text on top."""

    figure: Any
    map: Any
    chart: Any
    headline: Any


def lay_out(plan: Plan, dpi: float = DPI, fig: Any = None) -> PlanFigure:
    """Draw the whole plan, into `fig` if there is one."""
    side, across, up = 5.4, 11.2, 6.3  # inches
    sheet = pictures.new_paper(across, up, dpi, fig)
    tall = min(0.75 * len(plan.vehicles) * max(len(plan.tours), 1), 3.0)
    picture = PlanFigure(
        sheet.figure,
        map=sheet.axes(0.2, 0.2, side, side),
        chart=sheet.axes(side + 1.2, up - 1.1 - tall, across - side - 1.5, tall),
        headline=sheet.text(0.2, up - 0.25, summary(plan), fontsize=12.5, va="center", weight="bold"),
    )
    colour = RIGHT if plan.report.feasible else WRONG
    sheet.text(0.2, up - 0.5, verdict(plan.report), fontsize=10, va="center", color=colour)
    draw_map(plan, picture.map)
    draw_chart(plan, picture.chart)
    corner = sheet.place(side + 1.1, up - 1.8 - tall)
    pictures.legend(sheet.figure, [*map_keys(plan), *chart_keys()], loc="upper left", bbox_to_anchor=corner, ncols=2)
    return picture


def summary(plan: Plan) -> str:
    """Makespan, sorties and waiting, in a line; with time windows cost, tours and sorties."""
    if plan.is_priced:
        return f"cost {plan.report.cost:.5g}   |   {len(plan.tours)} tours   |   {plan.sorties} sorties"
    waits = f"truck waits {rounded(plan.waited(TRUCK), 3)}, drone {rounded(plan.waited(DRONE), 3)}"
    return f"makespan {rounded(plan.report.cost, 5)}   |   {plan.sorties} sorties   |   {waits}"


def rounded(value: float, digits: int) -> str:
    """A number of so many digits, or a larger whole number, never with an exponent."""
    return f"{value:.0f}" if value >= 10**digits - 0.5 else f"{value:.{digits}g}"


def _colour(plan: Plan, who: str, tour: int) -> str:
    """That of the vehicle; with time windows that of the tandem."""
    return SERIES[(tour if plan.is_priced else plan.vehicles.index(who)) % len(SERIES)]


def draw_map(plan: Plan, axes: Any) -> None:
    """The truck's tour, the drones' sorties, the vehicle of each customer, and the scale."""
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
        axes.plot(
            *locs[[leg.origin, leg.node]].T,
            color=_colour(plan, leg.who, leg.tour),
            linestyle=dashes,
            linewidth=width,
            zorder=2,
        )
    axes.plot(*locs[0], "s", markersize=11, color=INK, markeredgecolor="white", zorder=4)
    for node in plan.nodes.tolist()[1:]:
        server = plan.served_by[node]
        shape = "o" if server in (TRUCK, None) else "^"
        colour = WAITING if server is None else _colour(plan, server, int(plan.served_in[node]))
        edge = EDGE if server is None else "white"
        axes.plot(*locs[node], shape, markersize=9, color=colour, markeredgecolor=edge, zorder=3)
        if len(plan.nodes) <= MANY:
            style = {"fontsize": 8, "color": INK, "zorder": 5, "path_effects": pictures.outline()}
            axes.annotate(str(node), locs[node], xytext=(5, 5), textcoords="offset points", **style)


def draw_chart(plan: Plan, axes: Any) -> None:
    """What all do over time: on the way, on board, waiting."""
    count, tours = len(plan.vehicles), range(max(len(plan.tours), 1))

    def row(who: str, tour: int) -> int:
        return count * (len(tours) - tour) - 1 - plan.vehicles.index(who)

    def bar(who: str, tour: int, since: float, until: float, **style: Any) -> None:
        axes.broken_barh([(since, until - since)], (row(who, tour) - 0.32, 0.64), linewidth=0.6, **style)

    for leg in plan.legs:
        bar(leg.who, leg.tour, leg.leave, leg.arrive, color=_colour(plan, leg.who, leg.tour), edgecolor="white")
        for who in leg.carries:
            bar(who, leg.tour, leg.leave, leg.arrive, color=PALE, edgecolor="white")
    for wait in plan.waits:
        bar(wait.who, wait.tour, wait.since, wait.until, facecolor="white", edgecolor=EDGE, hatch="////")
    labels = {row(who, tour): f"{who} {tour + 1}" if plan.is_priced else who for tour in tours for who in plan.vehicles}
    axes.set(
        yticks=list(labels),
        yticklabels=list(labels.values()),
        ylim=(-0.6, count * len(tours) - 0.4),
        xlim=(0, max(plan.end, 1e-6)),
    )
    axes.set_xlabel("time", fontsize=8, color=INK)


def map_keys(plan: Plan) -> list[Any]:
    """Legend entries of the map."""
    entry = pictures.legend_entry
    if plan.is_priced:
        tandems = [
            entry(linestyle="-", color=_colour(plan, TRUCK, tour), label=f"tandem {tour + 1}")
            for tour in range(min(len(plan.tours), len(SERIES)))
        ]
        return [
            entry(marker="s", color=INK, label="depot"),
            entry(marker="o", color=EDGE, label="served by the truck"),
            entry(marker="^", color=EDGE, label="served by the drone"),
            entry(linestyle=(0, (4, 2)), color=EDGE, label="drone's way"),
            *tandems,
        ]
    served = [(who, f"served by the {who}" if who == DRONE else f"served by {who}") for who in plan.vehicles[1:]]
    return [
        entry(marker="s", color=INK, label="depot"),
        entry(marker="o", color=SERIES[0], label="served by the truck"),
        *(entry(marker="^", color=_colour(plan, who, 0), label=label) for who, label in served),
        entry(linestyle="-", color=SERIES[0], label="truck's way"),
        entry(linestyle=(0, (4, 2)), color=SERIES[1], label="drone's way"),
    ]


def chart_keys() -> list[Any]:
    """Legend entries of the chart over time, beside those of the map."""
    from matplotlib.patches import Patch

    return [
        Patch(color=PALE, label="drone on board"),
        Patch(facecolor="white", edgecolor=EDGE, hatch="////", label="waiting"),
    ]


def write_animation(plan: Plan, path: Path) -> None:
    """Write the picture, over which truck and drone move as time goes by, as a GIF, whatever the name of `path`."""
    picture = lay_out(plan, MOVING_DPI)
    style = {"markeredgecolor": INK, "markeredgewidth": 1.6, "zorder": 9}
    marks = [
        (who, tour, *picture.map.plot([], [], shape, markersize=size, color=_colour(plan, who, tour), **style))
        for tour in range(len(plan.tours))
        for who in plan.vehicles
        for shape, size in [("o", 15) if who == TRUCK else ("^", 11)]
    ]
    now = picture.chart.axvline(0.0, color=INK, linewidth=1.2)
    moving = pictures.AnimatedFigure(picture.figure, [picture.headline, *(mark for _, _, mark in marks), now])

    def frame(time: float) -> np.ndarray:
        for who, tour, mark in marks:
            mark.set_data(*plan.place(who, time, tour)[:, None])
        now.set_xdata([time, time])
        served = int((plan.served_at <= time).sum())
        words = f"time {time:6.1f}   |   {served} of {len(plan.nodes) - 1} customers served"
        picture.headline.set_text(summary(plan) if time >= plan.end else words)
        return moving.frame()

    times = np.linspace(0.0, plan.end, FRAMES if plan.legs else 1).tolist()
    exact = ("white", GROUND, INK, PALE, EDGE, *SERIES[: len(plan.vehicles)])
    palette = pictures.shared_palette(np.concatenate([frame(0.0), frame(times[-1])]), exact, PALETTE_SIZE)
    pictures.write_gif(path, map(frame, times), palette, PAUSE_MS, LAST_FRAME_MS)


def write(plan: Plan, path: str | os.PathLike) -> None:
    """Draw a whole plan to a `.png`, `.svg` or `.pdf`, or to a `.gif`, which moves.

    An older file is replaced once the new one is complete.

    Raises:
        ValueError: another suffix.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "a plan",
        lambda: lay_out(plan).figure,
        lambda partial: write_animation(plan, partial),
        dpi=DPI,
    )
