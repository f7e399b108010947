"""Boards, plans and episodes as figures, and as panels of other figures.

matplotlib and pillow are imported inside the functions: the simulator does not need them, no display and no global
state is touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.pcb import played
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.pictures.board_view import COLOURS, BoardView, legend_entries, view_of
from jaxvrp.envs.pcb.plan import BoardOfFile, chosen_placement
from jaxvrp.envs.pcb.played import Placement, PlayedEpisode
from jaxvrp.envs.pcb.problem.board import Board, as_float32, trim
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.rules import State
from jaxvrp.show.drawing import palette, paper
from jaxvrp.show.drawing.palette import GRID, RIGHT, WRONG

DPI = 120
MARGIN, TICKS, TITLE, LEGEND_ROW = 0.25, 0.3, 0.66, 0.22
"""Inches: around a picture, for the ticks of a board, for two lines of title, and for a row of a legend."""

BAND = 0.18  # opacity of the range of the agents
DASHES = (0, (4, 2))  # of the best so far
SEPARATOR = "  |  "  # between the parts of a heading


def draw_board(
    board: Board | Netlist,
    position: ArrayLike | None = None,
    orientation: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    fig: Any = None,
) -> Any:
    """Draw one board with heading and legend: parts, pads, the rats-nest of the signal nets, and faults in red.

    Wirelength and legality are those of the environment.

    Args:
        board: without leading axes; padding is not shown, nor are pads without a net.
        position: `[N, 2]`, centres in mm; default the board's own.
        orientation: `[N]`, quarter turns; default the board's own.
        names: of the parts, written where they fit, or none (`()`); default those of the netlist, or indices.
        fig: a figure of matplotlib, or a part of one, to fill; None: a new one, of the size that suits.

    Returns:
        The figure.

    Raises:
        ValueError: a batch of boards, or arrays or names that do not fit it.
    """
    title = board.source.removesuffix(".kicad_pcb") if isinstance(board, Netlist) else ""
    return board_figure(measure_placement(board, names, position, orientation), title, DPI, fig)


def draw_plan(problem: BoardOfFile, env: Pcb, states: State, *, fig: Any = None) -> Any:
    """Draw the placement of a plan (`PcbProblems.plan`) with the names of the parts; as `draw_board`."""
    del env
    return draw_board(problem.netlist, *chosen_placement(problem, states), fig=fig)


def measure_placement(
    board: Board | Netlist,
    names: Sequence[str] | None = None,
    position: ArrayLike | None = None,
    orientation: ArrayLike | None = None,
) -> Placement:
    """A placement of a board, measured as the environment measures it; arguments and errors as of `draw_board`."""
    if isinstance(board, Netlist):
        names = [part.name for part in board.components] if names is None else names
        board = board.board
    if board.exists.ndim != 1:
        raise ValueError(f"this is a batch of boards, of shape {board.exists.shape[:-1]}; draw one of them")
    exists = np.asarray(board.exists)
    parts = exists.size
    names = list(map(str, range(parts))) if names is None else names
    position = np.asarray(board.position if position is None else position, np.float64)
    orientation = np.asarray(board.orientation if orientation is None else orientation)
    if position.shape != (parts, 2) or orientation.shape != (parts,):
        shapes = f"position has shape {position.shape} and orientation {orientation.shape}"
        raise ValueError(f"{shapes}; this board needs ({parts}, 2) and ({parts},)")
    if not np.isfinite(position).all() or not np.isin(orientation, range(4)).all():
        raise ValueError("position must be finite, and orientation 0, 1, 2 or 3 quarter turns")
    if len(names) not in (0, parts):
        raise ValueError(f"{len(names)} names for {parts} parts; give one for each, or none")
    orientation = orientation.astype(np.int32)
    measures = jax.jit(measure_board)(as_float32(board), position.astype(np.float32), orientation)
    kept = np.flatnonzero(exists)
    kept_names = tuple(names[part] for part in kept.tolist()) if names else ()
    overlap = np.asarray(measures.overlap)[kept]
    return Placement(trim(board), kept_names, position[kept], orientation[kept], float(measures.hpwl), overlap)


def board_figure(placement: Placement, title: str, dpi: float, fig: Any = None) -> Any:
    """A figure of one board; it grows with the number of parts."""
    side = float(np.clip(4.8 + 0.075 * len(placement.boxes), 5.6, 11.0))
    view = view_of([placement], side, side)
    width, height = view.extent
    entries = legend_entries(placement.board)
    columns = max(1, int(max(width, 4.6) / 2.15))
    legend_height = LEGEND_ROW * math.ceil(len(entries) / columns)
    across, up = max(width, 4.6) + 2 * MARGIN + TICKS, height + TITLE + TICKS + legend_height + MARGIN
    sheet = paper.new_paper(across, up, dpi, fig)
    left = (across - width + TICKS) / 2
    BoardView(view.axes(sheet, left, up - TITLE), view, placement)
    extent = " x ".join(f"{length:g}" for length in np.round(placement.board.outline, 2).tolist())
    size = f"{len(placement.boxes)} parts on {extent} mm"
    heading = SEPARATOR.join([title, size] if title else [size])
    _draw_heading(sheet, left, up - 0.06, max(width, across - left - MARGIN), heading, placement)
    draw_legend(sheet, entries, columns, MARGIN, legend_height + 0.5 * MARGIN)
    return sheet.figure


def _draw_heading(sheet: paper.Paper, left: float, top: float, room: float, text: str, placement: Placement) -> None:
    """Two lines above a board, at most `room` wide, their upper edge at `top`: its name, and how good it is."""
    worth = SEPARATOR.join([f"HPWL {placement.hpwl:.2f} mm", placement.verdict])
    colour = WRONG if placement.wrong.any() else RIGHT
    # Letters shrink until the line fits; the last factors are the mean widths of a letter.
    title_size, worth_size = min(10.5, 72 * room / (0.7 * len(text))), min(9.5, 72 * room / (0.62 * len(worth)))
    sheet.text(left, top - 0.1, text, va="top", weight="bold", color=palette.INK, fontsize=title_size)
    sheet.text(left, top - 0.35, worth, va="top", color=colour, fontsize=worth_size)


def draw_legend(sheet: paper.Paper, entries: list[Any], columns: int, left: float, top: float) -> None:
    """A legend whose upper left corner is at a place given in inches from the sheet's lower left one."""
    corner = sheet.place(left, top)
    paper.legend(sheet.figure, entries, ncols=columns, loc="upper left", bbox_to_anchor=corner, handletextpad=0.5)


