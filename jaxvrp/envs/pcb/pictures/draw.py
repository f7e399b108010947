"""Boards and episodes as figures, or as panels of other figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.pictures import board_view, curves, drawn_placement, figures, played_episode
from jaxvrp.envs.pcb.pictures.drawn_placement import DrawnPlacement
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.rules import State

DPI = 120


def draw_board(
    board: Board | Netlist,
    position: ArrayLike | None = None,
    orientation: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    fig: Any = None,
) -> Any:
    """Draw one board with heading and legend: parts, pads, the rats-nest of the signal nets, and in red what is wrong.

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
    return figures.board_figure(_placement(board, position, orientation, names), title, DPI, fig)


def draw_placement(
    board: Board | Netlist,
    position: ArrayLike | None = None,
    orientation: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    ticks: bool = True,
    ax: Any = None,
) -> Any:
    """Draw one board alone.

    Args:
        board, position, orientation, names: as for `draw_board`.
        ticks: whether the sides have ticks in mm; else there is a scale bar.
        ax: axes of matplotlib; None: those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: as of `draw_board`.
    """
    placement = _placement(board, position, orientation, names)
    view = board_view.view_of([placement])
    width, height = 5.6 * (view[2:] - view[:2]) / (view[2:] - view[:2]).max()
    axes = pictures.axes_of(ax, width, height, DPI, (0.35, 0.35))
    extent = axes.get_window_extent()
    scale = board_view.scale_to(view, *(np.array([extent.width, extent.height]) / axes.figure.dpi))
    board_view.BoardView(axes, view, scale, placement, ticks).show(placement)
    return axes


def draw_episode(env: Pcb, states: State, *, fig: Any = None) -> Any:
    """Draw one episode: the start, the best legal placement (the end, if there was none), and metrics over time.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        fig: as for `draw_board`.

    Returns:
        The figure.

    Raises:
        ValueError: states of no or of several episodes.
    """
    return figures.episode_figure(played_episode.from_states(env, states), DPI, fig)


def draw_wirelength(env: Pcb, states: State, *, ax: Any = None) -> Any:
    """Draw the board's wirelength over time, and the best legal placements.

    Args:
        env, states: as for `draw_episode`.
        ax: axes of matplotlib; None: those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: states of no or of several episodes.
    """
    episode = played_episode.from_states(env, states)
    axes = pictures.axes_of(ax, 4.2, 2.4, DPI, (0.55, 0.4))
    curves.draw_hpwl(axes, episode)
    curves.draw_hpwl_legend(axes, episode)
    axes.set_xlabel("step", fontsize=8, labelpad=1)
    return axes


def draw_overlap(env: Pcb, states: State, *, ax: Any = None) -> Any:
    """Draw the mean overlap of the parts over time; arguments as for `draw_wirelength`."""
    episode = played_episode.from_states(env, states)
    axes = pictures.axes_of(ax, 4.2, 2.4, DPI, (0.55, 0.4))
    curves.draw_overlap(axes, episode)
    axes.set_xlabel("step", fontsize=8, labelpad=1)
    return axes


def _placement(
    board: Board | Netlist, position: ArrayLike | None, orientation: ArrayLike | None, names: Sequence[str] | None
) -> DrawnPlacement:
    """What is drawn.

    Raises:
        ValueError: a batch of boards, or arrays or names that do not fit it.
    """
    if isinstance(board, Netlist):
        names = [part.name for part in board.components] if names is None else names
        board = board.board
    if board.exists.ndim != 1:
        raise ValueError(f"this is a batch of boards, of shape {board.exists.shape[:-1]}; draw one of them")
    names = [str(part) for part in range(board.num_components)] if names is None else names
    return drawn_placement.measure_placement(board, names, position, orientation)
