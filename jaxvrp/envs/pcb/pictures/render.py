"""Pictures of boards and of episodes, in files.

matplotlib and pillow are imported inside the functions: the simulator does not need them, no display and no global
state is touched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.pictures import animation, played_episode
from jaxvrp.envs.pcb.pictures.draw import DPI, draw_board, draw_episode
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.rules import State


def render_board(
    board: Board | Netlist,
    path: str | os.PathLike,
    position: ArrayLike | None = None,
    orientation: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
) -> None:
    """Draw one board: parts, pads, the rats-nest of the signal nets, and in red what overlaps or is off the board.

    Wirelength and legality are those of the environment. A file that is there already is replaced once the new one is
    complete.

    Args:
        board: without leading axes; padding is not shown, nor are pads without a net.
        path: `.png`, `.svg` or `.pdf`.
        position: `[N, 2]`, centres in mm; default the board's own.
        orientation: `[N]`, quarter turns; default the board's own.
        names: of the parts, written where they fit, or none (`()`); default those of the netlist, or indices.

    Raises:
        ValueError: another suffix, a batch of boards, or arrays or names that do not fit it.
        OSError: the file cannot be written.
    """
    pictures.write_picture(path, "a board", lambda: draw_board(board, position, orientation, names=names), dpi=DPI)


def render_episode(env: Pcb, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    Movable parts bear the numbers of their agents.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for a still: the start, the best legal placement (the
            end, if there was none), and metrics over time.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "an episode",
        lambda: draw_episode(env, states),
        lambda partial: animation.write_animation(played_episode.from_states(env, states), partial),
        dpi=DPI,
    )
