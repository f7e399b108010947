"""How a state shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.pcb.played import Placement
from jaxvrp.envs.pcb.problem.board import trim
from jaxvrp.envs.pcb.rules import State
from jaxvrp.show.drawing import palette, stills


@stills.of_first
def draw_state(state: State) -> stills.Still:
    """The board and a line of words."""
    parts = np.flatnonzero(state.instance.board.exists)
    position, orientation, overlap = (np.asarray(v)[parts] for v in (state.position, state.orientation, state.overlap))
    shown = Placement(trim(state.instance.board), (), position, orientation, float(state.board_hpwl), overlap)
    # Boards have y pointing down, and stills up.
    outline, place = shown.board.outline * (1, -1), shown.position * (1, -1)
    half = (shown.boxes[:, 2:] - shown.boxes[:, :2]) / 2
    picture = stills.Still(np.array([[0.0, 0.0], outline]))
    picture.box(outline / 2, shown.board.outline / 2, stills.INK, filled=False)
    for row, part in enumerate(parts.tolist()):
        still_colour = stills.WAITING if shown.board.fixed[row] else palette.ON_TIME
        picture.box(place[row], half[row], palette.LOST if shown.wrong[row] else still_colour)
        picture.text(place[row], part)
    verdict = shown.verdict.removeprefix("not legal: ")
    picture.caption = f"step {state.time}: HPWL {state.board_hpwl:.4g} mm, {verdict}"
    return picture
