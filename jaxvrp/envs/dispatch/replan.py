"""Ruin and recreate on what vehicles have not begun: requests leave their plans, and return where they cost least.

A round takes a request at random and those nearest to it out of the plans of all vehicles, and inserts them again one
by one by the exact test of `jaxvrp.envs.dispatch.insertion`, each where it adds least travel. The round counts if all
of them have a place again and the travel is less (Shaw 1998; Schrimpf et al. 2000).

The random numbers of a round are the same in every day, turned by the number of the request at hand (Cranley &
Patterson 1976). So plans follow from the day so far alone: states and instances hold no key, and a batch shares them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.dispatch.insertion import insert, offers
from jaxvrp.envs.dispatch.plans import LOAD, REQUEST, Plans, Prepared, distance
from jaxvrp.envs.dispatch.schedule import index_of, planned_travel, rescheduled

REMOVED = 3
"""Requests that a round takes out, or as many as there are."""

GOLDEN = 0.6180339887
LEAST_GAIN = 1e-3
"""Minutes of travel that a round must save to count."""


def replan(prepared: Prepared, plans: Plans, turn: jax.Array, rounds: int) -> tuple[Plans, jax.Array]:
    """The plans after so many rounds, and how much the travel of each vehicle has grown (`f32[V]`).

    Args:
        prepared: the day.
        plans: feasible ones.
        turn: `i32[]`, other random numbers for each.
        rounds: how many, static.
    """
    before = planned_travel(prepared, plans)
    draws = np.random.default_rng(0).random((rounds, 1 + REMOVED), np.float32)
    turned = jnp.mod(jnp.asarray(draws) + GOLDEN * turn.astype(jnp.float32), 1.0)

    def advance(number: jax.Array, kept: tuple[Plans, jax.Array]) -> tuple[Plans, jax.Array]:
        plans, travel = kept
        changed, is_complete = _ruin_and_recreate(prepared, plans, turned[number])
        changed_travel = planned_travel(prepared, changed)
        better = is_complete & (jnp.sum(changed_travel) < jnp.sum(travel) - LEAST_GAIN)
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), (changed, changed_travel), kept)

    plans, travel = jax.lax.fori_loop(0, rounds, advance, (plans, before))
    return plans, travel - before


def _ruin_and_recreate(prepared: Prepared, plans: Plans, draws: jax.Array) -> tuple[Plans, jax.Array]:
    """The plans with some requests taken out and inserted again, and whether all of them fit."""
    removed, ruined = [], plans
    first = _nth_removable(prepared, ruined, draws[0])
    centre = jnp.sum(jnp.where(first, plans.stops[:2], 0.0), axis=(-2, -1))
    for number in range(REMOVED):
        nearness = distance(ruined.stops[:2], centre[:, None, None]) * (0.5 + draws[1 + number])
        nearness = jnp.where(_removable(prepared, ruined), nearness, jnp.inf)
        is_nearest = nearness.ravel() == jnp.min(nearness)
        at = jax.lax.argmax(is_nearest, 0, jnp.int32)
        there = (index_of(nearness.size) == at).reshape(nearness.shape) & (nearness < jnp.inf)
        index = jnp.sum(jnp.where(there, ruined.stops[REQUEST], 0.0)).astype(jnp.int32)
        removed.append((index, there.any()))
        ruined = without(prepared, ruined, index, there.any())
    recreated, is_complete = rescheduled(prepared, ruined), removed[0][1]
    for index, exists in removed:
        request = prepared.request(index)
        found = offers(prepared, recreated, request)
        added = jnp.where(found.feasible, found.added, jnp.inf)
        cheapest = index_of(added.shape[0]) == jax.lax.argmin(added, 0, jnp.int32)
        recreated = insert(prepared, recreated, found, request, cheapest & found.feasible & exists)
        is_complete &= found.feasible.any() | ~exists
    return recreated, is_complete


def _removable(prepared: Prepared, plans: Plans) -> jax.Array:
    """`bool[V, S]`: one stop of each request that vehicles have not begun, the pickup where there is one."""
    return plans.present & ((plans.stops[LOAD] > 0) | (prepared.instance.depot is not None))


def _nth_removable(prepared: Prepared, plans: Plans, uniform: jax.Array) -> jax.Array:
    """`bool[V, S]`, one of the removable stops, by a number in [0, 1); none if there are none."""
    removable = _removable(prepared, plans)
    rank = jnp.cumsum(removable.ravel()).reshape(removable.shape)
    number = jnp.minimum((uniform * rank[-1, -1]).astype(jnp.int32), rank[-1, -1] - 1)
    return removable & (rank == number + 1)


def without(prepared: Prepared, plans: Plans, request: jax.Array, exists: jax.Array) -> Plans:
    """The plans without the stops of a request; its other stops are to be rescheduled."""
    for _ in range(2 if prepared.instance.depot is None else 1):
        is_its = plans.present & (plans.stops[REQUEST] == request.astype(jnp.float32)) & exists
        position = jnp.min(jnp.where(is_its, index_of(is_its.shape[-1]), is_its.shape[-1]), axis=-1)[:, None]

        def close(old: jax.Array, empty: float, position: jax.Array = position) -> jax.Array:
            following = jnp.concatenate([old[..., 1:], jnp.full_like(old[..., :1], empty)], axis=-1)
            return jnp.where(index_of(old.shape[-1]) < position, old, following)

        plans = plans.replace(stops=close(plans.stops, 0.0), start=close(plans.start, jnp.inf))
    return plans
