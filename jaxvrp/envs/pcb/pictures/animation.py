"""The animation of an episode: the board as it changes, its wirelength and overlap up to then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb.pictures import board_view, curves
from jaxvrp.envs.pcb.pictures.board_view import BoardView
from jaxvrp.envs.pcb.pictures.played_episode import Episode

DPI, SIDE = 100, 4.7
MAX_FRAMES, PLAY_MS, LAST_FRAME_MS, COLOURS = 120, 15_000, 3000, 48


def write(episode: Episode, path: Path) -> None:
    """Write the animation as a GIF, whatever the name of `path`."""
    chosen = pictures.sample_frames(episode.length, MAX_FRAMES).tolist()
    scene = Scene(episode, chosen)
    sample = np.concatenate([scene.frame(at) for at in sorted({chosen[0], chosen[len(chosen) // 2], chosen[-1]})])
    palette = pictures.shared_palette(sample, board_view.EXACT, COLOURS)
    pause = int(np.clip(PLAY_MS / len(chosen), 80, 300))
    pictures.write_gif(path, (scene.frame(at) for at in chosen), palette, pause, LAST_FRAME_MS)


class Scene:
    """The picture of any state.

    Attributes:
        board: the view of the board.
    """

    def __init__(self, episode: Episode, shown: Sequence[int]):
        """`shown`: the states that the view of the board must hold."""
        self.episode = episode
        view = board_view.view_of([episode.placement(at) for at in shown])
        scale = board_view.scale_to(view, 1.4 * SIDE, SIDE)
        width, height = scale * (view[2:] - view[:2])
        entries = board_view.keys(episode.board)
        # Inches.
        tall, below = max(height, 3.2), 0.22 * -(-len(entries) // 2)
        across, up = max(width + 4.5, 8.8), tall + below + 0.85
        figure = pictures.new_figure(across, up, DPI)
        self.board = BoardView(figure, 0.2, up - 0.5, view, scale, episode.placement(0), ticks=False)
        self.lines = self._draw_curves(figure, across - 3.55, up - 0.5, tall)
        self.data = [line.get_data() for line in self.lines]
        corner = (0.15 / across, (below + 0.22) / up)
        pictures.legend(figure, entries, ncols=2, loc="upper left", bbox_to_anchor=corner, handletextpad=0.5)
        style = {"fontsize": 11, "family": "monospace", "va": "center", "color": pictures.INK}
        self.headline = figure.text(0.2 / across, 1 - 0.25 / up, "", **style)
        self.animated = pictures.AnimatedFigure(figure, [*self.board.artists, *self.lines, self.headline])

    def _draw_curves(self, figure: Any, left: float, top: float, tall: float) -> list[Any]:
        """Wirelength and overlap, pale for the whole episode; the lines that grow."""
        panel = (tall - 0.75) / 2
        upper, lower = (pictures.new_axes(figure, left, top - at - panel, 3.3, panel) for at in (0.28, 0.73 + panel))
        pairs = [(upper, curves.draw_hpwl(upper, self.episode)), (lower, curves.draw_overlap(lower, self.episode))]
        dots = []
        for axes, (line, *_) in pairs:
            axes.plot(*line.get_data(), color="#D5D9DD", linewidth=1.0, zorder=1.5)
            look = {"markersize": 6, "markeredgecolor": "white", "zorder": 3.5}
            dots += axes.plot(*line.get_data(), "o", color=line.get_color(), **look)
        lower.set_xlabel("step", fontsize=8, labelpad=1)
        entries = curves.hpwl_keys(self.episode)
        if entries:
            pictures.legend(upper, entries, handlelength=2.4, loc="lower right", bbox_to_anchor=(1.01, 1.0))
        self.dots = dots
        return sorted([*(line for _, lines in pairs for line in lines), *dots], key=lambda line: line.get_zorder())

    def frame(self, at: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        step = self.episode.states.time[at]
        self.board.show(self.episode.placement(at))
        for line, (x, y) in zip(self.lines, self.data, strict=True):
            past = x == step if line in self.dots else x <= step
            line.set_data(x[past], y[past])
        self.headline.set_text(self._headline(at))
        return self.animated.frame()

    def _headline(self, at: int) -> str:
        metrics: dict[str, Any] = self.episode.metrics
        steps = self.episode.states.time
        best = f"{metrics['best_hpwl'][at]:7.2f} mm" if metrics["became_legal"][at] else "none yet"
        # Digits of one width, and figures that keep their place.
        parts = [
            f"step {steps[at]:3d} of {steps[-1]}",
            f"HPWL {metrics['hpwl'][at]:7.2f} mm",
            f"overlap {metrics['overlap'][at]:6.1%}",
            f"best legal {best}",
        ]
        return "  |  ".join(parts)
