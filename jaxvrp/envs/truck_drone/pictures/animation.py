"""The animation of one episode: layers of artists that are made once and moved from frame to frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.truck_drone import played
from jaxvrp.envs.truck_drone.pictures import route_map
from jaxvrp.envs.truck_drone.played import NOBODY, WAITING, Episode
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, RETURNING, Drones
from jaxvrp.pictures import palette

MAX_FRAMES, PLAY_MS, LAST_FRAME_MS, COLOURS = 90, 9000, 2500, 200
TRAIL = 15
"""Steps for which the path of a drone stays visible."""


def write(episode: Episode, max_battery: float, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    scene = _Scene(episode, max_battery)
    chosen = pictures.sample_frames(episode.length, MAX_FRAMES).tolist()
    # One palette for all frames: with one for each, colours flicker and the file is several times as large.
    sample = np.concatenate([scene.frame(index) for index in (chosen[0], chosen[len(chosen) // 2], chosen[-1])])
    meaning = (palette.ON_TIME, palette.LATE, palette.LOST, palette.WAITING, palette.EDGE, *route_map.DRONE_COLOURS)
    colours = pictures.shared_palette(sample, ("white", pictures.GROUND, route_map.FAINT, *meaning), COLOURS)
    pause = int(np.clip(PLAY_MS / len(chosen), 100, 300))
    pictures.write_gif(path, (scene.frame(index) for index in chosen), colours, pause, LAST_FRAME_MS)


class _Scene:
    """The picture of any one state."""

    def __init__(self, episode: Episode, max_battery: float):
        sheet = pictures.new_sheet(9.0, 5.75, 100)
        plan = sheet.axes(0.1, 0.35, 5.05, 5.05)
        route_map.draw_ground(plan, episode)
        count = episode.num_drones
        tall = min(0.42 * count, 2.1)
        bars = sheet.axes(6.05, 5.1 - tall, 1.55, tall)
        strip = sheet.axes(6.05, 0.85, 2.8, min(0.85 * count, 1.75))
        self.layers: list[Any] = [
            _Headline(sheet.figure, episode),
            _Customers(plan, episode),
            _Truck(plan, episode),
            _Fleet(plan, episode, max_battery),
            _Batteries(bars, episode, max_battery),
            _Timeline(strip, episode),
        ]
        artists = [artist for layer in self.layers for artist in layer.artists]
        self.animated = pictures.AnimatedFigure(sheet.figure, artists)

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state `index`."""
        for layer in self.layers:
            layer.show(index)
        return self.animated.frame()


class _Headline:
    """Step, customers served, battery used; and the legend."""

    def __init__(self, figure: Any, episode: Episode):
        self.episode = episode
        style = {"fontsize": 11, "family": "monospace", "va": "center", "color": pictures.INK}
        self.text = figure.text(0.023, 0.955, "", **style)
        self.artists = [self.text]
        overdue = {"markeredgecolor": palette.LATE, "markeredgewidth": 1.5}
        keys = [
            *route_map.map_keys(),
            pictures.legend_entry(**route_map.UNSERVED, label="waiting (halo: time left)"),
            pictures.legend_entry(marker="o", color=palette.WAITING, **overdue, label="overdue"),
        ]
        if episode.opens.any():
            closed = {"markeredgecolor": palette.EDGE, "markeredgewidth": 1.2}
            keys.append(pictures.legend_entry(marker="o", color="white", **closed, label="window not open"))
        pictures.legend(figure, keys, loc="lower left", ncols=7, bbox_to_anchor=(0.018, 0.012))

    def show(self, index: int) -> None:
        self.text.set_text(route_map.summary(self.episode, index))


