"""A day that is driven by hand: requests that become known while it runs, and the plans between decisions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.envs.dispatch.baselines import search
from jaxvrp.envs.dispatch.env import Dispatch, decide, prepared_day
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.routes.insertion import offers
from jaxvrp.envs.dispatch.routes.schedule import planned_travel
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.spaces import ByRole


def with_requests(env: Dispatch, state: State, day: NamedDay) -> State:
    """The same moment of a day that has more requests, behind those that it had; the next step goes to the first.

    Without more, the next step ends the day.

    Raises:
        ValueError: the day is larger than the environment.
    """
    return state.replace(prepared=prepared_day(env, day.instance))


@jax.jit
def decided(env: Dispatch, state: State, action: ByRole) -> State:
    """The same moment after legal actions: the plans have changed, and no time has passed."""
    return state.replace(plans=decide(env, state, action)[0])


@functools.partial(jax.jit, static_argnames="rounds")
def replanned(state: State, key: jax.Array, *, rounds: int = 1000) -> State:
    """The same moment, what vehicles have not begun planned again, all promises kept, with less travel.

    For many states at once, see `jaxvrp.envs.dispatch.baselines.search.replanned`.
    """
    prepared, plans = state.prepared, state.plans
    batch = jax.tree.map(lambda leaf: leaf[None], (prepared, plans))
    found = jax.tree.map(lambda leaf: leaf[0], search.replanned(*batch, key, rounds=rounds))
    totals = state.totals
    if prepared.factors is None:  # with noise, travel counts when it is driven
        change = found.travel - planned_travel(prepared, plans)
        by_drones = jnp.sum(jnp.where(prepared.fleet.is_drone, change, 0.0))
        totals = totals.replace(travel=totals.travel + jnp.sum(change), drone_travel=totals.drone_travel + by_drones)
    return state.replace(plans=found.plans, offers=offers(prepared, found.plans, state.request), totals=totals)
