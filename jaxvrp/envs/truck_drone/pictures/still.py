"""One episode as a figure, or as panels of other figures: the map, batteries and deliveries over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.truck_drone import played
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.pictures import route_map
from jaxvrp.envs.truck_drone.pictures.route_map import MAP_UNITS, LengthUnit
from jaxvrp.envs.truck_drone.played import NOBODY, WAITING, Episode
from jaxvrp.envs.truck_drone.world import CRASHED, World
from jaxvrp.pictures import palette

DPI = 110


def draw_episode(env: TruckDrone, states: World, *, length_unit: LengthUnit = MAP_UNITS, fig: Any = None) -> Any:
    """Draw a whole episode: the map on the left, batteries and deadlines over time on the right.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        length_unit: of the scale bar, and how many of these a map unit has: `("km", 1.5)`.
        fig: a figure of matplotlib, or a part of one, to fill; None: a new one, of the size that suits.

    Returns:
        The figure.

    Raises:
        ValueError: states of no or of several episodes.
    """
    return _still(played.from_states(env, states), float(env.max_battery), length_unit, fig)


def draw_routes(
    env: TruckDrone, states: World, *, length_unit: LengthUnit = MAP_UNITS, legend: bool = True, ax: Any = None
) -> Any:
    """Draw who went where, and who was served when, on a map.

    Args:
        env, states, length_unit: as for `draw_episode`.
        legend: whether there is one below the map.
        ax: axes of matplotlib; None: those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: states of no or of several episodes.
    """
    episode = played.from_states(env, states)
    axes = pictures.axes_of(ax, 5.0, 5.0, DPI, (0.15, 0.75))
    route_map.draw_ground(axes, episode, length_unit)
    _draw_routes(axes, episode)
    if legend:
        pictures.legend(axes, _map_keys(), loc="upper center", ncols=4, bbox_to_anchor=(0.5, 0.0))
    return axes


def draw_batteries(env: TruckDrone, states: World, *, ax: Any = None) -> Any:
    """Draw the battery of each drone over time, and what it was doing; arguments as for `draw_routes`."""
    episode = played.from_states(env, states)
    axes = pictures.axes_of(ax, 4.75, 0.9 * episode.num_drones, DPI, (0.75, 0.75))
    _draw_batteries(axes, episode, float(env.max_battery), legend_below=True)
    return axes


def draw_deliveries(env: TruckDrone, states: World, *, ax: Any = None) -> Any:
    """Draw a row for each customer: deadline or window, and the delivery; arguments as for `draw_routes`."""
    episode = played.from_states(env, states)
    axes = pictures.axes_of(ax, 4.75, 0.55 * episode.num_customers + 0.2, DPI, (0.75, 0.4))
    _draw_deadlines(axes, episode)
    return axes


def _still(episode: Episode, max_battery: float, unit: LengthUnit = MAP_UNITS, fig: Any = None) -> Any:
    """The whole episode in one figure."""
    side = float(np.clip(2.55 + 0.115 * episode.num_customers, 4.9, 8.4))
    tall, wide = max(side + 1.05, 3.0 + 0.07 * episode.num_customers), side + 6.75
    sheet = pictures.new_sheet(wide, tall, DPI, fig)
    headline = route_map.summary(episode, -1)
    sheet.text(0.27, tall - 0.27, headline, fontsize=11.5, family="monospace", va="center")
    axes = sheet.axes(0.15, tall - 0.45 - side, side, side)
    route_map.draw_ground(axes, episode, unit)
    _draw_routes(axes, episode)
    corner = sheet.place(0.2, tall - 0.47 - side)
    pictures.legend(sheet.figure, _map_keys(), loc="upper left", ncols=4 if side < 7 else 7, bbox_to_anchor=corner)
    room = tall - 2.1
    deadlines = min(0.62 * room, 0.55 * episode.num_customers + 0.2)
    batteries = min(room - deadlines, 0.9 * episode.num_drones)
    left = side + 1.25
    _draw_batteries(sheet.axes(left, tall - 0.72 - batteries, 4.75, batteries), episode, max_battery)
    _draw_deadlines(sheet.axes(left, 0.52, 4.75, deadlines), episode)
    return sheet.figure


def _map_keys() -> list[Any]:
    """Legend entries of the map of a still."""
    package = {"marker": "_", "markeredgecolor": route_map.PARCEL, "markeredgewidth": 2}
    return [
        *route_map.map_keys(),
        pictures.legend_entry(**route_map.UNSERVED, label="not served"),
        pictures.legend_entry(**package, label="package"),
    ]


def _draw_routes(axes: Any, episode: Episode) -> None:
    """Who went where, from the beginning to the end."""
    truck, ink = episode.world.truck.position, pictures.INK
    axes.plot(*truck.T, color=ink, linewidth=2.2, alpha=0.45, zorder=2, solid_joinstyle="round")
    axes.plot(*truck[0], "o", markersize=11, markerfacecolor="none", markeredgecolor=ink, markeredgewidth=1.6, zorder=3)
    for drone in range(episode.num_drones):
        path = played.flight_path(episode, drone)
        axes.plot(*path.T, **route_map.drone_style(drone), linewidth=1.4, alpha=0.75, zorder=3)
    _draw_customers(axes, episode)
    lost = episode.world.drones.status[-1] == CRASHED
    axes.plot(
        *episode.world.drones.position[-1, lost].T,
        "X",
        color=palette.LOST,
        markersize=11,
        markeredgecolor="white",
        zorder=6,
    )
    axes.plot(*truck[-1], marker=route_map.truck_marker(), color=ink, markersize=20, markeredgecolor="white", zorder=7)
    _label(axes, episode, np.flatnonzero(lost))


def _draw_customers(axes: Any, episode: Episode) -> None:
    """Circles with the customer's number, edged in the colour of the drone that came."""
    size, font = _sizes(episode)
    for customer, place in enumerate(episode.instance.customer_position):
        server = episode.server[customer]
        known = server != NOBODY
        colour = route_map.service_colour(episode, customer) if known else palette.WAITING
        edge, width = (route_map.drone_style(server)["color"], 1.8) if known else (palette.EDGE, 1.0)
        axes.plot(*place, "o", color=colour, markersize=size, markeredgecolor=edge, markeredgewidth=width, zorder=5)
        number = pictures.centred(font - 1, "white" if known else pictures.INK)
        axes.text(*place, str(customer), **number, zorder=5.5)


