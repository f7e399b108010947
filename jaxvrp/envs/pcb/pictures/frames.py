"""Every step of an episode as a picture: the animation, and the record for debugging with the agents' metrics."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb import played
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.pictures import board_view
from jaxvrp.envs.pcb.pictures.board_view import BoardView, View, legend_entries, view_of
from jaxvrp.envs.pcb.pictures.draw import (
    DPI,
    draw_episode,
    draw_legend,
    draw_plan,
    hpwl_lines,
    join_words,
    legend_inches,
    overlap_lines,
)
from jaxvrp.envs.pcb.plan import BoardOfFile
from jaxvrp.envs.pcb.played import Placement, PlayedEpisode
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.rules import State
from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures.palette import PALE, WRONG

FRAME_DPI, NUM_COLOURS = 100, 64

SIDE = 4.7
"""Inches of a board's height, at most."""

MAX_FRAMES, PLAY_MS, LAST_FRAME_MS = 120, 15_000, 3000
"""Of an animation."""

TABLE = "agents.csv"
METRICS = ("W", "We", "HPWL", "HPWLe", "raw_W", "raw_HPWL", "Wi", "HPWLi", "ol", "weighted_cost")
COLUMNS = ("step", "id", "name", "reward", *METRICS)

CELLS = 240
"""Along the longer side of a grid."""

OUTSIDE, FREE, FAULT, FIRST = 0, 1, 2, 3
"""Cells of a grid: off the board, nothing, two parts or a part off the board; part i is `FIRST + i`."""

LONG = 100
"""From so many steps on, there is a progress bar."""


def render_episode(env: Pcb, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file; an old file is replaced once the new one is complete.

    Args:
        env, states: as for `draw_episode`.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for the figure of `draw_episode`.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "an episode",
        lambda: draw_episode(env, states),
        lambda partial: _write_animation(played.from_states(env, states), partial),
        dpi=DPI,
    )


def render_plan(problem: BoardOfFile, env: Pcb, states: State, path: str | os.PathLike) -> None:
    """Draw the placement of a plan to a file, see `draw_plan`; `.gif`: the episode. Errors as of `render_episode`."""
    pictures.write_picture(
        path,
        "a plan",
        lambda: draw_plan(problem, env, states),
        lambda partial: _write_animation(played.from_states(env, states), partial),
        dpi=DPI,
    )


def _write_animation(episode: PlayedEpisode, path: Path) -> None:
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
        view = view_of([episode.placement(index) for index in chosen], 1.4 * SIDE, SIDE)
        width, height = view.extent
        entries = legend_entries(episode.board)
        tall, legend_height = max(height, 3.2), legend_inches(entries, 2)
        across, up = max(width + 4.5, 8.8), tall + legend_height + 0.85
        sheet = pictures.new_sheet(across, up, FRAME_DPI)
        self.board = BoardView(view.axes(sheet, 0.2, up - 0.5), view, episode.placement(0), ticks=False)
        panel = (tall - 0.75) / 2
        upper = sheet.axes(across - 3.55, up - 0.78 - panel, 3.3, panel)
        lower = sheet.axes(across - 3.55, up - 1.23 - 2 * panel, 3.3, panel)
        lower.set_xlabel("step", fontsize=8, labelpad=1)
        hpwl, overlap = hpwl_lines(upper, episode), overlap_lines(lower, episode)
        self.growing = [*hpwl, *overlap]
        self.dots = [_draw_pale_copy_and_dots(upper, hpwl[0]), _draw_pale_copy_and_dots(lower, overlap[0])]
        self._whole_curves = [(line, *line.get_data()) for line in (*self.growing, *self.dots)]
        draw_legend(sheet, entries, 2, 0.15, legend_height + 0.22)
        self.headline = _new_headline(sheet, 0.2, 11)
        lines = sorted([*self.growing, *self.dots], key=lambda line: line.get_zorder())
        self._animated = pictures.AnimatedFigure(sheet.figure, [*self.board.artists, *lines, self.headline])

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        metrics, steps = self.episode.metrics, self.episode.states.time
        self.board.show(self.episode.placement(index))
        for line, x, y in self._whole_curves:
            visible = x == steps[index] if line in self.dots else x <= steps[index]
            line.set_data(x[visible], y[visible])
        best = f"{metrics['best_hpwl'][index]:7.2f} mm" if metrics["became_legal"][index] else "none yet"
        # Numbers have a fixed width, so that they keep their place.
        words = [
            f"step {steps[index]:3d} of {steps[-1]}",
            f"HPWL {metrics['hpwl'][index]:7.2f} mm",
            f"overlap {metrics['overlap'][index]:6.1%}",
            f"best legal {best}",
        ]
        self.headline.set_text(join_words(words))
        return self._animated.frame()


def _draw_pale_copy_and_dots(axes: Any, line: Any) -> Any:
    """A pale copy of a line, and dots on it; the dots."""
    axes.plot(*line.get_data(), color=PALE, linewidth=1.0, zorder=1.5)
    style = {"markersize": 6, "markeredgecolor": "white", "zorder": 3.5}
    (dots,) = axes.plot(*line.get_data(), "o", color=line.get_color(), **style)
    return dots


def _new_headline(sheet: pictures.Sheet, left: float, fontsize: float) -> Any:
    """A line of text above everything, without words yet; its letters have one width."""
    style = {"fontsize": fontsize, "family": "monospace", "va": "center", "color": pictures.INK}
    return sheet.text(left, sheet.height - 0.25, "", **style)


# --- every step -----------------------------------------------------------------------------------------------------


