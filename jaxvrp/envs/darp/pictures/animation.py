"""The animation of a dial-a-ride episode: the picture of the plan, in which things appear as they happen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.darp.pictures import plan_figure
from jaxvrp.envs.darp.played import Plan
from jaxvrp.pictures import GROUND, INK, centred
from jaxvrp.show.palette import WRONG

WIDTH = 1080
MAX_FRAMES, FRAMES_PER_LEG, PLAY_MS, LAST_FRAME_MS, PALETTE_SIZE = 96, 4, 12_000, 3000, 256


def write_animation(plan: Plan, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    scene = _Scene(plan)
    chosen = pictures.sample_frames(FRAMES_PER_LEG * len(plan.legs) + 1, MAX_FRAMES) / FRAMES_PER_LEG
    sample = np.concatenate([scene.frame(moment) for moment in (0.0, chosen[-1])])
    meaning = (*plan_figure.COLOURS, WRONG, plan_figure.PICKUP_WINDOW, plan_figure.DROP_OFF_WINDOW)
    palette = pictures.shared_palette(sample, ("white", GROUND, INK, *meaning), PALETTE_SIZE)
    pause = int(np.clip(PLAY_MS / len(chosen), 100, 250))
    pictures.write_gif(path, (scene.frame(moment) for moment in chosen.tolist()), palette, pause, LAST_FRAME_MS)


class _Scene:
    """The picture at any moment, counted in legs; whole numbers are stops."""

    def __init__(self, plan: Plan):
        self.plan, self.picture = plan, plan_figure.lay_out(plan, width=WIDTH)
        axes = self.picture.map
        (self.trail,) = axes.plot([], [], linewidth=1.8, zorder=3)
        (self.body,) = axes.plot([], [], "o", markersize=15, markeredgecolor="white", zorder=9)
        self.number = axes.text(0, 0, "", weight="bold", zorder=10, **centred(8.5))
        self.events = sorted(self.picture.events, key=lambda event: event[1].get_zorder())
        for artist in (self.picture.headline, self.trail, self.body, self.number, *(each for _, each in self.events)):
            artist.set_animated(True)
        # Animated artists are left out here: this is what never changes.
        self.canvas = self.picture.figure.canvas
        self.canvas.draw()
        self.blank = self.canvas.copy_from_bbox(self.picture.figure.bbox)
        self.stop, self.background = -1, self.blank

    def frame(self, moment: float) -> np.ndarray:
        """`u8[height, width, 3]`; quickest in the order of time."""
        draw = self.picture.figure.draw_artist
        if int(moment) != self.stop:
            self.stop = int(moment)
            self.canvas.restore_region(self.blank)
            for since, artist in self.events:
                if since <= self.stop:
                    draw(artist)
            self.background = self.canvas.copy_from_bbox(self.picture.figure.bbox)
        self.canvas.restore_region(self.background)
        if moment >= self.picture.end:
            self.picture.headline.set_text(plan_figure.summary(self.plan))
        else:
            self._move(moment)
            for artist in (self.trail, self.body, self.number):
                draw(artist)
        draw(self.picture.headline)
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()

    def _move(self, moment: float) -> None:
        """Put the vehicle where it is on its leg, with its passengers, and tell of it in the headline."""
        plan, leg, share = self.plan, self.plan.legs[int(moment)], moment % 1
        start, end = plan.instance.locs[[leg.origin, leg.node]]
        place = start + share * (end - start)
        self.trail.set_data(*np.stack([start, place]).T)
        self.trail.set(**plan_figure.line_style(leg.vehicle))
        self.body.set_data([place[0]], [place[1]])
        self.body.set(color=plan_figure.colour_of(leg.vehicle), markeredgecolor="white")
        self.number.set(position=place, text=str(leg.load_before))
        served = int(((plan.moment[2::2] <= moment) & plan.delivered[1:]).sum())
        capacity = plan.capacity(leg.vehicle)
        load = f"load {leg.load_before}" + (f" of {capacity}" if capacity else "")
        time = leg.leave + share * (leg.begin - leg.leave)
        # Digits of one width, and figures that keep their place.
        parts = [f"vehicle {leg.vehicle}", f"clock {time:6.1f}", f"{load:<10}"]
        self.picture.headline.set_text("   |   ".join([*parts, f"{served} of {len(plan.requests)} requests served"]))
