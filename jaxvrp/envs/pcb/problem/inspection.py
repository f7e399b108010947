"""What of a board is judged otherwise than a reader may expect, or can never be legal."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.problem.board import Board, as_float32
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.io.messages import shown

NAMED = 3
"""So many parts are named, more are counted."""


def warnings_of(netlist: Netlist) -> Iterator[str]:
    """Each a line, without a line feed, that names parts and says what becomes of them."""
    board, fixed = as_float32(netlist.board), netlist.board.fixed
    pairs, none = geometry.obstructing(board.side, board.fixed, board.fixed), np.zeros_like(fixed)
    sizes, outline = np.sort(netlist.board.size, axis=1), np.sort(netlist.board.outline)
    stays = "it counts only where a part that can move lies on it"
    found = {
        f"fixed over the edge of the board; {stays}": _is_wrong(board, none[:, None] & none, board.fixed),
        f"fixed on another fixed part; {stays}": _is_wrong(board, pairs, none),
        "fixed at an angle that is no quarter turn; its bounding box is in the way": np.array(
            [part.drawn is not None for part in netlist.components]
        ),
        "larger than the board; no placement is legal, correct its size": ~fixed & (sizes > outline).any(axis=1),
    }
    return (f"{_named(netlist, faulty)} is {fault}" for fault, faulty in found.items() if faulty.any())


def _is_wrong(board: Board, obstructs: jax.Array, judged: jax.Array) -> np.ndarray:
    """`bool[N]`: fixed parts that lie on those which obstruct them, or off the board if they are `judged` there."""
    half = geometry.half_extent(board.size, board.orientation)
    overlap = geometry.overlap_ratio(board.position, half, board.outline, obstructs, board.fixed, judged)
    return ~np.asarray(geometry.is_legal(overlap))


def _named(netlist: Netlist, chosen: np.ndarray) -> str:
    """`part 'J1'`, or `each of 'J1', 'J2', 'J3' and 2 more`."""
    names = [shown(netlist.components[row].name) for row in np.flatnonzero(chosen)]
    if len(names) == 1:
        return f"part {names[0]}"
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"each of the parts {', '.join(names[:NAMED])}{more}"
