"""How a state shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.dispatch.routes.plans import LOAD
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.show.drawing import palette, stills


@stills.of_first
def draw_state(state: State) -> stills.Still:
    """A map and a line of words."""
    instance, plans = state.prepared.instance, state.plans
    still = stills.Still(instance.area)
    if instance.depot is not None:
        still.mark(instance.depot, "square", stills.INK, size=7)
    for v in np.flatnonzero(instance.capacity).tolist():
        colour, here = stills.agent_colour(v), plans.place[:2, v]
        for k in np.flatnonzero(np.isfinite(plans.start[v])).tolist():
            there = plans.stops[:2, v, k]
            still.line(here, there, colour)
            still.mark(there, "up" if plans.stops[LOAD, v, k] > 0 else "down", colour, size=4)
            here = there
        still.mark(plans.place[:2, v], "circle", colour, filled=False, size=8)
    words = f"{state.totals.served:.0f} of {state.step} requests accepted"
    if not state.done:
        request = int(state.step)
        if instance.depot is None:
            still.mark(instance.pickup[request], "up", palette.ORANGE, size=7)
        still.mark(instance.dropoff[request], "down", palette.ORANGE, size=7)
        words += f"; request {request}: {int(state.offers.feasible.sum())} vehicles can take it"
    still.caption = f"time {state.now:.1f} min: {words}"
    return still