def record_steps(env: Pcb, states: State, folder: str | os.PathLike) -> None:
    """Write every step of one episode to a folder.

    `step_0000.png`, ... show the component grid (which part each cell of the board is under; a grid for each side that
    is in use) and the rats-nest; parts bear the numbers of their agents. `agents.csv` has a row for each step and agent
    with the columns `COLUMNS`: those of `Pcb.metrics`, lengths normalised, `raw_...` and `...i` in mm.

    Args:
        env, states: as for `draw_episode`.
        folder: is made if it does not exist.

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
    write_whole(folder / TABLE, lambda partial: _write_table(episode, partial))
    scene = StepScene(episode)
    palette = pictures.shared_palette(scene.frame(0), board_view.EXACT, NUM_COLOURS)
    for index in tqdm(range(episode.length), desc=str(folder), unit="step", disable=episode.length < LONG):
        name = f"step_{episode.states.time[index]:04d}.png"
        pictures.write_frame(folder / name, scene.frame(index), palette)


def _write_table(episode: PlayedEpisode, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for index, step in enumerate(episode.states.time.tolist()):
            for agent in episode.agents.tolist():
                metrics = [episode.metrics[name][index, agent] for name in METRICS]
                figures = [f"{value:.7g}" for value in (episode.reward[index, agent], *metrics)]
                table.writerow([step, agent, episode.agent_names[agent], *figures])


def component_grid(placement: Placement, box: np.ndarray, side: int, cells: int = CELLS) -> np.ndarray:
    """`i32[rows, columns]`: what the centre of each cell is under on one side of the board; see `OUTSIDE`.

    Args:
        placement: of the parts.
        box: `[4]`, left, top, right, bottom of the grid in mm.
        side: 0 or 1.
        cells: along the longer side; cells are square, up to rounding.
    """
    extent = box[2:] - box[:2]
    columns, rows = np.maximum(np.round(cells * extent / extent.max()), 1).astype(int)
    x = box[0] + (np.arange(columns) + 0.5) / columns * extent[0]
    y = box[1] + (np.arange(rows) + 0.5) / rows * extent[1]

    def covered(box: Sequence[float]) -> np.ndarray:
        return ((y > box[1]) & (y < box[3]))[:, None] & ((x > box[0]) & (x < box[2]))

    board = covered((0, 0, *placement.board.outline))
    grid = np.where(board, FREE, OUTSIDE).astype(np.int32)
    for part in np.flatnonzero(placement.board.side == side):
        under = covered(placement.boxes[part])
        grid = np.where(under, np.where(grid == FREE, FIRST + part, FAULT), grid)
    return grid


class StepScene:
    """The picture of any state: the component grid of each side that is in use, and the rats-nest."""

    def __init__(self, episode: PlayedEpisode):
        self.episode = episode
        self.view = view = view_of([episode.placement(index) for index in range(episode.length)], SIDE, SIDE)
        width, height = view.extent
        sides = sorted(set(episode.board.side.tolist()))
        pitch, num_views = max(width, 2.6) + 0.25, len(sides) + 1
        entries = legend_entries(episode.board)
        columns = max(1, int(num_views * pitch / 2.15))
        legend_height = legend_inches(entries, columns)
        across, up = max(num_views * pitch + 0.25, 7.0), height + 0.95 + legend_height
        sheet = pictures.new_sheet(across, up, FRAME_DPI)
        self.grids, outlines = {}, []
        for place, side in enumerate(sides):
            axes = view.axes(sheet, 0.25 + place * pitch, up - 0.75)
            of_side = f" of side {side}" if len(sides) > 1 else ""
            _set_title(axes, f"component grid{of_side} (red: overlap, off the board)")
            self.grids[side] = _draw_grid(axes, component_grid(episode.placement(0), view.box, side), view, episode)
            outlines.append(axes.add_patch(board_view.outline_patch(episode.board, fill=False)))
        axes = view.axes(sheet, 0.25 + len(sides) * pitch, up - 0.75)
        _set_title(axes, "rats-nest")
        self.board = BoardView(axes, view, episode.placement(0), ticks=False)
        draw_legend(sheet, entries, columns, 0.2, legend_height + 0.12)
        self.headline = _new_headline(sheet, 0.25, 10.5)
        changing = [*self.grids.values(), *outlines, *self.board.artists, self.headline]
        self._animated = pictures.AnimatedFigure(sheet.figure, changing)

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        placement = self.episode.placement(index)
        for side, image in self.grids.items():
            image.set_data(component_grid(placement, self.view.box, side))
        self.board.show(placement)
        step = f"step {self.episode.states.time[index]:3d}"
        self.headline.set_text(join_words([step, f"HPWL {placement.hpwl:7.2f} mm", placement.verdict]))
        return self._animated.frame()


def _set_title(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left", color=pictures.INK, pad=5)


def _draw_grid(axes: Any, grid: np.ndarray, view: View, episode: PlayedEpisode) -> Any:
    """The image of a grid, in axes without ticks; the agents' colours repeat from the palette's end on."""
    from matplotlib.colors import ListedColormap

    board: Board = episode.board
    agent = np.cumsum(~board.fixed) - 1
    parts = [
        board_view.FIXED_EDGE if fixed else board_view.COLOURS[number % len(board_view.COLOURS)]
        for fixed, number in zip(board.fixed, agent, strict=True)
    ]
    palette = ListedColormap([pictures.GROUND, "white", WRONG, *parts])
    limits = {"vmin": 0, "vmax": FIRST + len(parts) - 1, "interpolation": "nearest"}
    image = axes.imshow(grid, cmap=palette, extent=view.box[[0, 2, 3, 1]], aspect="auto", **limits)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return image
