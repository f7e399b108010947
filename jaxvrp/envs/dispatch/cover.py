"""How well vehicles cover places: where and when their plans end, and who could be where soon."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.dispatch.plans import distance
from jaxvrp.envs.dispatch.rules import State

SOON = 1 / 30
"""What is so far away in time, as a share of the horizon, counts 1 / e of what is here."""


def plan_ends(state: State) -> tuple[jax.Array, jax.Array]:
    """Where the plan of each vehicle ends, `f32[2, V]`, and in how many minutes, `f32[V]`.

    Vehicles without a plan are where they go, and free.
    """
    plans = state.plans
    is_last = jnp.arange(plans.start.shape[-1], dtype=jnp.int32) == plans.num_stops[:, None] - 1
    last, end = (jnp.sum(jnp.where(is_last, number, 0.0), axis=-1) for number in (plans.stops[:2], plans.start))
    has_plan = plans.num_stops > 0
    end = jnp.where(has_plan, end + state.prepared.fleet.stop_time, plans.free)
    return jnp.where(has_plan, last, plans.goal), jnp.maximum(end - state.now, 0.0)


def nearness(state: State, minutes: jax.Array) -> jax.Array:
    """Within (0, 1], what is there in so many minutes, `f32[...]`, counts against what is there now."""
    return jnp.exp(-minutes / (SOON * state.prepared.fleet.horizon))


def cover(state: State, places: jax.Array) -> jax.Array:
    """`f32[N, V]`, how near each vehicle is, once its plan has ended, to each of the places, `f32[2, N]`."""
    last, done_in = plan_ends(state)
    way = distance(last[:, None], places[:, :, None]) * state.prepared.pace
    return jnp.where(state.prepared.capacity > 0, nearness(state, done_in + way), 0.0)


def share_of_demand(state: State) -> jax.Array:
    """`f32[Z]`, of all pickups so far."""
    assert state.demand is not None
    return state.demand / jnp.maximum(jnp.sum(state.demand), 1.0)
