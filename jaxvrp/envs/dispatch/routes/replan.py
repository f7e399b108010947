"""Ruin and recreate on what vehicles have not begun: requests leave their plans, and return where they cost least.

A round takes requests out of the plans of all vehicles: those near one in place and time (Shaw 1998), or strings next
to it in the plans that come nearest (Christiaens and Vanden Berghe 2020). It inserts them again one by one by the exact
test of `jaxvrp.envs.dispatch.routes.insertion`, each where it adds least travel, and counts only if all have a place.

`replan`, of the environment's `replan_rounds`, keeps what is shorter; `jaxvrp.envs.dispatch.baselines.search` anneals,
with moves that are cheaper for many fleets.
The random numbers of `replan` are the same in every day, turned by the number of the request at hand (Cranley &
Patterson 1976). So plans follow from the day so far alone: states and instances hold no key, and a batch shares them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.environment import select
from jaxvrp.envs.dispatch.routes.insertion import insert, offers
from jaxvrp.envs.dispatch.routes.plans import COLUMNS, LOAD, REQUEST, Plans, Prepared, distance
from jaxvrp.envs.dispatch.routes.schedule import index_of, planned_travel, rescheduled

REMOVED = 3
"""Requests that a round of `replan` takes out, or as many as there are."""

GOLDEN = 0.6180339887

STRINGS, MOST_TOURS = 0.7, 4
"""Share of rounds that take strings out, and from how many plans at most."""

BY_DEADLINE = 0.9
"""Share of rounds that insert from the earliest deadline on; the others, by chance."""

NOISE = 0.6
"""The largest share that chance adds to the travel of an insertion."""

DICE = 6
"""Random numbers of a round beside those of each stop: whom it begins with, how it takes out, a spare, from how many
plans, in which order it inserts, with how much noise."""

FAR = 1e6
"""More than any number of stops or minutes."""


class Planned(struct.PyTreeNode):
    """Plans, and minutes of travel of each vehicle (`f32[V]`)."""

    plans: Plans
    travel: jax.Array

    @property
    def total(self) -> jax.Array:
        """`f32[]`, minutes of all vehicles."""
        return jnp.sum(self.travel)


def replan(prepared: Prepared, plans: Plans, turn: jax.Array, rounds: int) -> tuple[Plans, jax.Array]:
    """The plans after so many rounds, and how much the travel of each vehicle has grown (`f32[V]`).

    Args:
        prepared: the day.
        plans: feasible ones.
        turn: `i32[]`, other random numbers for each.
        rounds: how many, static.
    """
    before = Planned(plans, planned_travel(prepared, plans))
    draws = np.random.default_rng(0).random((rounds, draws_of(plans)), np.float32)
    turned = jnp.mod(jnp.asarray(draws) + GOLDEN * turn.astype(jnp.float32), 1.0)

    def advance(number: jax.Array, kept: Planned) -> Planned:
        changed, is_complete = ruin_and_recreate(prepared, kept.plans, turned[number])
        return select(is_complete & (changed.total < kept.total - prepared.slack), changed, kept)

    planned = jax.lax.fori_loop(0, rounds, advance, before)
    return planned.plans, planned.travel - before.travel


def draws_of(plans: Plans) -> int:
    """How many random numbers a round needs."""
    return DICE + plans.start.size


def ruin_and_recreate(prepared: Prepared, plans: Plans, draws: jax.Array) -> tuple[Planned, jax.Array]:
    """The plans with `REMOVED` requests taken out and inserted again, and whether all of them fit.

    `draws`, `f32[draws_of(plans)]` in [0, 1), are all random numbers.
    """
    uniform = draws[DICE:].reshape(plans.start.shape)
    score = _score(prepared, plans, draws, uniform)

    def take(carry: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        score, is_out = carry
        at = index_of(score.size) == jax.lax.argmin(score.ravel(), 0, jnp.int32)
        there = at.reshape(score.shape) & (score < jnp.inf)
        index = jnp.max(jnp.where(there, plans.stops[REQUEST], -1.0))
        is_out |= plans.present & (plans.stops[REQUEST] == index)
        return (jnp.where(there, jnp.inf, score), is_out), index.astype(jnp.int32)

    (_, is_out), removed = jax.lax.scan(take, (score, jnp.zeros(score.shape, bool)), None, REMOVED)
    ruined = rescheduled(prepared, without(plans, is_out))
    due = jnp.take(prepared.table[:, COLUMNS["dropoff_deadline"]], jnp.maximum(removed, 0))
    turn = jnp.where(draws[4] < BY_DEADLINE, jnp.minimum(due, FAR), uniform.ravel()[:REMOVED])
    turn = jnp.where(removed >= 0, turn, jnp.inf)

    def put(number: jax.Array, carry: tuple[Plans, jax.Array, jax.Array]) -> tuple[Plans, jax.Array, jax.Array]:
        plans, is_complete, turn = carry
        is_next = (index_of(REMOVED) == jax.lax.argmin(turn, 0, jnp.int32)) & (turn < jnp.inf)
        request = prepared.request(jnp.sum(jnp.where(is_next, removed, 0)))
        request = request.replace(exists=request.exists & is_next.any())
        found = offers(prepared, plans, request)
        luck = jax.lax.dynamic_index_in_dim(uniform, number % uniform.shape[1], axis=1, keepdims=False)
        rank = jnp.where(found.feasible, found.added * (1.0 + NOISE * draws[5] * luck), jnp.inf)
        cheapest = (index_of(rank.shape[0]) == jax.lax.argmin(rank, 0, jnp.int32)) & found.feasible
        is_complete &= cheapest.any() | ~is_next.any()
        return insert(prepared, plans, found, request, cheapest), is_complete, jnp.where(is_next, jnp.inf, turn)

    recreated, is_complete, _ = jax.lax.fori_loop(0, REMOVED, put, (ruined, removed[0] >= 0, turn))
    return Planned(recreated, planned_travel(prepared, recreated)), is_complete


def _score(prepared: Prepared, plans: Plans, draws: jax.Array, uniform: jax.Array) -> jax.Array:
    """`f32[V, S]`, the least for the stops whose requests are taken out; inf where none can be.

    Of each request one stop counts, the pickup where there is one.
    """
    removable = plans.present & ((plans.stops[LOAD] > 0) | (prepared.fleet.depot is not None))
    rank = jnp.cumsum(removable.ravel()).reshape(removable.shape)
    first = removable & (rank == jnp.minimum((draws[0] * rank[-1, -1]).astype(jnp.int32) + 1, rank[-1, -1]))
    place = jnp.sum(jnp.where(first, plans.stops[:2], 0.0), axis=(-2, -1))
    time = jnp.sum(jnp.where(first, plans.start, 0.0))
    way = distance(plans.stops[:2], place[:, None, None]) * prepared.pace[:, None]
    related = jnp.where(removable, way + 0.5 * jnp.abs(plans.start - time), jnp.inf)
    nearest, index = jnp.min(related, axis=-1, keepdims=True), index_of(related.shape[-1])
    middle = jnp.min(jnp.where(related == nearest, index, index.shape[0]), axis=-1, keepdims=True)
    is_near = jnp.sum(nearest > nearest[:, 0], axis=-1, keepdims=True) < 1 + jnp.floor(draws[3] * MOST_TOURS)
    strings = jnp.where(is_near, 0.0, FAR) + jnp.abs(index - middle) + 2.0 * uniform
    return jnp.where(removable, jnp.where(draws[1] < STRINGS, strings, related * (0.5 + uniform)), jnp.inf)


def without(plans: Plans, is_out: jax.Array) -> Plans:
    """The plans without some stops (`bool[V, S]`); the others are to be rescheduled."""
    source, exists = kept_first(plans.present & ~is_out)
    stops = jnp.take_along_axis(plans.stops, source[None], axis=-1)
    start = jnp.take_along_axis(plans.start, source, axis=-1)
    return plans.replace(stops=jnp.where(exists, stops, 0.0), start=jnp.where(exists, start, jnp.inf))


def kept_first(kept: jax.Array) -> tuple[jax.Array, jax.Array]:
    """From where each position takes its value, if those that are kept (`bool[V, S]`) move together, and if any."""
    size = kept.shape[-1]
    rank = jnp.cumsum(kept, axis=-1, dtype=jnp.int32) - 1
    is_source = kept[:, None, :] & (rank[:, None, :] == index_of(size)[:, None])
    source = jnp.min(jnp.where(is_source, index_of(size), size), axis=-1)
    return jnp.minimum(source, size - 1), source < size
