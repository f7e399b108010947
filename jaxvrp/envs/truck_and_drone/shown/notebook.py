"""How a state shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.envs.truck_and_drone.ways import name_of
from jaxvrp.show.drawing import palette, stills


@stills.of_first
def draw_state(state: State, words_of: Callable[[Any], str] = lambda state: "") -> stills.Still:
    """A map and a line of words, those of `words_of` the state before the truck's."""
    locs, nodes = state.instance.locs, np.flatnonzero(state.instance.exists).tolist()
    still = stills.Still(locs[nodes])
    still.mark(locs[0], "square", stills.INK, size=7)
    if state.is_away:
        still.line(locs[state.launch_node], locs[state.drone_customer], palette.ORANGE)
    for node in nodes[1:]:
        done = bool(state.served[node])
        still.mark(locs[node], "up", palette.ON_TIME if done else stills.WAITING, filled=done)
        still.text(locs[node], node, right=11, up=5)
    still.mark(locs[state.truck_node], "circle", palette.BLUE, filled=False, size=11)
    customers = len(nodes) - 1
    served = customers - int((~state.served).sum())
    truck = f"truck at {name_of(int(state.truck_node))}"
    drone = f"drone away to {name_of(int(state.drone_customer))}" if state.is_away else "drone on board"
    clock = float(state.clock + state.truck_elapsed)
    where = f"{words_of(state)}{truck}, {drone}"
    still.caption = f"step {state.step}, time {clock:.4g}: {where}; {served} of {customers} customers served"
    return still
