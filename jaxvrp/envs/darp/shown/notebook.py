"""How a state shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.darp.problem.instance import name_of
from jaxvrp.envs.darp.rules import State
from jaxvrp.show.drawing import palette, stills


@stills.of_first
def draw_state(state: State) -> stills.Still:
    """A map and a line of words."""
    locs, visited = state.instance.locs, state.visited
    nodes = np.flatnonzero(state.instance.demand).tolist()
    still = stills.Still(locs[[0, *nodes]])
    still.mark(locs[0], "square", stills.INK, size=7)
    colour = stills.agent_colour(int(state.current_agent))
    for drop_off in nodes[1::2]:
        if state.picked_up_by_current[drop_off - 1] and not visited[drop_off]:
            still.line(locs[state.current_node], locs[drop_off], colour)
    for node in nodes:
        done = bool(visited[node])
        still.mark(locs[node], "up" if node % 2 else "down", palette.ON_TIME if done else stills.WAITING, filled=done)
        still.text(locs[node], (node + 1) // 2, right=11, up=5)
    still.mark(locs[state.current_node], "circle", colour, filled=False, size=11)
    where = f"vehicle {state.current_agent} at {name_of(int(state.current_node))}, {state.current_load} on board"
    served = f"{int(visited[nodes[1::2]].sum())} of {len(nodes) // 2} requests served"
    still.caption = f"step {state.step}, time {state.current_time:.4g}: {where}; {served}"
    return still