def _sizes(episode: Episode) -> tuple[float, float]:
    """The sizes of customers' circles and of letters, in points."""
    return (14.0, 8.5) if episode.num_customers <= route_map.FEW_CUSTOMERS else (11.0, 6.5)


def _label(axes: Any, episode: Episode, lost: np.ndarray) -> None:
    """Write who came and when beside the customers, and who it was beside the drones `lost`."""
    size, font = _sizes(episode)
    brief = episode.num_customers > route_map.FEW_CUSTOMERS
    served = np.flatnonzero(episode.server != NOBODY)
    texts = [f"d{episode.server[i]} @ {_step(episode, i)}" if brief else _service(episode, i) for i in served.tolist()]
    texts += [f"drone_{drone}" for drone in lost]
    colours = [route_map.drone_style(episode.server[i])["color"] for i in served] + [palette.LOST] * len(lost)
    customers, crashes = episode.instance.customer_position, episode.world.drones.position[-1, lost]
    truck, unit = episode.world.truck.position, route_map.per_point(axes, episode)
    places = pictures.place_labels(
        np.concatenate([customers[served], crashes]),
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
    """The step in which a customer was served."""
    return int(episode.world.step[episode.served_at[customer]])


def _service(episode: Episode, customer: int) -> str:
    """Who served a customer, and when."""
    return f"drone_{episode.server[customer]} @ {_step(episode, customer)}"


def _draw_batteries(axes: Any, episode: Episode, max_battery: float, *, legend_below: bool = False) -> None:
    """A lane for each drone, empty at its bottom and full at its top, shaded by what the drone was doing.

    A line above it shows when the drone carried a package. The legend is beside the title, or below the time.
    """
    step, drones = episode.world.step, episode.world.drones
    for drone in range(episode.num_drones):
        for begin, end, activity in episode.activities(drone):
            axes.barh(drone, end - begin, left=begin, height=0.84, color=route_map.SHADES[activity], linewidth=0)
        for begin, end, _ in episode.parcels(drone):
            axes.plot([begin, end], [drone - 0.46] * 2, color=route_map.PARCEL, linewidth=1.8, solid_capstyle="butt")
        level = drone + 0.42 - 0.84 * drones.battery[:, drone] / max_battery
        axes.plot(step, level, **route_map.drone_style(drone), linewidth=1.6, solid_joinstyle="round", clip_on=False)
    route_map.time_axis(axes, int(step[-1]), "battery")
    route_map.drone_rows(axes, episode)
    never = set() if (episode.activity == WAITING).any() else {WAITING}
    keys = [
        pictures.legend_entry(marker="s", color=shade, markersize=9, label=route_map.STATUS_WORDS[activity])
        for activity, shade in route_map.SHADES.items()
        if activity not in never
    ]
    if legend_below:
        pictures.legend(axes, keys, loc="upper center", ncols=len(keys), bbox_to_anchor=(0.5, -0.12))
    else:
        pictures.legend(axes, keys, loc="lower right", ncols=len(keys), bbox_to_anchor=(1.01, 1.0))


def _draw_deadlines(axes: Any, episode: Episode) -> None:
    """A row for each customer in the order of service: the time up to the deadline, and the delivery.

    That is the end of the window; its start is drawn where it bounds deliveries. A triangle is when the customer became
    known.
    """
    opens, end, last = episode.opens, episode.instance.window_end, int(episode.world.step[-1])
    order = np.lexsort((end, episode.served_at, episode.server == NOBODY))
    axes.barh(range(len(order)), (end - opens)[order], left=opens[order], height=0.62, color="#DCE3EA")
    _draw_news(axes, episode, order)
    # Deadlines may lie long after the episode: this axis is that of the problem, not of the episode.
    horizon = max(last, int(end.max()))
    if last < horizon:
        axes.axvline(last, color=pictures.INK, linewidth=0.9, linestyle=(0, (3, 2)), zorder=0)
    font = _row_font(axes, episode)
    for row, customer in enumerate(order):
        if episode.server[customer] != NOBODY:
            _draw_delivery(axes, episode, row, customer, horizon)
        elif font:
            style = {**_beside(font), "color": palette.NOTE, "transform": axes.get_yaxis_transform()}
            axes.text(1.01, row, "not served", **style)
    what = "time windows" if opens.any() else "deadlines"
    route_map.time_axis(axes, horizon, f"customers: {what} and deliveries" + _ending(axes, last, horizon))
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_yticks(range(len(order)), order.tolist() if font else [""] * len(order), fontsize=font or 1)
    axes.set_ylabel("customer", fontsize=8, labelpad=3)


def _draw_news(axes: Any, episode: Episode, order: np.ndarray) -> None:
    """A triangle where a customer became known in the course of the episode, and a line from there to the window."""
    for row, customer in enumerate(order):
        known, opens = episode.known_from[customer], episode.opens[customer]
        if known > 0:
            axes.plot([known, max(known, opens)], [row, row], color=palette.NOTE, linewidth=0.7, zorder=0.5)
            axes.plot(known, row, ">", color=palette.NOTE, markersize=3.5, markeredgewidth=0)


def _row_font(axes: Any, episode: Episode) -> float:
    """The size of letters that fits a row of `axes`, in points; 0 if nobody could read them."""
    row = pictures.points_high(axes) / episode.num_customers
    font = min(_sizes(episode)[1], 0.95 * row)
    return font if font > 4.5 else 0.0


def _ending(axes: Any, last: int, horizon: int) -> str:
    """What the title says of the line at the end of the episode, if there is one."""
    is_wide = axes.get_window_extent().width / axes.figure.dpi > 4.5
    gap = " " if is_wide else "\n"
    return f"{gap}(dashed: end of the episode)" if last < horizon else ""


def _beside(font: float) -> dict[str, Any]:
    """Text style: what stands beside a marker."""
    return {"va": "center_baseline", "fontsize": font - 0.5, "path_effects": pictures.outline(1.5)}


def _draw_delivery(axes: Any, episode: Episode, row: int, customer: int, horizon: int) -> None:
    """A dot at the delivery, an orange line from the deadline if late, a line for a wait before it, and who did it."""
    font = _row_font(axes, episode)
    step, late = _step(episode, customer), int(episode.steps_late[customer])
    axes.barh(row, late, left=step - late, height=0.22, color=palette.LATE)
    waited = int(episode.steps_waited[customer])
    if waited:
        look = {"color": route_map.SHADES[WAITING], "edgecolor": palette.NOTE, "linewidth": 0.4}
        axes.barh(row, waited, left=step - waited, height=0.36, **look)
    colour = route_map.service_colour(episode, customer)
    axes.plot(
        step, row, "o", color=colour, markersize=max(0.75 * font, 3), markeredgecolor="white", markeredgewidth=0.7
    )
    if not font:
        return
    side, align = (-1, "right") if step > 0.75 * horizon else (1, "left")
    text = _service(episode, customer) + (f" ({late} late)" if late else "")
    shade = pictures.text_colour(route_map.drone_style(episode.server[customer])["color"])
    place = {"xytext": (side * 0.6 * font, 0), "textcoords": "offset points", "ha": align}
    axes.annotate(text, (step if side > 0 else step - late, row), **place, **_beside(font), color=shade)
