"""How well vehicles cover places: where and when their plans end, and who could be where soon."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.dispatch import rules
from jaxvrp.envs.dispatch.plans import distance
from jaxvrp.envs.dispatch.rules import State

SOON = 1 / 30
"""What is so far away in time, as a share of the horizon, counts 1 / e of what is here."""

COVERED = 0.8
"""A vehicle that is there leaves so much need, as the exponent of 1 / e."""

EVEN = 10.0
"""Requests, spread evenly, that are believed in before any have come."""

WAY, ENOUGH = 0.005, 0.2
"""Need that a minute of the way to a zone costs, and the least gain for which a vehicle moves; with the numbers above
the best of a small grid on other days."""


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


def demand(state: State) -> jax.Array:
    """`f32[Z]`, the pickups that are likely in each zone, of what they would be if all zones were alike."""
    assert state.demand is not None
    known = state.demand + EVEN / state.demand.shape[0]
    return known / jnp.mean(known)


def need(state: State) -> tuple[jax.Array, jax.Array]:
    """The demand of each zone that its cover leaves, `f32[Z]`; and for each vehicle, without itself, `f32[V, Z]`."""
    near = cover(state, rules.zone_middles(state.prepared.fleet.area, state.num_zones_each_way)).T
    total = jnp.sum(near, axis=0)
    return demand(state) * jnp.exp(-COVERED * total), demand(state) * jnp.exp(-COVERED * (total - near))


def spare(state: State, without: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Which idle vehicle is needed least where it waits, `bool[V]`; and how much each is where it will be, `f32[V]`.

    `without` is the need without each vehicle, `f32[V, Z]`.
    """
    here = rules.zone_of(state.prepared.fleet.area, state.num_zones_each_way, plan_ends(state)[0])
    needed = jnp.take_along_axis(without, here[:, None], axis=-1)[:, 0]
    idle = rules.idle(state)
    least = jax.lax.argmin(jnp.where(idle, needed, jnp.inf), 0, jnp.int32)
    return idle & (jnp.arange(needed.shape[0], dtype=jnp.int32) == least), needed


def sent(state: State, without: jax.Array) -> jax.Array:
    """`i32[V]`, 1 + the zone that the spare vehicle goes to, if it is needed enough more there; else 0.

    `without` is as in `spare`.
    """
    middles = rules.zone_middles(state.prepared.fleet.area, state.num_zones_each_way)
    way = distance(state.plans.place[:, :, None], middles[:, None]) * state.prepared.pace[:, None]
    is_spare, needed = spare(state, without)
    worth = without - WAY * way
    moves = is_spare & (jnp.max(worth, axis=-1) > needed + ENOUGH)
    return jnp.where(moves, 1 + jax.lax.argmax(worth, 1, jnp.int32), 0)
