"""The picture of a dial-a-ride plan: its layout, its legends, and the map.

Everything that happened is drawn as an artist of its own, with the moment at which it had happened: a still shows all,
an animation what was before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.darp.pictures import timelines
from jaxvrp.envs.darp.pictures.canvas import (
    DROP_OFF_WINDOW,
    INK,
    MANY,
    MARKERS,
    PICKUP_WINDOW,
    RIGHT,
    WAITING,
    WRONG,
    Picture,
    colour_of,
    line_style,
)
from jaxvrp.envs.darp.pictures.plan import Leg, Plan, verdict
from jaxvrp.pictures import place_labels


def draw(plan: Plan, dpi: float = 120.0, width: float | None = None) -> Picture:
    """The whole plan.

    Args:
        plan: what to draw.
        dpi: pixels per inch of the figure; its size in inches grows with the plan.
        width: pixels, instead of `dpi`: for screens, the size grows less.
    """
    count, used = len(plan.requests), len(plan.used)
    # Inches.
    side = float(np.clip(4.9 + 0.05 * count, 5.2, 6.4 if width else 9.4))
    loads = float(np.clip(0.55 * used, 0.7, max(2.2, (0.22 if width else 0.33) * used)))
    rows = float(np.clip(0.27 * count, 0.5, max(4.2, (0.05 if width else 0.072) * count)))
    keys = 0.2 * (2 + -(-used // _key_columns(side)))
    across, up = side + 6.5, max(side + keys + 0.95, loads + rows + 1.95)
    spare = up - (loads + rows + 1.95)
    rows += min(spare, 0.1 * count)
    figure = pictures.new_figure(across, up, width / across if width else dpi)
    left = side + 1.05
    picture = Picture(
        plan,
        figure,
        map=pictures.new_axes(figure, 0.2, up - 0.75 - side, side, side),
        loads=pictures.new_axes(figure, left, up - 0.95 - loads, 5.0, loads),
        rows=pictures.new_axes(figure, left, up - 1.5 - loads - rows, 5.0, rows),
        headline=figure.text(0.2 / across, 1 - 0.25 / up, "", fontsize=12.5, va="center", color=INK, weight="bold"),
    )
    _draw_map(picture, side)
    timelines.draw_loads(picture)
    timelines.draw_rows(picture)
    _draw_keys(picture, (0.15 / across, (up - 0.82 - side) / up), _key_columns(side))
    picture.headline.set_text(summary(plan))
    found = verdict(plan.report)
    colour = RIGHT if plan.report.feasible else WRONG
    text = figure.text(0.2 / across, 1 - 0.53 / up, found, fontsize=10, va="center", color=colour)
    picture.add(picture.end, text)
    return picture


def summary(plan: Plan) -> str:
    """The headline of the whole plan."""
    served, count = int(plan.delivered.sum()), len(plan.requests)
    share = f" ({served / count:.0%})" if count else ""
    vehicles = f"{len(plan.used)} of {plan.num_vehicles} vehicles used"
    return f"cost {plan.report.cost:.2f}   |   {served} of {count} requests served{share}   |   {vehicles}"


def _key_columns(side: float) -> int:
    return int(side / 1.05)


def _draw_keys(picture: Picture, corner: tuple[float, float], columns: int) -> None:
    """Vehicles and symbols below the map."""
    key = pictures.key
    symbols = [
        key(marker="^", color=INK, label="pickup"),
        key(marker="v", color=INK, label="drop-off"),
        key(marker="s", color=INK, label="depot"),
        key(marker="^", color="white", markeredgecolor=WRONG, markeredgewidth=1.6, label="not served"),
        key(marker="o", color=WRONG, label="late, ride too long, overload"),
        key(marker="X", color=WRONG, label="bad return (late, passengers on board)"),
        key(marker="s", color=PICKUP_WINDOW, markersize=9, label="pickup window"),
        key(marker="s", color=DROP_OFF_WINDOW, markersize=9, label="drop-off window"),
    ]
    # One row of vehicles after the other: legends fill columns first.
    vehicles = [
        key(**{**line_style(vehicle), "linewidth": 2, "label": f"vehicle {vehicle}"}) for vehicle in picture.plan.used
    ]
    drop = 0.2 * -(-len(vehicles) // columns) / picture.figure.get_size_inches()[1]
    place = {"loc": "upper left", "handlelength": 2.6}
    if vehicles:
        picture.figure.legend(handles=vehicles, ncols=columns, bbox_to_anchor=corner, **place, **_KEYS)
    below = (corner[0], corner[1] - drop)
    pictures.legend(picture.figure, symbols, ncols=4, bbox_to_anchor=below, loc="upper left", **_KEYS)


_KEYS = {"fontsize": 8, "frameon": False, "columnspacing": 1.2, "borderaxespad": 0.1}


# --- the map --------------------------------------------------------------------------------------------------------


def _draw_map(picture: Picture, side: float) -> None:
    axes, plan = picture.map, picture.plan
    nodes = _real_nodes(plan)
    places = plan.instance.locs[[0, *nodes]]
    centre = (places.max(axis=0) + places.min(axis=0)) / 2
    half = 1.07 * max(float((places.max(axis=0) - places.min(axis=0)).max()) / 2, 1e-9)
    axes.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half), xticks=[], yticks=[])
    axes.set_facecolor(pictures.GROUND)
    axes.spines[:].set(visible=True, color="#C9CDD2", linewidth=0.8)
    many = len(plan.requests) >= MANY
    for moment, leg in enumerate(plan.legs, 1):
        picture.add(moment, *_draw_leg(axes, plan, leg, many, 2 * half / side))
    size = 6.5 if many else 10.0
    _draw_nodes(picture, nodes, size)
    edge = {"markeredgecolor": "white", "markeredgewidth": 1.2}
    picture.add(0, *axes.plot(*plan.instance.locs[0], "s", color=INK, markersize=size + 3, **edge, zorder=7))
    _label_nodes(picture, nodes, centre, half, size, 2 * half / side / 72)


def _real_nodes(plan: Plan) -> list[int]:
    return [node for request in plan.requests.tolist() for node in (2 * request - 1, 2 * request)]


def _draw_leg(axes: Any, plan: Plan, leg: Leg, many: bool, inch: float) -> list[Any]:
    """A line, and an arrowhead in its middle unless it is short."""
    from matplotlib.markers import MarkerStyle
    from matplotlib.path import Path as Shape
    from matplotlib.transforms import Affine2D

    ends = plan.instance.locs[[leg.origin, leg.node]]
    width = 1.2 if many else 1.8
    lines = axes.plot(*ends.T, **line_style(leg.vehicle), linewidth=width, alpha=0.85, zorder=3)
    gap = ends[1] - ends[0]
    if np.hypot(*gap) < (0.22 if many else 0.4) * inch:
        return lines
    dart = Shape([(-1, -0.9), (1, 0), (-1, 0.9), (-0.45, 0), (-1, -0.9)], closed=True)
    head = MarkerStyle(dart, transform=Affine2D().rotate(np.arctan2(gap[1], gap[0])))
    look = {"color": colour_of(leg.vehicle), "markeredgecolor": "white", "markeredgewidth": 0.5}
    return lines + axes.plot(*(ends[0] + 0.55 * gap), marker=head, markersize=6 if many else 8, zorder=4, **look)


def _draw_nodes(picture: Picture, nodes: list[int], size: float) -> None:
    """Hollow symbols, filled when somebody comes; red in the end for those whom nobody brought."""
    axes, plan = picture.map, picture.plan
    for node in nodes:
        place, marker = plan.instance.locs[node], MARKERS[node % 2]
        hollow = {"markerfacecolor": "white", "markersize": size - 1, "markeredgewidth": 1.3}
        picture.add(0, *axes.plot(*place, marker, markeredgecolor=WAITING, **hollow, zorder=5))
        if plan.moment[node]:
            late = plan.late[node] > 0
            edge = {"markeredgecolor": WRONG if late else "white", "markeredgewidth": 1.6 if late else 0.7}
            colour = colour_of(plan.visited_by[node])
            picture.add(plan.moment[node], *axes.plot(*place, marker, color=colour, markersize=size, **edge, zorder=6))
        elif not plan.delivered[(node + 1) // 2]:
            picture.add(picture.end, *axes.plot(*place, marker, markeredgecolor=WRONG, **hollow, zorder=6))
    for request in plan.requests[~plan.delivered[plan.requests]].tolist():
        ends = plan.instance.locs[[2 * request - 1, 2 * request]]
        dots = {"color": WRONG, "linewidth": 0.11 * size, "linestyle": (0, (1, 2.5)), "alpha": 0.7}
        picture.add(picture.end, *axes.plot(*ends.T, **dots, zorder=2))


def _label_nodes(
    picture: Picture, nodes: list[int], centre: np.ndarray, half: float, size: float, point: float
) -> None:
    """The number of the request beside each node."""
    axes, plan = picture.map, picture.plan
    font = picture.letters(5.8 if len(plan.requests) >= MANY else 8.5)
    if not font:
        return
    locs = plan.instance.locs - centre
    texts = [str((node + 1) // 2) for node in nodes]
    ways = np.array([locs[[leg.origin, leg.node]] for leg in plan.legs]).reshape(-1, 2, 2)
    share = np.linspace(0.0, 1.0, 12)[:, None, None]
    crowd = ((1 - share) * ways[:, 0] + share * ways[:, 1]).reshape(-1, 2)
    places = place_labels(
        locs[nodes],
        np.array([[0.62 * font * len(text), font] for text in texts]).reshape(-1, 2) * point,
        markers=locs[[0, *nodes]],
        radius=size / 2 * point,
        crowd=crowd,
        limit=half,
    )
    for node, text, place in zip(nodes, texts, places, strict=True):
        lost = not plan.delivered[(node + 1) // 2]
        look = {
            "path_effects": pictures.outline(1.8),
            "zorder": 8,
        }
        for moment, colour, weight in ((0, INK, "normal"), (picture.end, WRONG, "bold"))[: 1 + lost]:
            picture.add(
                moment, axes.text(*(place + centre), text, weight=weight, **pictures.centred(font, colour), **look)
            )
