"""Search from any state: what vehicles have not begun is planned again, all promises kept, with less travel.

Simulated annealing: rides by ruin and recreate (`jaxvrp.envs.dispatch.baselines.rides`), with a depot by small moves
(`jaxvrp.envs.dispatch.baselines.parcels`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.baselines import parcels, rides
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.routes.plans import Plans, Prepared
from jaxvrp.envs.dispatch.routes.replan import Planned
from jaxvrp.envs.dispatch.routes.schedule import planned_travel
from jaxvrp.episodes import Episode
from jaxvrp.players import Searched
from jaxvrp.search.annealing import geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.stop import Stop

HEAT = 1.0, 0.15
"""Temperatures of the first and the last round, in mean minutes of travel to a stop; they fall by a factor."""

ROUNDS = 128
"""Rounds of one call."""


class Search(struct.PyTreeNode):
    """A search that goes on: where it is, the best plans so far, and the mean minutes to a stop (`f32[]`) of the first.

    Leaves `[B, ...]`.
    """

    prepared: Prepared
    now: Planned
    best: Planned
    mean_leg: jax.Array


@functools.partial(jax.jit, static_argnames="rounds")
def replanned(prepared: Prepared, plans: Plans, key: jax.Array, *, rounds: int) -> Planned:
    """The best plans that so many rounds find, of a batch of fleets.

    Args:
        prepared: days `[B]`, as of `State.prepared`.
        plans: of states `[B]`, as of `State.plans`; what vehicles have begun stays.
        key: typed key.
        rounds: how many; they cool down from first to last.
    """
    return advance(begin(prepared, plans), key, jnp.arange(rounds, dtype=jnp.float32) / rounds).best


@jax.jit
def begin(prepared: Prepared, plans: Plans) -> Search:
    """A search from plans `[B]`."""

    def begin_single(prepared: Prepared, plans: Plans) -> Search:
        first = Planned(plans, planned_travel(prepared, plans))
        return Search(prepared, first, first, first.total / jnp.maximum(jnp.sum(plans.num_stops), 1))

    return jax.vmap(begin_single)(prepared, plans)


@jax.jit
def advance(search: Search, key: jax.Array, progress: jax.Array) -> Search:
    """The search after rounds at so much of all, `f32[rounds]` in [0, 1]."""

    heats = geometric(*HEAT, progress[:, None]) * search.mean_leg
    play = rides.advance if search.prepared.fleet.depot is None else parcels.advance
    now, best = play(search.prepared, search.now, search.best, key, heats)
    return search.replace(now=now, best=best)


def search_moment(env: Dispatch, moment: Any, key: jax.Array, stop: Stop | float) -> Iterator[Searched]:
    """Plan a fleet again (`prepared` and `plans` of a moment); see `jaxvrp.toolbox.Search`."""
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (moment.prepared, moment.plans))

    def play(search: Search, key: jax.Array, progress: np.ndarray) -> Search:
        return advance(search, key, jnp.asarray(progress, jnp.float32))

    for spent, search in anytime(play, begin(*single), key, stop, rounds=ROUNDS):
        best = jax.tree.map(lambda leaf: leaf[0], search.best)
        yield Searched(spent.seconds, float(best.total), {}, functools.partial(_planned, env, moment, best.plans))


def _planned(env: Dispatch, moment: Any, plans: Plans) -> Episode:
    """The moment with other plans, of which nothing has been played."""
    return Episode(env, moment, moment.replace(plans=plans), None, None)
