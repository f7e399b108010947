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
from jaxvrp.envs.pcb.pictures.drawn_placement import Placement
from jaxvrp.envs.pcb.pictures.played_episode import Episode
from jaxvrp.envs.pcb.rules import State
from jaxvrp.io.whole_files import write_whole

TABLE = "agents.csv"
METRICS = (
    *("W", "We", "HPWL", "HPWLe", "raw_W", "raw_HPWL"),
    *("Wi", "HPWLi", "ol", "weighted_cost"),
)
COLUMNS = ("step", "id", "name", "reward", *METRICS)

CELLS = 240
"""Along the longer side of a grid."""

OUTSIDE, FREE, FAULT, FIRST = 0, 1, 2, 3
"""Cells of a grid: off the board, nothing, two parts or a part off the board; part i is `FIRST + i`."""

LONG = 100
"""From so many steps on, there is a progress bar."""

DPI, SIDE, COLOURS = 100, 4.6, 64


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
    played = played_episode.from_states(env, states)
    write_whole(folder / TABLE, lambda partial: _write_table(played, partial))
    scene = Scene(played)
    palette = pictures.shared_palette(scene.frame(0), board_view.EXACT, COLOURS)
    for at in tqdm(range(played.length), desc=str(folder), unit="step", disable=played.length < LONG):
        name = f"step_{played.states.time[at]:04d}.png"
        pictures.write_frame(folder / name, scene.frame(at), palette)


def _write_table(played: Episode, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for at, step in enumerate(played.states.time.tolist()):
            for agent in played.agents.tolist():
                values = [played.reward[at, agent], *(played.metrics[name][at, agent] for name in METRICS)]
                table.writerow([step, agent, played.agent_names[agent], *(f"{value:.7g}" for value in values)])


def component_grid(placement: Placement, view: np.ndarray, side: int, cells: int = CELLS) -> np.ndarray:
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


class Scene:
    """The picture of any state.

    Attributes:
        board: the view with the rats-nest.
        grids: the images of the component grids, by side.
    """

    def __init__(self, played: Episode):
        self.played = played
        self.view = view = board_view.view_of([played.placement(at) for at in range(played.length)])
        scale = board_view.scale_to(view, SIDE, SIDE)
        width, height = scale * (view[2:] - view[:2])
        start = played.placement(0)
        sides = sorted(set(played.board.side.tolist()))
        columns = max(width, 2.6) + 0.25
        entries = board_view.keys(played.board)
        per_row = max(1, int((len(sides) + 1) * columns / 2.15))
        below = 0.22 * -(-len(entries) // per_row)
        across, up = max((len(sides) + 1) * columns + 0.25, 7.0), height + 0.95 + below
        figure = pictures.new_figure(across, up, DPI)
        self.grids, outlines = {}, []
        for place, side in enumerate(sides):
            axes = pictures.new_axes(figure, 0.25 + place * columns, up - 0.75 - height, width, height)
            name = "component grid" + (f" of side {side}" if len(sides) > 1 else "") + " (red: overlap, off the board)"
            self.grids[side] = _draw_grid(axes, component_grid(start, view, side), view, played.board, name)
            outlines += [axes.add_patch(board_view.outline_patch(played.board, fill=False))]
        self.board = BoardView(figure, 0.25 + len(sides) * columns, up - 0.75, view, scale, start, ticks=False)
        self.board.axes.set_title("rats-nest", **_TITLE)
        corner = (0.2 / across, (below + 0.12) / up)
        pictures.legend(figure, entries, ncols=per_row, loc="upper left", bbox_to_anchor=corner, handletextpad=0.5)
        style = {"fontsize": 10.5, "family": "monospace", "va": "center", "color": pictures.INK}
        self.headline = figure.text(0.25 / across, 1 - 0.22 / up, "", **style)
        changing = [*self.grids.values(), *outlines, *self.board.artists, self.headline]
        self.animated = pictures.AnimatedFigure(figure, changing)

    def frame(self, at: int) -> np.ndarray:
        """`u8[height, width, 3]` of the state with this index."""
        placement = self.played.placement(at)
        for side, image in self.grids.items():
            image.set_data(component_grid(placement, self.view, side))
        self.board.show(placement)
        self.headline.set_text(
            f"step {self.played.states.time[at]:3d}  |  HPWL {placement.hpwl:7.2f} mm  |  {placement.verdict}"
        )
        return self.animated.frame()


_TITLE = {"fontsize": 9, "loc": "left", "color": pictures.INK, "pad": 5}


def _draw_grid(axes: Any, grid: np.ndarray, view: np.ndarray, board: Any, title: str) -> Any:
    """The image, in axes without ticks."""
    from matplotlib.colors import ListedColormap

    agent = np.cumsum(~board.fixed) - 1
    colours = [board_view.COLOURS[at % len(board_view.COLOURS)] for at in agent]
    parts = [board_view.FIXED_EDGE if fixed else colour for fixed, colour in zip(board.fixed, colours, strict=True)]
    palette = ListedColormap([pictures.GROUND, "white", board_view.WRONG, *parts])
    limits = {"vmin": 0, "vmax": FIRST + len(parts) - 1, "interpolation": "nearest"}
    image = axes.imshow(grid, cmap=palette, extent=view[[0, 2, 3, 1]], aspect="auto", **limits)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(title, **_TITLE)
    return image
