"""One episode as a figure, as panels of other figures, and in files: the map, batteries and deliveries over time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.truck_drone import played
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.pictures import animation, route_map
from jaxvrp.envs.truck_drone.pictures.route_map import MAP_UNITS, Labels, LengthUnit
from jaxvrp.envs.truck_drone.played import NOBODY, WAITING, Episode
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap
from jaxvrp.envs.truck_drone.world import CRASHED, World
from jaxvrp.show import palette

DPI = 110


def render_episode(env: TruckDrone, states: World, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for a still that sums the episode up.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "an episode",
        lambda: draw_episode(env, states),
        lambda partial: animation.write(played.from_states(env, states), float(env.max_battery), partial),
        dpi=DPI,
    )


def render_on_map(fleet_map: FleetMap, env: TruckDrone, states: World, path: str | os.PathLike) -> None:
    """`render_episode` with the names and units of a map."""
    labels = route_map.labels_of_map(fleet_map)
    unit = fleet_map.units.get("length", ""), fleet_map.whole_scale.length
    pictures.write_picture(
        path,
        "an episode",
        lambda: draw_episode(env, states, length_unit=unit, labels=labels),
        lambda partial: animation.write(
            played.from_states(env, states), float(env.max_battery), partial, labels, length_unit=unit
        ),
        dpi=DPI,
    )


def draw_episode(
    env: TruckDrone,
    states: World,
    *,
    length_unit: LengthUnit = MAP_UNITS,
    labels: Labels | None = None,
    fig: Any = None,
) -> Any:
    """Draw a whole episode: the map on the left, batteries and deadlines over time on the right.

    Args:
        env, states: as for `render_episode`.
        length_unit: of the scale bar, and how many of these a map unit has: `("km", 1.5)`.
        labels: names and unit of time; None: numbers, and steps.
        fig: a figure of matplotlib, or a part of one, to fill and return; None: a new one, of the size that suits.

    Raises:
        ValueError: states of no or of several episodes.
    """
    episode = played.from_states(env, states)
    labels = labels or route_map.numbered(episode)
    side = float(np.clip(2.55 + 0.115 * episode.num_customers, 4.9, 8.4))
    tall, wide = max(side + 1.05, 3.0 + 0.07 * episode.num_customers), side + 6.75
    sheet = pictures.new_paper(wide, tall, DPI, fig)
    headline = route_map.summary(episode, -1, labels)
    sheet.text(0.27, tall - 0.27, headline, fontsize=11.5, family="monospace", va="center")
    axes = sheet.axes(0.15, tall - 0.45 - side, side, side)
    route_map.draw_ground(axes, episode, length_unit)
    _draw_routes(axes, episode, labels)
    corner = sheet.place(0.2, tall - 0.47 - side)
    pictures.legend(
        sheet.figure, _map_keys(labels), loc="upper left", ncols=4 if side < 7 else 7, bbox_to_anchor=corner
    )
    room = tall - 2.1
    deadlines = min(0.62 * room, 0.55 * episode.num_customers + 0.2)
    batteries = min(room - deadlines, 0.9 * episode.num_drones)
    lanes = sheet.axes(side + 1.25, tall - 0.72 - batteries, 4.75, batteries)
    beside_title = {"loc": "lower right", "bbox_to_anchor": (1.01, 1.0)}
    route_map.draw_batteries(lanes, episode, float(env.max_battery), labels, **beside_title)
    _draw_deadlines(sheet.axes(side + 1.25, 0.52, 4.75, deadlines), episode, labels)
    return sheet.figure


def draw_routes(
    env: TruckDrone, states: World, *, length_unit: LengthUnit = MAP_UNITS, legend: bool = True, ax: Any = None
) -> Any:
    """Draw the routes of truck and drones, and when each customer was served, on a map.

    Args:
        env, states, length_unit: as for `draw_episode`.
        legend: whether there is one below the map.
        ax: axes of matplotlib, to fill and return; None: those of a new figure.

    Raises:
        ValueError: states of no or of several episodes.
    """
    episode = played.from_states(env, states)
    axes, labels = pictures.axes_of(ax, 5.0, 5.0, DPI, (0.15, 0.75)), route_map.numbered(episode)
    route_map.draw_ground(axes, episode, length_unit)
    _draw_routes(axes, episode, labels)
    if legend:
        pictures.legend(axes, _map_keys(labels), loc="upper center", ncols=4, bbox_to_anchor=(0.5, 0.0))
    return axes


def draw_batteries(env: TruckDrone, states: World, *, ax: Any = None) -> Any:
    """Draw the battery of each drone over time, and what it was doing; arguments as for `draw_routes`."""
    episode = played.from_states(env, states)
    axes = pictures.axes_of(ax, 4.75, 0.9 * episode.num_drones, DPI, (0.75, 0.75))
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
    route_map.draw_batteries(axes, episode, float(env.max_battery), route_map.numbered(episode), **below)
    return axes


def draw_deliveries(env: TruckDrone, states: World, *, ax: Any = None) -> Any:
    """Draw a row for each customer: deadline or window, and the delivery; arguments as for `draw_routes`."""
    episode = played.from_states(env, states)
    axes = pictures.axes_of(ax, 4.75, 0.55 * episode.num_customers + 0.2, DPI, (0.75, 0.4))
    _draw_deadlines(axes, episode, route_map.numbered(episode))
    return axes


def _map_keys(labels: Labels) -> list[Any]:
    """Legend entries of the map of a still."""
    package = {"marker": "_", "markeredgecolor": route_map.PARCEL, "markeredgewidth": 2}
    return [
        *route_map.map_keys(labels),
        pictures.legend_entry(**route_map.UNSERVED, label="not served"),
        pictures.legend_entry(**package, label="package"),
    ]


def _draw_routes(axes: Any, episode: Episode, labels: Labels) -> None:
    """The ways of truck and drones, and customers by number or name, edged in the colour of the drone that came."""
    truck, ink = episode.world.truck.position, pictures.INK
    axes.plot(*truck.T, color=ink, linewidth=2.2, alpha=0.45, zorder=2, solid_joinstyle="round")
    axes.plot(*truck[0], "o", markersize=11, markerfacecolor="none", markeredgecolor=ink, markeredgewidth=1.6, zorder=3)
    for drone in range(episode.num_drones):
        path = played.flight_path(episode, drone)
        axes.plot(*path.T, **route_map.drone_style(drone), linewidth=1.4, alpha=0.75, zorder=3)
    size, font = _sizes(episode)
    for customer, place in enumerate(episode.instance.customer_position):
        server = episode.server[customer]
        served = server != NOBODY
        colour = route_map.service_colour(episode, customer) if served else palette.WAITING
        edge, width = (route_map.drone_style(server)["color"], 1.8) if served else (palette.EDGE, 1.0)
        axes.plot(*place, "o", color=colour, markersize=size, markeredgecolor=edge, markeredgewidth=width, zorder=5)
        number = pictures.centred(font - 1, "white" if served else pictures.INK)
        if not labels.are_names:
            axes.text(*place, labels.customers[customer], **number, zorder=5.5)
    lost = episode.world.drones.status[-1] == CRASHED
    cross = {"color": palette.LOST, "markersize": 11, "markeredgecolor": "white"}
    axes.plot(*episode.world.drones.position[-1, lost].T, "X", **cross, zorder=6)
    axes.plot(*truck[-1], marker=route_map.truck_marker(), color=ink, markersize=20, markeredgecolor="white", zorder=7)
    route_map.draw_nodes(axes, episode, labels)
    _label(axes, episode, np.flatnonzero(lost), labels)


def _sizes(episode: Episode) -> tuple[float, float]:
    """The sizes of customers' circles and of letters, in points."""
    return (14.0, 8.5) if episode.num_customers <= route_map.FEW_CUSTOMERS else (11.0, 6.5)