class _Customers:
    """Numbered circles with a halo that shrinks to the end of the window, and the step of service beside them.

    Hollow until the window opens, and not there before the customer is known.
    """

    def __init__(self, axes: Any, episode: Episode):
        self.episode = episode
        few = episode.num_customers <= route_map.FEW_CUSTOMERS
        self.size, self.halo_size, font = (13.0, 16.0, 8.0) if few else (9.5, 9.0, 6.0)
        position = episode.instance.customer_position
        self.halo = axes.scatter(*position.T, color="#CFE3F3", linewidth=0.7, edgecolor="#9CC3E0")
        self.core = axes.scatter(*position.T, s=self.size**2, linewidth=1.2)
        self.numbers = [axes.text(*place, str(i), **pictures.centred(font - 0.5)) for i, place in enumerate(position)]
        self.stamps = [axes.text(*place, "", **pictures.centred(font)) for place in self._places(axes, font)]
        for customer, stamp in enumerate(self.stamps):
            stamp.set_path_effects(pictures.outline())
            stamp.set_color(pictures.text_colour(route_map.service_colour(episode, customer)))
            stamp.set_text(f"@{episode.world.customers.arrival_step[-1, customer]}")
        self.artists = [self.halo, self.core, *self.numbers, *self.stamps]

    def _places(self, axes: Any, font: float) -> np.ndarray:
        """Centres of the stamps beside the customers, `[C, 2]`."""
        position = np.asarray(self.episode.instance.customer_position)
        unit = route_map.per_point(axes, self.episode)
        digits = 1 + len(str(self.episode.world.step[-1]))
        return pictures.place_labels(
            position,
            np.broadcast_to(np.array([0.68 * font * digits, 1.1 * font]) * unit, position.shape),
            markers=np.concatenate([position, self.episode.instance.node_position]),
            radius=self.size / 2 * unit,
            crowd=np.zeros((0, 2)),
            limit=route_map.map_limit(self.episode),
        )

    def show(self, index: int) -> None:
        world, end = self.episode.world, self.episode.instance.window_end
        step, served = world.step[index], world.customers.served[index]
        left = np.clip((end - step) / np.maximum(end, 1), 0, 1)
        overdue = ~served & (step > end)
        late = served & (world.customers.arrival_step[index] > end)
        known, closed = step >= self.episode.known_from, step < self.episode.opens
        hidden = served | overdue | closed | ~known
        self.halo.set_sizes(np.where(hidden, 0.0, (self.size + self.halo_size * left) ** 2))
        self.core.set_sizes(np.where(known, self.size**2, 0.0))
        faces = [palette.LATE, palette.ON_TIME, "white"]
        self.core.set_facecolor(np.select([late, served, closed], faces, palette.WAITING).tolist())
        edges = [palette.LATE, "white"]
        self.core.set_edgecolor(np.select([overdue, served], edges, palette.EDGE).tolist())
        for number, visible, dark in zip(self.numbers, known.tolist(), (~served).tolist(), strict=True):
            number.set_visible(visible)
            number.set_color(pictures.INK if dark else "white")
        for stamp, visible in zip(self.stamps, served.tolist(), strict=True):
            stamp.set_visible(visible)


class _Truck:
    """The truck and where it has been."""

    def __init__(self, axes: Any, episode: Episode):
        self.position = episode.world.truck.position
        (self.trail,) = axes.plot([], [], color=pictures.INK, linewidth=1.8, alpha=0.3)
        shape = {"marker": route_map.truck_marker(), "markersize": 19, "markeredgecolor": "white"}
        (self.body,) = axes.plot([], [], color=pictures.INK, **shape)
        self.artists = [self.trail, self.body]

    def show(self, index: int) -> None:
        self.trail.set_data(*self.position[: index + 1].T)
        self.body.set_data(*self.position[index, :, None])


