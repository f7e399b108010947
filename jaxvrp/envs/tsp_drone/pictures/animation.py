"""The animation of a plan: truck and drone move over its picture as time goes by."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.tsp_drone.pictures.plan_figure import COLOURS, lay_out, summary
from jaxvrp.envs.tsp_drone.played import DRONE, TRUCK, Plan
from jaxvrp.pictures import GROUND, INK
from jaxvrp.pictures.palette import EDGE, PALE

DPI = 90
FRAMES, PAUSE_MS, LAST_FRAME_MS, PALETTE_SIZE = 72, 110, 3000, 128


def write_animation(plan: Plan, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    scene = _Scene(plan)
    times = np.linspace(0.0, plan.report.cost, FRAMES if plan.legs else 1)
    sample = np.concatenate([scene.frame(time) for time in (0.0, float(times[-1]))])
    exact = ("white", GROUND, INK, PALE, EDGE, *COLOURS.values())
    palette = pictures.shared_palette(sample, exact, PALETTE_SIZE)
    pictures.write_gif(path, (scene.frame(time) for time in times.tolist()), palette, PAUSE_MS, LAST_FRAME_MS)


class _Scene:
    """The picture at any time."""

    def __init__(self, plan: Plan):
        self.plan = plan
        picture = lay_out(plan, DPI)
        self.headline = picture.headline
        style = {"markeredgecolor": INK, "markeredgewidth": 1.6, "zorder": 9}
        (self.truck,) = picture.map.plot([], [], "o", markersize=15, color=COLOURS[TRUCK], **style)
        (self.drone,) = picture.map.plot([], [], "^", markersize=11, color=COLOURS[DRONE], **style)
        self.now = picture.chart.axvline(0.0, color=INK, linewidth=1.2)
        self.moving = pictures.AnimatedFigure(picture.figure, [self.headline, self.truck, self.drone, self.now])

    def frame(self, time: float) -> np.ndarray:
        """`u8[height, width, 3]`."""
        for who, mark in ((TRUCK, self.truck), (DRONE, self.drone)):
            mark.set_data(*self.plan.place(who, time)[:, None])
        self.now.set_xdata([time, time])
        over = time >= self.plan.report.cost
        served = int((self.plan.served_at <= time).sum())
        words = f"time {time:6.1f}   |   {served} of {len(self.plan.nodes) - 1} customers served"
        self.headline.set_text(summary(self.plan) if over else words)
        return self.moving.frame()
