"""A day that is driven by hand: requests that become known while it runs, and the plans between decisions."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp.envs.dispatch.env import Dispatch, decide, prepared_day
from jaxvrp.envs.dispatch.plans import LOAD, REQUEST
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.spaces import ByRole


def with_requests(env: Dispatch, state: State, day: NamedDay) -> State:
    """The same moment of a day that has more requests, behind those that it had; the next step goes to the first.

    Without more, the next step ends the day.

    Raises:
        ValueError: the day is larger than the environment.
    """
    return state.replace(prepared=prepared_day(env, day.instance))


def decided(env: Dispatch, state: State, action: ByRole) -> State:
    """The same moment after legal actions: the plans have changed, and no time has passed."""
    return state.replace(plans=decide(env, state, action)[0])


def pending(day: NamedDay, state: State) -> dict[str, list[dict[str, Any]]]:
    """By vehicle, the stops that it has not begun, and when it will; for JSON, in names and units of the day."""
    stops, start = np.asarray(state.plans.stops), np.asarray(state.plans.start)
    return {
        name: [
            {
                "what": "pickup" if stops[LOAD, v, k] > 0 else "drop-off",
                "request": day.requests[int(stops[REQUEST, v, k])],
                "begin": day.moment(start[v, k]),
            }
            for k in np.flatnonzero(np.isfinite(start[v]))
        ]
        for v, name in enumerate(day.vehicles)
    }