class _Fleet:
    """The drones: numbered diamonds with a trail, a line to the target, and a battery above those in the air."""

    def __init__(self, axes: Any, episode: Episode, max_battery: float):
        from matplotlib.collections import LineCollection

        self.drones, self.max_battery = episode.world.drones, max_battery
        everyone, colours = range(episode.num_drones), route_map.drone_colours(episode)
        self.paths = [played.flight_path(episode, drone) for drone in everyone]
        self.trails = [axes.plot([], [], **route_map.drone_style(i), linewidth=1.4, alpha=0.6)[0] for i in everyone]
        self.targets = LineCollection([], colors=colours, linewidths=1.0, linestyles=[(0, (2, 2))])
        self.rims = LineCollection([], colors="white", linewidths=6)
        self.empty = LineCollection([], colors="#C4C9CF", linewidths=3.6)
        self.charge = LineCollection([], colors=colours, linewidths=3.6)
        gauges = [self.rims, self.empty, self.charge]
        for lines in (self.targets, *gauges):
            lines.set_capstyle("butt")
            axes.add_collection(lines, autolim=False)
        self.bodies = axes.scatter(*np.zeros((2, len(colours))), marker="D", c=colours, linewidth=0.9)
        self.numbers = [axes.text(0, 0, str(drone), weight="bold", **pictures.centred(7)) for drone in everyone]
        (self.parcels,) = axes.plot([], [], "s", color=route_map.PARCEL, markersize=5, markeredgecolor="white")
        (self.crosses,) = axes.plot([], [], "X", color=palette.LOST, markersize=11, markeredgecolor="white")
        self.artists = [*self.trails, self.targets, self.bodies, *gauges, *self.numbers, self.parcels, self.crosses]

    def show(self, index: int) -> None:
        drones = jax.tree.map(lambda leaf: leaf[index], self.drones)
        aboard, lost = drones.is_onboard, drones.is_crashed
        place = np.where(aboard[:, None], _berths(drones.position), drones.position)
        self.bodies.set_offsets(place)
        self.bodies.set_sizes(np.where(aboard, 62.0, 95.0))
        self.bodies.set_edgecolor(np.where(lost, palette.LOST, "white").tolist())
        for spot, number, small in zip(place, self.numbers, aboard, strict=True):
            number.set_position(spot)
            number.set_fontsize(5.5 if small else 7)
        self.parcels.set_data(*(place[drones.carrying >= 0] - [0.0, 0.052]).T)
        self.crosses.set_data(*(drones.position[lost] + 0.045).T)
        for path, trail in zip(self.paths, self.trails, strict=True):
            trail.set_data(*path[max(0, index - TRAIL) : index + 1].T)
        self._show_lines(drones, place)

    def _show_lines(self, drones: Drones, place: np.ndarray) -> None:
        """Lines to targets and batteries, of length 0 or NaN where there is nothing to show."""
        aims = (drones.has_target & drones.is_airborne)[:, None]
        self.targets.set_segments([*np.stack([place, np.where(aims, drones.target, place)], axis=1)])
        width = np.where(drones.is_airborne[:, None], [0.12, 0.0], np.nan)
        start = place + np.array([0.0, 0.062]) - width / 2
        full = (drones.battery / self.max_battery)[:, None]
        self.rims.set_segments([*np.stack([start - 0.07 * width, start + 1.07 * width], axis=1)])
        self.empty.set_segments([*np.stack([start, start + width], axis=1)])
        self.charge.set_segments([*np.stack([start, start + full * width], axis=1)])


