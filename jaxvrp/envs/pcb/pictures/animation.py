"""The animation of an episode: the board as it changes, its wirelength and overlap up to then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb.pictures import board_view, curves
from jaxvrp.envs.pcb.pictures.board_view import BoardView
from jaxvrp.envs.pcb.pictures.captions import (
    FRAME_DPI,
    LEGEND_ROW,
    count_rows,
    draw_legend,
    join_words,
    new_headline,
)
from jaxvrp.envs.pcb.pictures.played_episode import PlayedEpisode
from jaxvrp.pictures.palette import PALE

SIDE = 4.7
"""Inches of the board's height, at most."""

MAX_FRAMES, PLAY_MS, LAST_FRAME_MS, NUM_COLOURS = 120, 15_000, 3000, 48


def write_animation(episode: PlayedEpisode, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    chosen = pictures.sample_frames(episode.length, MAX_FRAMES).tolist()
    scene = AnimationScene(episode, chosen)
    first_middle_last = sorted({chosen[0], chosen[len(chosen) // 2], chosen[-1]})
    sample = np.concatenate([scene.frame(index) for index in first_middle_last])
    palette = pictures.shared_palette(sample, board_view.EXACT, NUM_COLOURS)
    pause = int(np.clip(PLAY_MS / len(chosen), 80, 300))
    pictures.write_gif(path, (scene.frame(index) for index in chosen), palette, pause, LAST_FRAME_MS)


class AnimationScene:
    """The picture of any state: the board, and its wirelength and overlap up to then.

    Attributes:
        board: the view of the board.
        growing: lines that are drawn up to the state shown.
        dots: lines that are one dot, at the state shown.
        headline: the text above.
    """

    def __init__(self, episode: PlayedEpisode, chosen: Sequence[int]):
        """`chosen`: the states that the view of the board must hold."""
        self.episode = episode
        view = board_view.view_of([episode.placement(index) for index in chosen])
        scale = board_view.scale_to(view, 1.4 * SIDE, SIDE)
        width, height = scale * (view[2:] - view[:2])
        entries = board_view.legend_entries(episode.board)
        tall, legend_height = max(height, 3.2), LEGEND_ROW * count_rows(entries, 2)
        across, up = max(width + 4.5, 8.8), tall + legend_height + 0.85
        sheet = pictures.new_sheet(across, up, FRAME_DPI)
        self.board = BoardView(
            board_view.axes_at(sheet, 0.2, up - 0.5, view, scale), view, scale, episode.placement(0), ticks=False
        )
        self.growing, self.dots = self._draw_curves(sheet, across - 3.55, up - 0.5, tall)
        self._whole_curves = [(line, *line.get_data()) for line in (*self.growing, *self.dots)]
        draw_legend(sheet, entries, 2, 0.15, legend_height + 0.22)
        self.headline = new_headline(sheet, 0.2, 0.25, 11)
        lines = sorted([*self.growing, *self.dots], key=lambda line: line.get_zorder())
        self._animated = pictures.AnimatedFigure(sheet.figure, [*self.board.artists, *lines, self.headline])

    def _draw_curves(self, sheet: pictures.Sheet, left: float, top: float, tall: float) -> tuple[list[Any], list[Any]]:
        """Wirelength and overlap, pale for the whole episode; the lines that grow, and the dots that move."""
        height = (tall - 0.75) / 2
        upper = sheet.axes(left, top - 0.28 - height, 3.3, height)
        lower = sheet.axes(left, top - 0.73 - 2 * height, 3.3, height)
        hpwl, overlap = curves.draw_hpwl(upper, self.episode), curves.draw_overlap(lower, self.episode)
        dots = [_draw_whole_curve_and_dot(upper, hpwl[0]), _draw_whole_curve_and_dot(lower, overlap[0])]
        lower.set_xlabel("step", fontsize=8, labelpad=1)
        curves.draw_hpwl_legend(upper, self.episode)
        return [*hpwl, *overlap], dots

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        step = self.episode.states.time[index]
        self.board.show(self.episode.placement(index))
        for line, x, y in self._whole_curves:
            visible = x == step if line in self.dots else x <= step
            line.set_data(x[visible], y[visible])
        self.headline.set_text(self._headline(index))
        return self._animated.frame()

    def _headline(self, index: int) -> str:
        metrics, steps = self.episode.metrics, self.episode.states.time
        best = f"{metrics['best_hpwl'][index]:7.2f} mm" if metrics["became_legal"][index] else "none yet"
        # Digits of one width, and figures that keep their place.
        return join_words(
            [
                f"step {steps[index]:3d} of {steps[-1]}",
                f"HPWL {metrics['hpwl'][index]:7.2f} mm",
                f"overlap {metrics['overlap'][index]:6.1%}",
                f"best legal {best}",
            ]
        )


def _draw_whole_curve_and_dot(axes: Any, line: Any) -> Any:
    """A pale copy of a line, and dots on it; the dots."""
    axes.plot(*line.get_data(), color=PALE, linewidth=1.0, zorder=1.5)
    style = {"markersize": 6, "markeredgecolor": "white", "zorder": 3.5}
    (dots,) = axes.plot(*line.get_data(), "o", color=line.get_color(), **style)
    return dots