def _label(axes: Any, episode: Episode, lost: np.ndarray, labels: Labels) -> None:
    """Write drone and time of the delivery beside the customers, with their names, and names beside drones `lost`."""
    size, font = _sizes(episode)
    brief = episode.num_customers > route_map.FEW_CUSTOMERS
    served = np.flatnonzero(episode.server != NOBODY)
    if labels.are_names:
        written = np.arange(episode.num_customers)
        texts = [_named(episode, customer, labels, brief=brief) for customer in written.tolist()]
    else:
        written = served
        texts = [
            f"d{episode.server[i]} @ {_step(episode, i)}" if brief else _service(episode, i, labels)
            for i in written.tolist()
        ]
    texts += [labels.drones[drone] for drone in lost]
    colours = [
        pictures.INK if episode.server[i] == NOBODY else route_map.drone_style(episode.server[i])["color"]
        for i in written
    ] + [palette.LOST] * len(lost)
    customers, crashes = episode.instance.customer_position, episode.world.drones.position[-1, lost]
    truck = episode.world.truck.position
    # Map units in one typographic point.
    unit = 2 * route_map.map_limit(episode) / (72 * pictures.inches_square(axes))
    places = pictures.place_labels(
        np.concatenate([customers[written], crashes]),
        np.array([[0.58 * font * len(text), 1.1 * font] for text in texts]).reshape(-1, 2) * unit,
        markers=np.concatenate([customers, crashes, truck[:1], truck[-1:], episode.instance.node_position]),
        radius=size / 2 * unit,
        crowd=np.concatenate([truck, *(played.flight_path(episode, i) for i in range(episode.num_drones))]),
        limit=route_map.map_limit(episode),
    )
    for place, text, colour in zip(places, texts, colours, strict=True):
        style = pictures.centred(font, pictures.text_colour(colour))
        axes.text(*place, text, path_effects=pictures.outline(), **style, zorder=8)


