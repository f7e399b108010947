"""The animation of one episode: artists that are made once and change from frame to frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.truck_drone import played
from jaxvrp.envs.truck_drone.pictures import route_map
from jaxvrp.envs.truck_drone.pictures.route_map import Labels, LengthUnit
from jaxvrp.envs.truck_drone.played import NOBODY, Episode
from jaxvrp.show import palette

MAX_FRAMES, PLAY_MS, LAST_FRAME_MS, COLOURS = 90, 9000, 2500, 200
ABOVE = 0.1
"""Map units between a customer and a drone that is there."""

TRAIL = 15
"""Steps for which the path of a drone stays visible."""


def write(
    episode: Episode,
    max_battery: float,
    path: Path,
    labels: Labels | None = None,
    *,
    length_unit: LengthUnit = route_map.MAP_UNITS,
) -> None:
    """Write the animation as a GIF, whatever the name of `path`; without `labels`, with numbers and steps."""
    scene = _Scene(episode, max_battery, labels or route_map.numbered(episode), length_unit)
    chosen = pictures.sample_frames(episode.length, MAX_FRAMES).tolist()
    # One palette for all frames: with one for each, colours flicker and the file is several times as large.
    sample = np.concatenate([scene.frame(index) for index in (chosen[0], chosen[len(chosen) // 2], chosen[-1])])
    meaning = (palette.ON_TIME, palette.LATE, palette.LOST, palette.WAITING, palette.EDGE, *route_map.DRONE_COLOURS)
    colours = pictures.shared_palette(sample, ("white", pictures.GROUND, route_map.FAINT, *meaning), COLOURS)
    pause = int(np.clip(PLAY_MS / len(chosen), 100, 300))
    pictures.write_gif(path, (scene.frame(index) for index in chosen), colours, pause, LAST_FRAME_MS)


class _Scene:
    """The picture of any one state: a map, and the lanes of batteries up to now."""

    def __init__(self, episode: Episode, max_battery: float, labels: Labels, length_unit: LengthUnit):
        from matplotlib.patches import Rectangle

        self.episode, self.labels = episode, labels
        sheet = pictures.new_paper(9.0, 5.75, 100)
        plan = sheet.axes(0.1, 0.35, 5.05, 5.05)
        route_map.draw_ground(plan, episode, length_unit)
        route_map.draw_nodes(plan, episode, labels)
        style = {"fontsize": 11, "family": "monospace", "va": "center", "color": pictures.INK}
        self.headline = sheet.text(0.2, 5.49, "", **style)
        few = episode.num_customers <= route_map.FEW_CUSTOMERS
        self.size, self.halo_size, font = (13.0, 16.0, 8.0) if few else (9.5, 9.0, 6.0)
        places = np.asarray(episode.instance.customer_position)
        self.halo = plan.scatter(*places.T, color="#CFE3F3", linewidth=0.7, edgecolor="#9CC3E0")
        self.marks = _customer_marks(plan, episode, labels, self.size, font)
        self.fleet = _Fleet(plan, episode, labels)
        (self.trail,) = plan.plot([], [], color=pictures.INK, linewidth=1.8, alpha=0.3)
        shape = {"marker": route_map.truck_marker(), "markersize": 19, "markeredgecolor": "white"}
        (self.truck,) = plan.plot([], [], color=pictures.INK, **shape)

        count = episode.num_drones
        tall = min(1.3 * count, 3.9)
        lanes = sheet.axes(6.05, 5.1 - tall, 2.75, tall)
        below = {"loc": "upper left", "ncols": 3, "bbox_to_anchor": (0.0, -0.3 / tall)}
        route_map.draw_batteries(lanes, episode, max_battery, labels, **below)
        # A white sheet over the future moves to the right: the lanes themselves need not be drawn again.
        last = max(1, int(episode.world.step[-1]))
        self.future = lanes.add_patch(Rectangle((0, -1), 2 * last, count + 2, color="white", linewidth=0, zorder=3))
        (self.now,) = lanes.plot([0, 0], [-0.5, count - 0.5], color=pictures.INK, linewidth=1, zorder=3)

        overdue = {"markeredgecolor": palette.LATE, "markeredgewidth": 1.5}
        keys = [
            *route_map.map_keys(labels),
            pictures.legend_entry(**route_map.UNSERVED, label="waiting (halo: time left)"),
            pictures.legend_entry(marker="o", color=palette.WAITING, **overdue, label="overdue"),
        ]
        if episode.opens.any():
            closed = {"markeredgecolor": palette.EDGE, "markeredgewidth": 1.2}
            keys.append(pictures.legend_entry(marker="o", color="white", **closed, label="window not open"))
        pictures.legend(sheet.figure, keys, loc="lower left", ncols=7, bbox_to_anchor=(0.018, 0.012))
        customers = [self.halo, *(artist for artist, *_ in self.marks)]
        moving = [*customers, self.trail, self.truck, *self.fleet.artists]
        self.animated = pictures.AnimatedFigure(sheet.figure, [self.headline, *moving, self.future, self.now])

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state `index`."""
        step, truck = self.episode.world.step[index], self.episode.world.truck.position
        self.headline.set_text(route_map.summary(self.episode, index, self.labels))
        for artist, first, stop in self.marks:
            artist.set_visible(first <= step < stop)
        # A halo around a customer that can be served on time shrinks to the end of the window.
        end, served = self.episode.instance.window_end, self.episode.world.customers.served[index]
        open_from = np.maximum(self.episode.opens, self.episode.known_from)
        left = np.clip((end - step) / np.maximum(end, 1), 0, 1)
        is_open = (open_from <= step) & (step <= end) & ~served
        self.halo.set_sizes(np.where(is_open, (self.size + self.halo_size * left) ** 2, 0.0))
        self.trail.set_data(*truck[: index + 1].T)
        self.truck.set_data(*truck[index, :, None])
        self.fleet.show(index)
        self.future.set_x(step)
        self.now.set_xdata([step, step])
        return self.animated.frame()