def _berths(position: np.ndarray) -> np.ndarray:
    """Where drones on board are drawn, `[D, 2]`: in rows of four above the truck, not on top of each other."""
    number = np.arange(len(position))
    in_row = np.minimum(4, len(position) - number // 4 * 4)
    across = (number % 4 - (in_row - 1) / 2) * 0.075
    return position + np.stack([across, 0.08 + 0.075 * (number // 4)], axis=1)


class _Batteries:
    """A bar for each drone, and what it is doing."""

    def __init__(self, axes: Any, episode: Episode, max_battery: float):
        self.drones, self.activity, rows = episode.world.drones, episode.activity, range(episode.num_drones)
        axes.set(xlim=(0, max_battery), xticks=[])
        axes.spines["bottom"].set_visible(False)
        axes.set_title("battery", fontsize=9.5, loc="left", color=pictures.INK, pad=4)
        font = route_map.drone_rows(axes, episode)
        axes.barh(rows, max_battery, height=0.62, color=route_map.FAINT)
        self.bars = axes.barh(rows, 0.0, height=0.62, color=route_map.drone_colours(episode)).patches
        self.notes = [axes.text(1.06 * max_battery, row, "", fontsize=font, va="center") for row in rows]
        self.artists = [*self.bars, *self.notes]

    def show(self, index: int) -> None:
        drones = jax.tree.map(lambda leaf: leaf[index], self.drones)
        for drone, (bar, note) in enumerate(zip(self.bars, self.notes, strict=True)):
            bar.set_width(drones.battery[drone])
            parcel = f" (parcel {drones.carrying[drone]})" if drones.carrying[drone] >= 0 else ""
            note.set_text(route_map.STATUS_WORDS[int(self.activity[index, drone])] + parcel)
            note.set_color(palette.LOST if drones.is_crashed[drone] else pictures.INK)


class _Timeline:
    """A row for each drone: thick in flight, light on the way back, a dot for each delivery, a cross for a crash."""

    def __init__(self, axes: Any, episode: Episode):
        from matplotlib.patches import Rectangle

        self.episode, count, last = episode, episode.num_drones, max(1, int(episode.world.step[-1]))
        route_map.time_axis(axes, last, "who served whom, and when")
        font = route_map.drone_rows(axes, episode)
        few = episode.num_customers <= route_map.FEW_CUSTOMERS
        for drone, colour in enumerate(route_map.drone_colours(episode)):
            axes.axhline(drone, color=route_map.FAINT, linewidth=1, zorder=0)
            for begin, end, activity in episode.activities(drone):
                alpha = {FLYING: 0.75, WAITING: 0.5, RETURNING: 0.3}.get(activity, 0.0)
                axes.barh(drone, end - begin, left=begin, height=0.5, color=colour, alpha=alpha, linewidth=0)
        # A white sheet over the future moves to the right: the bars themselves need not be drawn again.
        self.future = axes.add_patch(Rectangle((0, -1), 2 * last, count + 2, color="white", linewidth=0))
        (self.now,) = axes.plot([0, 0], [-0.5, count - 0.5], color=pictures.INK, linewidth=1)
        self.events = self._crosses(axes) + self._dots(axes, 10.0 if few else 6.5)
        self.events += self._numbers(axes, font - 1.5) if few else []
        self.artists = [self.future, self.now, *(artist for _, artist in self.events)]

    def _crosses(self, axes: Any) -> list[tuple[int, Any]]:
        """A cross for each crash, with the state from which it shows."""
        lost = self.episode.world.drones.status == CRASHED
        style = {"color": palette.LOST, "markersize": 8, "markeredgecolor": "white"}
        moments = [(int(lost[:, drone].argmax()), drone) for drone in np.flatnonzero(lost[-1])]
        return [(index, axes.plot(self.episode.world.step[index], drone, "X", **style)[0]) for index, drone in moments]

    def _dots(self, axes: Any, size: float) -> list[tuple[int, Any]]:
        """A dot for each delivery, with the state from which it shows."""
        step, style = self.episode.world.step, {"markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.8}
        dots = []
        for customer, index, server in self._services():
            colour = route_map.service_colour(self.episode, customer)
            dots.append((index, axes.plot(step[index], server, "o", color=colour, **style)[0]))
        return dots

    def _numbers(self, axes: Any, font: float) -> list[tuple[int, Any]]:
        """The customer's number on each dot, with the state from which it shows."""
        step, style = self.episode.world.step, pictures.centred(font)
        return [
            (index, axes.text(step[index], server, str(customer), **style))
            for customer, index, server in self._services()
        ]

    def _services(self) -> list[tuple[int, int, int]]:
        """`(customer, state, server)` of all who were served."""
        served = np.flatnonzero(self.episode.server != NOBODY)
        return [(int(i), int(self.episode.served_at[i]), int(self.episode.server[i])) for i in served]

    def show(self, index: int) -> None:
        step = self.episode.world.step[index]
        self.now.set_xdata([step, step])
        self.future.set_x(step)
        for first_index, artist in self.events:
            artist.set_visible(first_index <= index)
