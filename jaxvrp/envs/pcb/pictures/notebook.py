"""How a state shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.pcb.geometry import LEGAL_OVERLAP
from jaxvrp.envs.pcb.rules import State
from jaxvrp.pictures import palette, stills

UPRIGHT = np.array([1.0, -1.0])
"""Boards have y pointing down."""


def draw_state(state: State) -> str | None:
    """The board and a line of words; of a batch, its first state; None if there is nothing to draw (traced values)."""
    found = stills.first_state(state.replace(instance=state.instance.replace(key=None)), state.time)
    if found is None:
        return None
    state, note = found
    board = state.instance.board
    parts = np.flatnonzero(board.exists).tolist()
    half = np.where(state.orientation[:, None] % 2 == 1, board.size[:, ::-1], board.size) / 2
    still = stills.Still(np.array([[0.0, 0.0], board.outline]) * UPRIGHT)
    still.box(board.outline / 2 * UPRIGHT, board.outline / 2, stills.INK, filled=False)
    for part in parts:
        overlaps = state.overlap[part] > LEGAL_OVERLAP
        colour = palette.LOST if overlaps else stills.WAITING if board.fixed[part] else palette.ON_TIME
        still.box(state.position[part] * UPRIGHT, half[part], colour)
        still.text(state.position[part] * UPRIGHT, part)
    overlapping = int((state.overlap[parts] > LEGAL_OVERLAP).sum())
    what = "legal" if overlapping == 0 else f"{overlapping} of {len(parts)} parts overlap or stick out"
    return still.html(f"step {state.time}: HPWL {state.board_hpwl:.4g} mm, {what}{note}")
