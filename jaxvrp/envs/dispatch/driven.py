"""The stops of a day as it was driven, from the decisions that were made."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.environment import executed_action, select
from jaxvrp.envs.dispatch.env import Dispatch, decide, prepared_day
from jaxvrp.envs.dispatch.plans import LOAD, REQUEST, begun_by, distance, leaves
from jaxvrp.envs.dispatch.problem.instance import Instance
from jaxvrp.envs.dispatch.problem.solution import Stop
from jaxvrp.envs.dispatch.schedule import positions
from jaxvrp.envs.dispatch.under_way import begun_until, drive


def driven_stops(env: Dispatch, instance: Instance, actions: Mapping[str, Any]) -> list[Stop]:
    """All stops that vehicles made on a day under these actions, `{role: [T, agents]}`, those of each in their order.

    Give them to `jaxvrp.envs.dispatch.solution_report`; with noise, also `leg_factors(env, instance)`.
    """
    numbers = {name: jnp.asarray(values, jnp.int32) for name, values in actions.items()}
    parameters, structure = jax.tree.flatten(env)
    begun, stops, start, departs, way = jax.device_get(_drive(structure, parameters, instance, numbers))
    found: list[Stop] = []
    trips = np.zeros(begun.shape[1], int)
    for time, v in np.ndindex(begun.shape[:2]):
        last = None
        for k in np.flatnonzero(begun[time, v]):
            departure = float(departs[time, v, k])
            trips[v] += last is None or departure != last
            last = departure
            request, is_pickup = int(stops[time, REQUEST, v, k]), bool(stops[time, LOAD, v, k] > 0)
            times = float(start[time, v, k]), int(trips[v]), departure, float(way[time, v, k])
            found.append(Stop(v, request, is_pickup, *times))
    return found


def leg_factors(env: Dispatch, instance: Instance) -> np.ndarray | None:
    """`f32[V, L]`, the time of the n-th leg of each vehicle on a day, in mean times; None without noise."""
    factors = prepared_day(env, instance).factors
    return None if factors is None else np.asarray(factors.of_mean)


@functools.partial(jax.jit, static_argnums=0)
def _drive(structure: Any, leaves_of_env: Any, instance: Instance, actions: Any) -> tuple[jax.Array, ...]:
    """What was begun in each step: `bool[T, V, S]`; and the plans' stops, starts, departures, minutes of way then."""
    env = jax.tree.unflatten(structure, leaves_of_env)

    def advance(state: Any, action: Any) -> tuple[Any, tuple[jax.Array, ...]]:
        executed, num_invalid = executed_action(env, action, env.action_mask(state), env.valid(state))
        plans, _ = decide(env, state, executed)
        moved = env.transition(state, executed, num_invalid)
        until = jnp.where(moved.done, jnp.inf, moved.now)
        if state.prepared.factors is None:
            begun, start, departs = begun_by(state.prepared, plans, until), plans.start, leaves(state.prepared, plans)
            origin = positions(state.prepared, plans).before[..., :-1]
            way = distance(origin, plans.stops[:2]) * state.prepared.pace[:, None]
        else:
            driven = drive(state.prepared, plans, until)
            found = begun_until(state.prepared, driven, until), driven.start, driven.departs, driven.minutes
            begun, start, departs, way = (values[:, -env.max_stops :] for values in found)
        return select(state.done, state, moved), (begun & ~state.done, plans.stops, start, departs, way)

    return jax.lax.scan(advance, env.init_state(instance), actions)[1]
