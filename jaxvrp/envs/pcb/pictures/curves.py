"""Metrics of an episode over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb.pictures.board_view import COLOURS
from jaxvrp.envs.pcb.pictures.played_episode import PlayedEpisode
from jaxvrp.pictures.palette import GRID, RIGHT, WRONG

BAND = 0.18
"""Opacity of the range of the agents."""

DASHES = (0, (4, 2))
"""Of the best so far."""


def draw_hpwl(axes: Any, episode: PlayedEpisode) -> list[Any]:
    """The board's wirelength, with marks where a legal placement was the best so far; its lines."""
    steps, hpwl, marks = episode.states.time, episode.metrics["hpwl"], episode.improvements
    lines = [_curve(axes, episode, hpwl, COLOURS[0], "HPWL of the board (mm)")]
    _set_limits(axes, hpwl)
    if len(marks):
        best = np.where(episode.metrics["became_legal"] > 0, episode.metrics["best_hpwl"], np.nan)
        lines += axes.plot(steps, best, color=RIGHT, linewidth=1.0, linestyle=DASHES, drawstyle="steps-post", zorder=2)
        style = {"markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.6}
        lines += axes.plot(steps[marks], hpwl[marks], "D", color=RIGHT, **style, zorder=4)
    return lines


def draw_hpwl_legend(axes: Any, episode: PlayedEpisode) -> None:
    """What the marks of `draw_hpwl` mean, above the right end of the axes; nothing if there are none."""
    if not len(episode.improvements):
        return
    best = pictures.legend_entry(
        marker="D", markersize=5, color=RIGHT, linestyle=DASHES, linewidth=1.0, label="best legal so far"
    )
    pictures.legend(axes, [best], handlelength=2.4, loc="lower right", bbox_to_anchor=(1.01, 1.0))


def draw_overlap(axes: Any, episode: PlayedEpisode) -> list[Any]:
    """The mean overlap ratio of the parts; its line."""
    overlap = episode.metrics["overlap"]
    line = _curve(axes, episode, overlap, WRONG, "overlap (mean share of a part)")
    _set_limits(axes, overlap, 0.0, 0.1)
    return [line]


def draw_agents(axes: Any, episode: PlayedEpisode, values: np.ndarray, title: str, colour: str, first: int = 0) -> None:
    """The mean over agents of `values` (`[T+1, n]`) from the index `first` on, in the range of all."""
    steps, later = episode.states.time[first:], values[first:]
    _curve(axes, episode, values.mean(axis=1), colour, title, first)
    axes.fill_between(steps, later.min(axis=1), later.max(axis=1), color=colour, alpha=BAND, linewidth=0, zorder=2)
    _set_limits(axes, later if len(later) else values)


def _curve(axes: Any, episode: PlayedEpisode, values: np.ndarray, colour: str, title: str, first: int = 0) -> Any:
    """The line of `values` (`[T+1]`) from the index `first` on; the axes get a title and the whole episode's steps."""
    steps = episode.states.time[first:]
    marker = "o" if len(steps) == 1 else ""
    (line,) = axes.plot(steps, values[first:], marker=marker, markersize=4, color=colour, linewidth=1.5, zorder=3)
    last = max(int(episode.states.time[-1]), 1)
    axes.set_xlim(-0.01 * last, 1.01 * last)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.locator_params(axis="y", nbins=4)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.set_title(title, fontsize=9, loc="left", color=pictures.INK, pad=5)
    return line


def _set_limits(axes: Any, values: np.ndarray, low: float | None = None, least: float = 1e-3) -> None:
    """All values with some room; from `low` on, if given."""
    bottom, top = float(values.min()) if low is None else low, float(values.max())
    room = max(0.07 * (top - bottom), 0.07 * least, 1e-3 * abs(top))
    axes.set_ylim(bottom - room, max(top, bottom + least) + room)
