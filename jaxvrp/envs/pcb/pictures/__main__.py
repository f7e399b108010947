"""The command that draws a board of a file: `python -m jaxvrp.envs.pcb.pictures BOARDS.pcb --board 2`; see `--help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from jaxvrp.envs.pcb.factory import read_boards
from jaxvrp.envs.pcb.pictures.draw import DPI, draw_board
from jaxvrp.io.command_line import Parser, check_picture_path, index, refuse_overwriting, run_command
from jaxvrp.show.drawing.files import STILLS, write_drawn


def main(argv: Sequence[str] | None = None) -> int:
    """Draw a board of a file; a user's mistake is one line on stderr and exit status 2."""
    return run_command(lambda: _draw(argv), (ValueError,))


def _draw(argv: Sequence[str] | None) -> None:
    parser = Parser("jaxvrp.envs.pcb.pictures", "Draw a circuit board to a picture.")
    parser.add_argument("boards", type=Path, help="a .pcb, a Bookshelf .nodes, or an .npz of jaxvrp.envs.pcb.save")
    parser.add_argument("--board", type=index, default=0, help="which board of the file, from 0 (default: 0)")
    parser.add_argument("--out", type=Path, help="the picture: .png, .svg or .pdf (default: the file's name_BOARD.png)")
    options = parser.parse_args(argv)
    out = options.out or Path(f"{options.boards.stem}_{options.board}.png")
    check_picture_path(out, STILLS)
    refuse_overwriting(out, "--out", [options.boards])
    boards = read_boards(options.boards)
    if options.board >= len(boards):
        last = len(boards) - 1
        held = f"{len(boards)} boards; choose one with --board 0 to {last}" if last else "1 board; leave --board out"
        raise ValueError(f"{options.boards} holds {held}")
    write_drawn(out, "a board", lambda: draw_board(boards[options.board]), dpi=DPI)
    print(f"drew {out}")


if __name__ == "__main__":
    sys.exit(main())