def _step(episode: Episode, customer: int) -> int:
    return int(episode.world.step[episode.served_at[customer]])


def _service(episode: Episode, customer: int, labels: Labels) -> str:
    return f"{labels.drones[episode.server[customer]]} @ {labels.time(_step(episode, customer))}"


def _named(episode: Episode, customer: int, labels: Labels, *, brief: bool) -> str:
    """The name of a customer, with the drone that served unless there are many of them."""
    name = labels.customers[customer]
    return name if brief or episode.server[customer] == NOBODY else f"{name}: {_service(episode, customer, labels)}"


def _draw_deadlines(axes: Any, episode: Episode, labels: Labels) -> None:
    """A row for each customer in the order of service: the time up to the deadline, and the delivery.

    That is the end of the window; its start is drawn where it bounds deliveries. A triangle shows when a customer
    became known in the course of the episode, and a line leads from there to the window.
    """
    opens, end, last = episode.opens, episode.instance.window_end, int(episode.world.step[-1])
    order = np.lexsort((end, episode.served_at, episode.server == NOBODY))
    axes.barh(range(len(order)), (end - opens)[order], left=opens[order], height=0.62, color="#DCE3EA")
    # Deadlines may lie long after the episode: this axis is that of the problem, not of the episode.
    horizon = max(last, int(end.max()))
    title = f"customers: {'time windows' if opens.any() else 'deadlines'} and deliveries"
    if last < horizon:
        axes.axvline(last, color=pictures.INK, linewidth=0.9, linestyle=(0, (3, 2)), zorder=0)
        is_wide = axes.get_window_extent().width / axes.figure.dpi > 4.5
        title += (" " if is_wide else "\n") + "(dashed: end of the episode)"
    # Letters fit a row; there are none if they would be too small to read.
    font = min(_sizes(episode)[1], 0.95 * pictures.points_high(axes) / episode.num_customers)
    font = font if font > 4.5 else 0.0
    beside = {"va": "center_baseline", "fontsize": font - 0.5, "path_effects": pictures.outline(1.5)}
    for row, customer in enumerate(order):
        known = episode.known_from[customer]
        if known > 0:
            axes.plot([known, max(known, opens[customer])], [row, row], color=palette.NOTE, linewidth=0.7, zorder=0.5)
            axes.plot(known, row, ">", color=palette.NOTE, markersize=3.5, markeredgewidth=0)
        if episode.server[customer] != NOBODY:
            _draw_delivery(axes, episode, row, customer, horizon, font, beside, labels)
        elif font:
            axes.text(1.01, row, "not served", **beside, color=palette.NOTE, transform=axes.get_yaxis_transform())
    route_map.time_axis(axes, horizon, title, labels)
    axes.set_ylim(len(order) - 0.4, -0.6)
    names = [labels.customers[customer] if font else "" for customer in order]
    axes.set_yticks(range(len(order)), names, fontsize=font or 1)
    if not labels.are_names:
        axes.set_ylabel("customer", fontsize=8, labelpad=3)


def _draw_delivery(
    axes: Any,
    episode: Episode,
    row: int,
    customer: int,
    horizon: int,
    font: float,
    beside: dict[str, Any],
    labels: Labels,
) -> None:
    """A dot at the delivery, an orange line from the deadline if late, a line for a wait before it, and the drone."""
    step, late, waited = _step(episode, customer), int(episode.steps_late[customer]), episode.steps_waited[customer]
    axes.barh(row, late, left=step - late, height=0.22, color=palette.LATE)
    if waited:
        look = {"color": route_map.SHADES[WAITING], "edgecolor": palette.NOTE, "linewidth": 0.4}
        axes.barh(row, waited, left=step - waited, height=0.36, **look)
    dot = {"markersize": max(0.75 * font, 3), "markeredgecolor": "white", "markeredgewidth": 0.7}
    axes.plot(step, row, "o", color=route_map.service_colour(episode, customer), **dot)
    if font:
        side, align = (-1, "right") if step > 0.75 * horizon else (1, "left")
        text = _service(episode, customer, labels) + (f" ({labels.lasting(late)} late)" if late else "")
        shade = pictures.text_colour(route_map.drone_style(episode.server[customer])["color"])
        place = {"xytext": (side * 0.6 * font, 0), "textcoords": "offset points", "ha": align}
        axes.annotate(text, (step if side > 0 else step - late, row), **place, **beside, color=shade)
