"""The files that boards come in, by their endings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import jax

from jaxvrp.envs.pcb.problem.board import Board, load
from jaxvrp.envs.pcb.problem.bookshelf import read_bookshelf
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb
from jaxvrp.io.problem_files import UnknownFormatError


def read_boards(path: str | os.PathLike) -> Sequence[Board | Netlist]:
    """The boards of a `.pcb`, `.nodes` (Bookshelf) or `.npz` file, with names where it has them.

    Raises:
        ValueError: a damaged file; one line.
        UnknownFormatError: another ending.
        OSError: it cannot be read.
    """
    path = Path(path)
    if path.suffix == ".pcb":
        return read_pcb(path).boards
    if path.suffix == ".nodes":
        return [read_bookshelf(path)]
    if path.suffix != ".npz":
        raise UnknownFormatError(f"boards '{path}' is neither .pcb, .nodes (Bookshelf) nor .npz (jaxvrp.envs.pcb.save)")
    return single_boards(load(path))


def single_boards(boards: Board) -> list[Board]:
    """A board by itself, or those of a batch `[B]`."""
    if boards.exists.ndim == 1:
        return [boards]
    return [jax.tree.map(lambda leaf, row=row: leaf[row], boards) for row in range(boards.exists.shape[0])]