def draw_episode(env: Pcb, states: State, *, fig: Any = None) -> Any:
    """Draw one episode: the start, the best legal placement (the end, if there was none), and metrics over time.

    Movable parts bear the numbers of their agents.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; states after the end are cut.
        fig: as for `draw_board`; the figure is returned.

    Raises:
        ValueError: states of no or of several episodes.
    """
    return episode_figure(played.from_states(env, states), DPI, fig)


def episode_figure(episode: PlayedEpisode, dpi: float, fig: Any = None) -> Any:
    """A figure: the board at the start and at its best, and four metrics over time."""
    steps, start, after = episode.states.time, episode.placement(0), episode.best
    if after is None:
        after, heading = episode.placement(-1), f"no legal placement; at the end (step {int(steps[-1])})"
    else:
        heading = f"shortest legal placement (step {int(steps[episode.improvements[-1]])})"
    side = float(np.clip(3.6 + 0.04 * len(start.boxes), 4.4, 6.6))
    view = view_of([start, after], side, side)
    width, height = view.extent
    entries = legend_entries(start.board)
    tall = max(height, 4.6)
    across, up = 2 * (max(width, 3.9) + TICKS + MARGIN) + 4.2 + MARGIN, tall + TITLE + TICKS + 0.3 + MARGIN
    sheet = paper.new_paper(across, up, dpi, fig)
    left = MARGIN + TICKS
    for placement, text in ((start, "start (step 0)"), (after, heading)):
        BoardView(view.axes(sheet, left, up - TITLE), view, placement)
        _draw_heading(sheet, left, up - 0.06, max(width, 3.9) + 0.5 * TICKS, text, placement)
        left += max(width, 3.9) + TICKS + MARGIN
    _draw_metrics(sheet, episode, left + 0.35, up - 0.37, tall + TITLE - 0.37)
    draw_legend(sheet, entries, len(entries), MARGIN, 0.3 + 0.5 * MARGIN)
    return sheet.figure