def _customer_marks(
    axes: Any, episode: Episode, labels: Labels, size: float, font: float
) -> list[tuple[Any, int, int]]:
    """Numbered circles: artists, each with the steps from which and before which it shows.

    A circle is hollow until the window opens, and not there before the customer is known. Once served it is edged in
    the colour of the drone that came, and the step stands beside it.
    """
    never = int(episode.world.step[-1]) + 1
    marks = []
    for customer, place in enumerate(np.asarray(episode.instance.customer_position)):
        known, end = int(episode.known_from[customer]), int(episode.instance.window_end[customer])
        server, moment = episode.server[customer], episode.served_at[customer]
        served = never if server == NOBODY else int(episode.world.step[moment])
        fate, edge = route_map.service_colour(episode, customer), route_map.drone_style(server)["color"]
        circles = [
            (palette.WAITING, palette.EDGE, known, never),
            ("white", palette.EDGE, known, int(episode.opens[customer])),
            (palette.WAITING, palette.LATE, max(known, end + 1), never),
            (fate, edge, served, never),
        ]
        for colour, rim, first, stop in circles:
            look = {"color": colour, "markersize": size, "markeredgecolor": rim, "markeredgewidth": 1.5}
            marks.append((axes.plot(*place, "o", **look)[0], first, stop))
        name = labels.customers[customer]
        if labels.are_names:
            below = {"xytext": (0, -size), "textcoords": "offset points", "path_effects": pictures.outline()}
            marks.append(
                (axes.annotate(name, place, **{**pictures.centred(font, pictures.INK), **below}), known, never)
            )
        else:
            for colour, first, stop in ((pictures.INK, known, served), ("white", served, never)):
                marks.append((axes.text(*place, name, **pictures.centred(font - 0.5, colour)), first, stop))
        beside = {"xytext": (0.65 * size, 0), "textcoords": "offset points", "path_effects": pictures.outline()}
        look = {**pictures.centred(font, pictures.text_colour(fate)), "ha": "left"}
        marks.append((axes.annotate(f"@{labels.time(served)}", place, **beside, **look), served, never))
    return marks


class _Fleet:
    """The drones: numbered diamonds with a trail, a line to the target, a package, and a cross for a crash."""

    def __init__(self, axes: Any, episode: Episode, labels: Labels):
        from matplotlib.collections import LineCollection

        self.drones, fleet = episode.world.drones, range(episode.num_drones)
        self.customers = episode.instance.customer_position
        colours = [route_map.drone_style(drone)["color"] for drone in fleet]
        self.paths = [played.flight_path(episode, drone) for drone in fleet]
        self.trails = [axes.plot([], [], **route_map.drone_style(i), linewidth=1.4, alpha=0.6)[0] for i in fleet]
        self.targets = LineCollection([], colors=colours, linewidths=1.0, linestyles=[(0, (2, 2))], capstyle="butt")
        axes.add_collection(self.targets, autolim=False)
        self.bodies = axes.scatter(*np.zeros((2, len(colours))), marker="D", c=colours, linewidth=0.9)
        self.numbers = [axes.text(0, 0, sign, weight="bold", **pictures.centred(7)) for sign in labels.signs]
        (self.parcels,) = axes.plot([], [], "s", color=route_map.PARCEL, markersize=5, markeredgecolor="white")
        (self.crosses,) = axes.plot([], [], "X", color=palette.LOST, markersize=11, markeredgecolor="white")
        self.artists = [*self.trails, self.targets, self.bodies, *self.numbers, self.parcels, self.crosses]

    def show(self, index: int) -> None:
        drones = jax.tree.map(lambda leaf: leaf[index], self.drones)
        onboard, lost = drones.is_onboard, drones.is_crashed
        above = _above(drones.position, np.asarray(self.customers))
        place = np.where(onboard[:, None], _berths(drones.position), above)
        self.bodies.set_offsets(place)
        self.bodies.set_sizes(np.where(onboard, 62.0, 95.0))
        self.bodies.set_edgecolor(np.where(lost, palette.LOST, "white").tolist())
        for spot, number, small in zip(place, self.numbers, onboard, strict=True):
            number.set_position(spot)
            number.set_fontsize(5.5 if small else 7)
        self.parcels.set_data(*(place[drones.carrying >= 0] - [0.0, 0.052]).T)
        self.crosses.set_data(*(drones.position[lost] + 0.045).T)
        for path, trail in zip(self.paths, self.trails, strict=True):
            trail.set_data(*path[max(0, index - TRAIL) : index + 1].T)
        # Lines of length 0 where there is no target.
        aims = (drones.has_target & drones.is_airborne)[:, None]
        self.targets.set_segments([*np.stack([place, np.where(aims, drones.target, place)], axis=1)])


def _above(position: np.ndarray, customers: np.ndarray) -> np.ndarray:
    """Where drones in the air are drawn, `[D, 2]`: above a customer that they are at, which they would hide."""
    gap = np.linalg.norm(position[:, None] - customers, axis=2).min(axis=1)
    return position + np.stack([np.zeros_like(gap), np.maximum(ABOVE - gap, 0.0)], axis=1)


def _berths(position: np.ndarray) -> np.ndarray:
    """Where drones on board are drawn, `[D, 2]`: in rows of four above the truck, not on top of each other."""
    number = np.arange(len(position))
    in_row = np.minimum(4, len(position) - number // 4 * 4)
    across = (number % 4 - (in_row - 1) / 2) * 0.075
    return position + np.stack([across, 0.08 + 0.075 * (number // 4)], axis=1)
