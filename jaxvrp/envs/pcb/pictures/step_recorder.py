"""The record of an episode for debugging: a picture and the agents' metrics of every step."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.pictures import board_view, played_episode
from jaxvrp.envs.pcb.pictures.board_view import BoardView
from jaxvrp.envs.pcb.pictures.captions import (
    FRAME_DPI,
    LEGEND_ROW,
    count_rows,
    draw_legend,
    join_words,
    new_headline,
)
from jaxvrp.envs.pcb.pictures.drawn_placement import DrawnPlacement
from jaxvrp.envs.pcb.pictures.played_episode import PlayedEpisode
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.rules import State
from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures.palette import WRONG

TABLE = "agents.csv"
METRICS = ("W", "We", "HPWL", "HPWLe", "raw_W", "raw_HPWL", "Wi", "HPWLi", "ol", "weighted_cost")
COLUMNS = ("step", "id", "name", "reward", *METRICS)

CELLS = 240
"""Along the longer side of a grid."""

OUTSIDE, FREE, FAULT, FIRST = 0, 1, 2, 3
"""Cells of a grid: off the board, nothing, two parts or a part off the board; part i is `FIRST + i`."""

LONG = 100
"""From so many steps on, there is a progress bar."""

SIDE = 4.6
"""Inches of a board's longer side, at most."""

NUM_COLOURS = 64
AXES_TITLE = {"fontsize": 9, "loc": "left", "color": pictures.INK, "pad": 5}


def record_steps(env: Pcb, states: State, folder: str | os.PathLike) -> None:
    """Write what happened in every step of one episode.

    `step_0000.png`, ... show the component grid (which part each cell of the board is under; a grid for each side that
    is in use) and the rats-nest; parts bear the numbers of their agents. `agents.csv` has a row for each step and agent
    with the columns `COLUMNS`: those of `Pcb.metrics`, lengths normalised, `raw_...` and `...i` in mm.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
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
    episode = played_episode.from_states(env, states)
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


def component_grid(placement: DrawnPlacement, view: np.ndarray, side: int, cells: int = CELLS) -> np.ndarray:
    """`i32[rows, columns]`: what the centre of each cell is under on one side of the board; see `OUTSIDE`.

    Args:
        placement: of the parts.
        view: `[4]`, left, top, right, bottom of the grid in mm.
        side: 0 or 1.
        cells: along the longer side; cells are square, up to rounding.
    """
    extent = view[2:] - view[:2]
    columns, rows = np.maximum(np.round(cells * extent / extent.max()), 1).astype(int)
    x = view[0] + (np.arange(columns) + 0.5) / columns * extent[0]
    y = view[1] + (np.arange(rows) + 0.5) / rows * extent[1]

    def covered(box: Sequence[float]) -> np.ndarray:
        return ((y > box[1]) & (y < box[3]))[:, None] & ((x > box[0]) & (x < box[2]))

    board = covered((0, 0, *placement.board.outline))
    grid = np.where(board, FREE, OUTSIDE).astype(np.int32)
    for part in np.flatnonzero(placement.board.side == side):
        under = covered(placement.boxes[part])
        grid = np.where(under, np.where(grid == FREE, FIRST + part, FAULT), grid)
    return grid


class StepScene:
    """The picture of any state: the component grid of each side that is in use, and the rats-nest.

    Attributes:
        board: the view with the rats-nest.
        grids: the images of the component grids, by side.
        headline: the text above.
    """

    def __init__(self, episode: PlayedEpisode):
        self.episode = episode
        self.view = view = board_view.view_of([episode.placement(index) for index in range(episode.length)])
        scale = board_view.scale_to(view, SIDE, SIDE)
        width, height = scale * (view[2:] - view[:2])
        sides = sorted(set(episode.board.side.tolist()))
        pitch, num_views = max(width, 2.6) + 0.25, len(sides) + 1
        entries = board_view.legend_entries(episode.board)
        columns = max(1, int(num_views * pitch / 2.15))
        legend_height = LEGEND_ROW * count_rows(entries, columns)
        across, up = max(num_views * pitch + 0.25, 7.0), height + 0.95 + legend_height
        sheet = pictures.new_sheet(across, up, FRAME_DPI)
        self.grids, outlines = {}, []
        for place, side in enumerate(sides):
            axes = sheet.axes(0.25 + place * pitch, up - 0.75 - height, width, height)
            grid = component_grid(episode.placement(0), view, side)
            self.grids[side] = _draw_grid(axes, grid, view, episode.board, _grid_title(side, len(sides)))
            outlines.append(axes.add_patch(board_view.outline_patch(episode.board, fill=False)))
        left, top = 0.25 + len(sides) * pitch, up - 0.75
        axes = board_view.axes_at(sheet, left, top, view, scale)
        self.board = BoardView(axes, view, scale, episode.placement(0), ticks=False)
        self.board.axes.set_title("rats-nest", **AXES_TITLE)
        draw_legend(sheet, entries, columns, 0.2, legend_height + 0.12)
        self.headline = new_headline(sheet, 0.25, 0.22, 10.5)
        changing = [*self.grids.values(), *outlines, *self.board.artists, self.headline]
        self._animated = pictures.AnimatedFigure(sheet.figure, changing)

    def frame(self, index: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        placement = self.episode.placement(index)
        for side, image in self.grids.items():
            image.set_data(component_grid(placement, self.view, side))
        self.board.show(placement)
        step = f"step {self.episode.states.time[index]:3d}"
        self.headline.set_text(join_words([step, f"HPWL {placement.hpwl:7.2f} mm", placement.verdict]))
        return self._animated.frame()


def _grid_title(side: int, num_sides: int) -> str:
    of_side = f" of side {side}" if num_sides > 1 else ""
    return f"component grid{of_side} (red: overlap, off the board)"


def _draw_grid(axes: Any, grid: np.ndarray, view: np.ndarray, board: Board, title: str) -> Any:
    """The image of a grid, in axes without ticks; the agents' colours repeat from the palette's end on."""
    from matplotlib.colors import ListedColormap

    agent = np.cumsum(~board.fixed) - 1
    parts = [
        board_view.FIXED_EDGE if fixed else board_view.COLOURS[number % len(board_view.COLOURS)]
        for fixed, number in zip(board.fixed, agent, strict=True)
    ]
    palette = ListedColormap([pictures.GROUND, "white", WRONG, *parts])
    limits = {"vmin": 0, "vmax": FIRST + len(parts) - 1, "interpolation": "nearest"}
    image = axes.imshow(grid, cmap=palette, extent=view[[0, 2, 3, 1]], aspect="auto", **limits)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(title, **AXES_TITLE)
    return image
