"""How a state shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.darp.played import name_of
from jaxvrp.envs.darp.rules import State
from jaxvrp.pictures import palette, stills


def draw_state(state: State) -> str | None:
    """A map and a line of words; of a batch, its first state; None if there is nothing to draw (traced values)."""
    found = stills.first_state(state, state.step)
    if found is None:
        return None
    state, note = found
    locs = state.instance.locs
    nodes = np.flatnonzero(state.instance.demand).tolist()
    still = stills.Still(locs[[0, *nodes]])
    still.mark(locs[0], "square", stills.INK, size=7)
    aboard = [node for node in nodes if _on_board(state, node)]
    for drop_off in aboard:
        still.line(locs[state.current_node], locs[drop_off], stills.agent_colour(int(state.current_agent)))
    for node in nodes:
        done = bool(state.visited[node])
        still.mark(locs[node], "up" if node % 2 else "down", palette.ON_TIME if done else stills.WAITING, filled=done)
        still.text(locs[node], (node + 1) // 2, right=11, up=5)
    still.mark(locs[state.current_node], "circle", stills.agent_colour(int(state.current_agent)), filled=False, size=11)
    return still.html(_caption(state, nodes) + note)


def _on_board(state: State, node: int) -> bool:
    return node % 2 == 0 and bool(state.picked_up_by_current[node - 1]) and not state.visited[node]


def _caption(state: State, nodes: list[int]) -> str:
    served = sum(bool(state.visited[node]) for node in nodes if node % 2 == 0)
    where = f"vehicle {state.current_agent} at {name_of(int(state.current_node))}, {state.current_load} on board"
    return f"step {state.step}, time {state.current_time:.4g}: {where}; {served} of {len(nodes) // 2} requests served"