def _draw_metrics(sheet: paper.Paper, episode: PlayedEpisode, left: float, top: float, height: float) -> None:
    """Four panels above each other."""
    gap, low = 0.38, 0.1
    tall = (height - 3 * gap - low) / 4
    panels = [sheet.axes(left, top - tall - row * (tall + gap), 3.3, tall) for row in range(4)]
    hpwl_lines(panels[0], episode)
    overlap_lines(panels[1], episode)
    agents = episode.agents
    cost, reward = episode.metrics["weighted_cost"][:, agents], episode.reward[:, agents]
    _agents_line(panels[2], episode, cost, "weighted cost c (mean, range of the agents)", COLOURS[5])
    _agents_line(panels[3], episode, reward, "reward (mean, range of the agents)", COLOURS[6], first=1)
    for panel in panels[:3]:
        panel.tick_params(labelbottom=False)
    panels[3].set_xlabel("step", fontsize=8, labelpad=1)


def hpwl_lines(axes: Any, episode: PlayedEpisode) -> list[Any]:
    """The board's wirelength, with marks where a legal placement was the best so far; its lines."""
    steps, hpwl, marks = episode.states.time, episode.metrics["hpwl"], episode.improvements
    lines = [_curve(axes, episode, hpwl, COLOURS[0], "HPWL of the board (mm)")]
    _set_limits(axes, hpwl)
    if not len(marks):
        return lines
    best = np.where(episode.metrics["became_legal"] > 0, episode.metrics["best_hpwl"], np.nan)
    lines += axes.plot(steps, best, color=RIGHT, linewidth=1.0, linestyle=DASHES, drawstyle="steps-post", zorder=2)
    style = {"markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.6}
    lines += axes.plot(steps[marks], hpwl[marks], "D", color=RIGHT, **style, zorder=4)
    look = {"marker": "D", "markersize": 5, "color": RIGHT, "linestyle": DASHES, "linewidth": 1.0}
    key = paper.legend_entry(**look, label="best legal so far")
    paper.legend(axes, [key], handlelength=2.4, loc="lower right", bbox_to_anchor=(1.01, 1.0))
    return lines


def overlap_lines(axes: Any, episode: PlayedEpisode) -> list[Any]:
    """The mean overlap ratio of the parts; its line."""
    overlap = episode.metrics["overlap"]
    line = _curve(axes, episode, overlap, WRONG, "overlap (mean share of a part)")
    _set_limits(axes, overlap, 0.0, 0.1)
    return [line]


def _agents_line(
    axes: Any, episode: PlayedEpisode, values: np.ndarray, title: str, colour: str, first: int = 0
) -> None:
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
    axes.set_title(title, fontsize=9, loc="left", color=palette.INK, pad=5)
    return line


def _set_limits(axes: Any, values: np.ndarray, low: float | None = None, least: float = 1e-3) -> None:
    """All values with some room; from `low` on, if given."""
    bottom, top = float(values.min()) if low is None else low, float(values.max())
    room = max(0.07 * (top - bottom), 0.07 * least, 1e-3 * abs(top))
    axes.set_ylim(bottom - room, max(top, bottom + least) + room)
