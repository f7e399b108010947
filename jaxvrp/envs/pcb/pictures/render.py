"""Pictures of boards and of episodes, and the command that draws a board from a file.

`python -m jaxvrp.envs.pcb.render BOARDS.pcb --board 2 --out PICTURE.png`; see `--help`. matplotlib and pillow are
imported inside the functions: the simulator does not need them, no display and no global state is touched.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.factory import read_boards
from jaxvrp.envs.pcb.pictures import animation, drawn_placement, played_episode, sheet
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.rules import State
from jaxvrp.io.command_line import Parser, check_picture_path, run_command
from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures import STILLS

DPI = 120


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
    path = Path(path)
    if path.suffix.lower() not in STILLS:
        raise ValueError(f"cannot draw a board to '{path.name}': use .png, .svg or .pdf")
    title = ""
    if isinstance(board, Netlist):
        names = [part.name for part in board.components] if names is None else names
        title, board = board.source.removesuffix(".kicad_pcb"), board.board
    if board.exists.ndim != 1:
        raise ValueError(f"this is a batch of boards, of shape {board.exists.shape[:-1]}; draw one of them")
    names = [str(at) for at in range(board.num_components)] if names is None else names
    placement = drawn_placement.measured(board, names, position, orientation)
    pictures.save_still(sheet.draw_board(placement, title, DPI), path, DPI)


def render_episode(env: Pcb, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    Movable parts bear the numbers of their agents.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for a sheet: the start, the best legal placement (the
            end, if there was none), and metrics over time.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".gif", *STILLS):
        raise ValueError(f"cannot draw an episode to '{path.name}': use .gif (animation), .png, .svg or .pdf (still)")
    played = played_episode.from_states(env, states)
    if suffix == ".gif":
        write_whole(path, lambda partial: animation.write(played, partial))
    else:
        pictures.save_still(sheet.draw_episode(played, DPI), path, DPI)


# --- the command ----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Draw a board of a file; a user's mistake is one line on stderr and exit status 2."""
    return run_command(lambda: _draw(_parse(argv)), (ValueError,))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("jaxvrp.envs.pcb.pictures", "Draw a circuit board to a picture.")
    parser.add_argument("boards", type=Path, help="a .pcb, a Bookshelf .nodes, or an .npz of jaxvrp.envs.pcb.save")
    parser.add_argument("--board", type=int, default=0, help="which board of the file, from 0 (default: 0)")
    parser.add_argument("--out", type=Path, help="the picture: .png, .svg or .pdf (default: the file's name_BOARD.png)")
    options = parser.parse_args(argv)
    if options.out is None:
        options.out = Path(f"{options.boards.stem}_{options.board}.png")
    check_picture_path(options.out, STILLS)
    return options


def _draw(options: argparse.Namespace) -> None:
    boards = read_boards(options.boards)
    if not 0 <= options.board < len(boards):
        last = len(boards) - 1
        held = f"{len(boards)} boards; choose one with --board 0 to {last}" if last else "1 board; leave --board out"
        raise ValueError(f"{options.boards} holds {held}")
    render_board(boards[options.board], options.out)
    print(f"drew {options.out}")


if __name__ == "__main__":
    sys.exit(main())
