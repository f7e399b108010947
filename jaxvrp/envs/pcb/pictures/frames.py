"""Every step of an episode as a picture: the animation, and the record for debugging with the agents' metrics."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.envs.pcb import played
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.pictures import board_view, draw
from jaxvrp.envs.pcb.plan import BoardOfFile
from jaxvrp.envs.pcb.played import PlayedEpisode
from jaxvrp.envs.pcb.rules import State
from jaxvrp.io.whole_files import write_csv
from jaxvrp.show.drawing import files, palette, paper
from jaxvrp.show.drawing.palette import PALE

FRAME_DPI, NUM_COLOURS = 100, 64
SIDE = 4.7  # inches of a board's height, at most
MAX_FRAMES, PLAY_MS, LAST_FRAME_MS = 120, 15_000, 3000  # of an animation
METRICS = ("W", "We", "HPWL", "HPWLe", "raw_W", "raw_HPWL", "Wi", "HPWLi", "ol", "weighted_cost")
LONG = 100  # from so many steps on, there is a progress bar


def render_episode(env: Pcb, states: State, path: str | os.PathLike, problem: BoardOfFile | None = None) -> None:
    """Draw one episode to a file: `.gif`, an animation; `.png`, `.svg` or `.pdf`, the figure of `draw_episode`.

    Of the problem of a file that figure is its plan, see `draw_plan`.

    Raises:
        ValueError: another ending, or states of no or of several episodes.
        OSError: the file cannot be written.
    """

    def still() -> Any:
        return draw.draw_episode(env, states) if problem is None else draw.draw_plan(problem, env, states)

    def animate(partial: Path) -> None:
        episode = played.from_states(env, states)
        chosen = files.sample_frames(episode.length, MAX_FRAMES).tolist()
        scene = EpisodeScene(episode, chosen)
        pause = int(np.clip(PLAY_MS / len(chosen), 80, 300))
        files.write_gif(partial, (scene.frame(index) for index in chosen), scene.palette(), pause, LAST_FRAME_MS)

    files.write_drawn(path, "a plan" if problem else "an episode", still, animate, dpi=draw.DPI)


class EpisodeScene:
    """The picture of any state: the board, and its wirelength and overlap up to then."""

    def __init__(self, episode: PlayedEpisode, chosen: Sequence[int]):
        """`chosen`: the states that are shown, which the view of the board must hold."""
        self.episode, self.chosen = episode, chosen
        view = board_view.view_of([episode.placement(index) for index in chosen], 1.4 * SIDE, SIDE)
        width, height = view.extent
        entries = board_view.legend_entries(episode.board)
        tall, legend_height = max(height, 3.2), draw.LEGEND_ROW * math.ceil(len(entries) / 2)
        across, up = max(width + 4.5, 8.8), tall + legend_height + 0.85
        sheet = paper.new_paper(across, up, FRAME_DPI)
        self.board = board_view.BoardView(view.axes(sheet, 0.2, up - 0.5), view, episode.placement(0), ticks=False)
        panel = (tall - 0.75) / 2
        upper = sheet.axes(across - 3.55, up - 0.78 - panel, 3.3, panel)
        lower = sheet.axes(across - 3.55, up - 1.23 - 2 * panel, 3.3, panel)
        lower.set_xlabel("step", fontsize=8, labelpad=1)
        hpwl, overlap = draw.hpwl_lines(upper, episode), draw.overlap_lines(lower, episode)
        # Lines that are drawn up to the state shown, and lines that are one dot, at the state shown.
        self.growing, self.dots = [*hpwl, *overlap], []
        for axes, line in ((upper, hpwl[0]), (lower, overlap[0])):
            axes.plot(*line.get_data(), color=PALE, linewidth=1.0, zorder=1.5)
            style = {"color": line.get_color(), "markersize": 6, "markeredgecolor": "white", "zorder": 3.5}
            self.dots += axes.plot(*line.get_data(), "o", **style)
        self._whole_curves = [(line, *line.get_data()) for line in (*self.growing, *self.dots)]
        draw.draw_legend(sheet, entries, 2, 0.15, legend_height + 0.22)
        style = {"fontsize": 11, "family": "monospace", "va": "center", "color": palette.INK}
        self.headline = sheet.text(0.2, sheet.height - 0.25, "", **style)
        lines = sorted([*self.growing, *self.dots], key=lambda line: line.get_zorder())
        self._animated = files.AnimatedFigure(sheet.figure, [*self.board.artists, *lines, self.headline])

    def palette(self) -> Any:
        """The colours of the first, the middle and the last picture."""
        sample = sorted({self.chosen[0], self.chosen[len(self.chosen) // 2], self.chosen[-1]})
        return palette.shared_palette(np.concatenate(list(map(self.frame, sample))), board_view.EXACT, NUM_COLOURS)

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        metrics, steps = self.episode.metrics, self.episode.states.time
        self.board.show(self.episode.placement(index))
        for line, x, y in self._whole_curves:
            visible = x == steps[index] if line in self.dots else x <= steps[index]
            line.set_data(x[visible], y[visible])
        best = f"{metrics['best_hpwl'][index]:7.2f} mm" if metrics["became_legal"][index] else "none yet"
        # Numbers have a fixed width, so that they keep their place.
        hpwl, overlap = f"HPWL {metrics['hpwl'][index]:7.2f} mm", f"overlap {metrics['overlap'][index]:6.1%}"
        words = (f"step {steps[index]:3d} of {steps[-1]}", hpwl, overlap, f"best legal {best}")
        self.headline.set_text(draw.SEPARATOR.join(words))
        return self._animated.frame()


def record_steps(env: Pcb, states: State, folder: str | os.PathLike) -> None:
    """Write every step of one episode to a folder, which is made if it does not exist.

    `step_0000.png`, ... are the pictures of the animation. `agents.csv` has a row for each step and agent: its
    reward and metrics of `Pcb`, lengths as shares of the start's, `raw_...` and `...i` in mm.

    Raises:
        ValueError: the folder is not empty, or states of no or of several episodes.
        OSError: it cannot be written.
    """
    from tqdm import tqdm

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"the folder '{folder}' is not empty; give another one, or empty it")
    episode = played.from_states(env, states)
    rows: list[list[Any]] = [["step", "id", "name", "reward", *METRICS]]
    for index, agent in itertools.product(range(episode.length), episode.agents.tolist()):
        figures = (episode.reward[index, agent], *(episode.metrics[name][index, agent] for name in METRICS))
        step, name = episode.states.time[index], episode.agent_names[agent]
        rows.append([step, agent, name, *(f"{value:.7g}" for value in figures)])
    write_csv(folder / "agents.csv", rows)
    scene = EpisodeScene(episode, range(episode.length))
    palette = scene.palette()
    for index in tqdm(range(episode.length), desc=str(folder), unit="step", disable=episode.length < LONG or None):
        name = f"step_{episode.states.time[index]:04d}.png"
        files.write_frame(folder / name, scene.frame(index), palette)
