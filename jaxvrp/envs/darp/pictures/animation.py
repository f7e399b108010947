"""The animation of a dial-a-ride episode: the picture of the plan, in which things appear as they happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.darp.pictures.plan_figure import (
    COLOURS,
    DROP_OFF_WINDOW,
    PICKUP_WINDOW,
    colour_of,
    lay_out,
    line_style,
    summary,
)
from jaxvrp.envs.darp.played import Plan
from jaxvrp.pictures import GROUND, INK, centred
from jaxvrp.pictures.palette import WRONG

WIDTH = 1080
MAX_FRAMES, FRAMES_PER_LEG, PLAY_MS, LAST_FRAME_MS, PALETTE_SIZE = 96, 4, 12_000, 3000, 256


def write_animation(plan: Plan, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    scene = _Scene(plan)
    chosen = pictures.sample_frames(FRAMES_PER_LEG * len(plan.legs) + 1, MAX_FRAMES) / FRAMES_PER_LEG
    sample = np.concatenate([scene.frame(moment) for moment in (0.0, chosen[-1])])
    meaning = (*COLOURS, WRONG, PICKUP_WINDOW, DROP_OFF_WINDOW)
    palette = pictures.shared_palette(sample, ("white", GROUND, INK, *meaning), PALETTE_SIZE)
    pause = int(np.clip(PLAY_MS / len(chosen), 100, 250))
    pictures.write_gif(path, (scene.frame(moment) for moment in chosen.tolist()), palette, pause, LAST_FRAME_MS)


class _Scene:
    """The picture at any moment, counted in legs; whole numbers are stops."""

    def __init__(self, plan: Plan):
        self.plan, self.picture = plan, lay_out(plan, width=WIDTH)
        axes = self.picture.map
        (self.trail,) = axes.plot([], [], linewidth=1.8, zorder=3)
        (self.body,) = axes.plot([], [], "o", markersize=15, markeredgecolor="white", zorder=9)
        self.number = axes.text(0, 0, "", weight="bold", zorder=10, **centred(8.5))
        self.moving = [self.trail, self.body, self.number]
        events = sorted(self.picture.events, key=lambda event: event[1].get_zorder())
        # On the map, things come to lie under others; elsewhere what was drawn once can stay.
        self.layered = [(since, artist) for since, artist in events if artist.axes is axes]
        self.lasting = [(since, artist) for since, artist in events if artist.axes is not axes]
        for artist in (self.picture.headline, *self.moving, *(artist for _, artist in events)):
            artist.set_animated(True)
        # Animated artists are left out here: this is what never changes.
        self.canvas = self.picture.figure.canvas
        self.canvas.draw()
        self.blank = self.settled = self.background = self._copy()
        self.stop = -1

    def _copy(self) -> Any:
        """What is on the canvas now, to be restored."""
        return self.canvas.copy_from_bbox(self.picture.figure.bbox)

    def frame(self, moment: float) -> np.ndarray:
        """`u8[height, width, 3]`; quickest in the order of time."""
        over = moment >= self.picture.end
        if int(moment) != self.stop:
            self._draw_stop(int(moment))
        self.canvas.restore_region(self.background)
        self.picture.headline.set_text(summary(self.plan) if over else self._headline(moment))
        self.picture.figure.draw_artist(self.picture.headline)
        if not over:
            self._move(moment)
            for artist in self.moving:
                self.picture.figure.draw_artist(artist)
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()

    def _draw_stop(self, stop: int) -> None:
        """Everything that had happened after so many legs becomes the background."""
        if stop < self.stop:
            self.settled, self.stop = self.blank, -1
        self.canvas.restore_region(self.settled)
        for since, artist in self.lasting:
            if self.stop < since <= stop:
                self.picture.figure.draw_artist(artist)
        self.settled = self._copy()
        for since, artist in self.layered:
            if since <= stop:
                self.picture.figure.draw_artist(artist)
        self.background, self.stop = self._copy(), stop

    def _move(self, moment: float) -> None:
        """Put the vehicle where it is on its leg, with the number of passengers on it."""
        leg, share = self.plan.legs[int(moment)], moment % 1
        start, end = self.plan.instance.locs[[leg.origin, leg.node]]
        place = start + share * (end - start)
        self.trail.set_data(*np.stack([start, place]).T)
        self.trail.set(**line_style(leg.vehicle))
        self.body.set_data([place[0]], [place[1]])
        self.body.set_color(colour_of(leg.vehicle))
        self.body.set_markeredgecolor("white")
        self.number.set_position(place)
        self.number.set_text(str(leg.load_before))

    def _headline(self, moment: float) -> str:
        """The vehicle under way, the time, its load, and the requests served so far."""
        leg, share = self.plan.legs[int(moment)], moment % 1
        served = int(((self.plan.moment[2::2] <= moment) & self.plan.delivered[1:]).sum())
        capacity = self.plan.capacity(leg.vehicle)
        load = f"load {leg.load_before}" + (f" of {capacity}" if capacity else "")
        time = leg.leave + share * (leg.begin - leg.leave)
        # Digits of one width, and figures that keep their place.
        parts = [f"vehicle {leg.vehicle}", f"clock {time:6.1f}", f"{load:<10}"]
        return "   |   ".join([*parts, f"{served} of {len(self.plan.requests)} requests served"])
