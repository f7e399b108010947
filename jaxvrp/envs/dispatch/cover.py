"""How well vehicles cover places: where and when their plans end, and who could be where soon."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.dispatch import rules
from jaxvrp.envs.dispatch.problem.instance import minute_of
from jaxvrp.envs.dispatch.routes.plans import at_position, distance
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.rows import columns_at

SOON = 1 / 30
"""What is so far away in time, as a share of the horizon, counts 1 / e of what is here."""

COVERED = 0.8
"""A vehicle that is there leaves so much need, as the exponent of 1 / e."""

EVEN = 10.0
"""Requests, spread evenly, that are believed in before any have come."""

WAY, ENOUGH = 0.005, 0.2
"""Need that a minute of the way to a zone costs, on a generated day, and the least gain for which a vehicle moves; with
the numbers above the best of a small grid on other days."""


def plan_ends(state: State) -> tuple[jax.Array, jax.Array]:
    """Where the plan of each vehicle ends, `f32[2, V]`, and in how many minutes, `f32[V]`.

    Vehicles without a plan are where they go, and free.
    """
    plans = state.plans
    last, end = (at_position(plans.num_stops - 1, values) for values in (plans.stops[:2], plans.start))
    has_plan = plans.num_stops > 0
    end = jnp.where(has_plan, end + state.prepared.fleet.stop_time, plans.free)
    return jnp.where(has_plan, last, plans.goal[:2]), jnp.maximum(end - state.now, 0.0)


def nearness(state: State, minutes: jax.Array) -> jax.Array:
    """Within (0, 1], what is there in so many minutes, `f32[...]`, counts against what is there now."""
    return jnp.exp(-minutes / (SOON * state.prepared.fleet.horizon))


def middles(state: State) -> jax.Array:
    """`f32[2, Z]`, of the zones."""
    return rules.zone_middles(state.prepared.fleet.area, state.num_zones_each_way)


def cover(state: State) -> jax.Array:
    """`f32[Z]`, the sum of how near the vehicles are to the middle of each zone, once their plans have ended."""
    last, done_in = plan_ends(state)
    way = distance(last[:, :, None], middles(state)[:, None]) * state.prepared.pace[:, None]
    near = jnp.where(state.prepared.capacity[:, None] > 0, nearness(state, done_in[:, None] + way), 0.0)
    return jnp.sum(near, axis=0)


def demand(state: State) -> jax.Array:
    """`f32[Z]`, the pickups that are likely in each zone, of what they would be if all zones were alike."""
    assert state.demand is not None
    known = state.demand + EVEN / state.demand.shape[0]
    return known / jnp.mean(known)


def need(wanted: jax.Array, covered: jax.Array) -> jax.Array:
    """What so much cover (`f32[...]`) leaves of a demand (`f32[...]`)."""
    return wanted * jnp.exp(-COVERED * covered)


def needed(state: State) -> jax.Array:
    """`f32[V]`, the need of the zone where each vehicle will be, without this vehicle."""
    last, done_in = plan_ends(state)
    here = rules.zone_of(state.prepared.fleet.area, state.num_zones_each_way, last)
    way = distance(last, columns_at(middles(state), here)) * state.prepared.pace
    return need(columns_at(demand(state), here), columns_at(cover(state), here) - nearness(state, done_in + way))


def spare(state: State) -> jax.Array:
    """`i32[]`, the idle vehicle that is needed least where it waits; -1 if none is idle."""
    idle = rules.idle(state)
    least = jax.lax.argmin(jnp.where(idle, needed(state), jnp.inf), 0, jnp.int32)
    return jnp.where(idle.any(), least, -1)


def is_spare(state: State) -> jax.Array:
    """`bool[V]`, whether each vehicle is the spare one."""
    return jnp.arange(state.plans.free.shape[0], dtype=jnp.int32) == spare(state)


def target(state: State) -> jax.Array:
    """`i32[]`, 1 + the zone that needs the spare vehicle enough more than the one where it waits; 0 for none."""
    number = spare(state)
    place, goal, pace = (_of(number, values) for values in (state.plans.place, state.plans.goal, state.prepared.pace))
    place, goal = place[:2], goal[:2]
    price = WAY / minute_of(state.prepared.fleet)
    near = nearness(state, distance(goal[:, None], middles(state)) * pace)
    worth = need(demand(state), cover(state) - near) - price * distance(place[:, None], middles(state)) * pace
    gains = (number >= 0) & (jnp.max(worth) > _of(number, needed(state)) + ENOUGH)
    return jnp.where(gains, 1 + jax.lax.argmax(worth, 0, jnp.int32), 0)


def _of(vehicle: jax.Array, values: jax.Array) -> jax.Array:
    """`f32[...]` of `f32[..., V]`, that of one vehicle (`i32[]`)."""
    return columns_at(values, jnp.maximum(vehicle, 0))
