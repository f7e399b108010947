"""Pictures of one episode: an animation, or a still that sums it up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.truck_drone import played_episode
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.pictures import animation, route_map
from jaxvrp.envs.truck_drone.played_episode import NOBODY, WAITING, Episode
from jaxvrp.envs.truck_drone.world import CRASHED, World
from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures import palette

SUFFIXES = (".gif", *pictures.STILLS)


def render_episode(env: TruckDrone, states: World, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for a still that sums the episode up.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"cannot draw an episode to '{path.name}': use .gif (animation), .png, .svg or .pdf (still)")
    episode = played_episode.from_states(env, states)
    max_battery = float(env.max_battery)
    if suffix == ".gif":
        write_whole(path, lambda partial: animation.write(episode, max_battery, partial))
    else:
        figure = _still(episode, max_battery)
        pictures.save_still(figure, path, 110)


def _still(episode: Episode, max_battery: float) -> Any:
    """The whole episode in one figure: the map on the left, batteries and deadlines over time on the right."""
    side = float(np.clip(2.55 + 0.115 * episode.num_customers, 4.9, 8.4))
    tall, wide = max(side + 1.05, 3.0 + 0.07 * episode.num_customers), side + 6.75
    figure = pictures.new_figure(wide, tall, 110)
    headline = route_map.summary(episode, -1)
    figure.text(0.27 / wide, 1 - 0.27 / tall, headline, fontsize=11.5, family="monospace", va="center")
    _draw_routes(route_map.new_map(figure, episode, 0.15, tall - 0.45 - side, side), episode)
    package = {"marker": "_", "markeredgecolor": route_map.PARCEL, "markeredgewidth": 2}
    keys = [
        *route_map.map_keys(),
        pictures.legend_entry(marker="o", color=palette.WAITING, label="not served"),
        pictures.legend_entry(**package, label="package"),
    ]
    corner = (0.2 / wide, 1 - (0.47 + side) / tall)
    pictures.legend(figure, keys, loc="upper left", ncols=4 if side < 7 else 7, bbox_to_anchor=corner)
    room = tall - 2.1
    deadlines = min(0.62 * room, 0.55 * episode.num_customers + 0.2)
    batteries = min(room - deadlines, 0.9 * episode.num_drones)
    left = side + 1.25
    _draw_batteries(pictures.new_axes(figure, left, tall - 0.72 - batteries, 4.75, batteries), episode, max_battery)
    _draw_deadlines(pictures.new_axes(figure, left, 0.52, 4.75, deadlines), episode)
    return figure


def _draw_routes(axes: Any, episode: Episode) -> None:
    """Who went where, from the beginning to the end."""
    truck, ink = episode.world.truck.position, pictures.INK
    axes.plot(*truck.T, color=ink, linewidth=2.2, alpha=0.45, zorder=2, solid_joinstyle="round")
    axes.plot(*truck[0], "o", markersize=11, markerfacecolor="none", markeredgecolor=ink, markeredgewidth=1.6, zorder=3)
    for drone in range(episode.num_drones):
        path = played_episode.flight_path(episode, drone)
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
        edge = route_map.drone_style(server)["color"] if known else "white"
        axes.plot(*place, "o", color=colour, markersize=size, markeredgecolor=edge, markeredgewidth=1.8, zorder=5)
        axes.text(*place, str(customer), **pictures.centred(font - 1), zorder=5.5)


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
        crowd=np.concatenate([truck, *(played_episode.flight_path(episode, i) for i in range(episode.num_drones))]),
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


def _draw_batteries(axes: Any, episode: Episode, max_battery: float) -> None:
    """A lane for each drone, empty at its bottom and full at its top, shaded by what the drone was doing.

    A line above it shows when the drone carried a package.
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
    route_map.time_axis(axes, horizon, f"customers: {what} and deliveries" + _ending(last, horizon))
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
    row = axes.get_window_extent().height / axes.figure.dpi * 72 / episode.num_customers
    font = min(_sizes(episode)[1], 0.95 * row)
    return font if font > 4.5 else 0.0


def _ending(last: int, horizon: int) -> str:
    """What the title says of the line at the end of the episode, if there is one."""
    return " (dashed: end of the episode)" if last < horizon else ""


def _beside(font: float) -> dict[str, Any]:
    """Text style: what stands beside a marker."""
    return {"va": "center_baseline", "fontsize": font - 0.5, "path_effects": pictures.outline(1.5)}


def _draw_delivery(axes: Any, episode: Episode, row: int, customer: int, horizon: int) -> None:
    """A dot at the delivery, an orange line from the deadline if late, a line for a wait before it, and who did it."""
    font = _row_font(axes, episode)
    step, late = _step(episode, customer), int(episode.steps_late[customer])
    axes.barh(row, late, left=step - late, height=0.22, color=palette.LATE)
    waited = int(episode.steps_waited[customer])
    axes.barh(
        row, waited, left=step - waited, height=0.36, color=route_map.SHADES[WAITING], edgecolor=palette.NOTE, lw=0.4
    )
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
