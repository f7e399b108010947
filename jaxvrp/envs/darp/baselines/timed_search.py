"""A search for as long as somebody wants to wait: ruin and recreate by the clock, with restarts from the best plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.darp.baselines import search
from jaxvrp.envs.darp.env import ROLE, Darp
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.toolbox import Searched, SearchedAll

TRIES = 16
"""Chains of an instance: they share every instruction, and too few leave the machine's width unused."""

LANES = 1024
"""Chains of all instances together, if there are many: then one instance has fewer than `TRIES`, but at least one."""

ROUNDS = 16
"""Of one call: the clock is read between calls."""

CYCLES = ((0.0, 0.0), (0.5, 0.4), (0.8, 0.6))
"""Annealing begins anew after these shares of the time, from the best plans, as if this share of it had passed."""


ROUNDS_PER_REQUEST = 25
"""With fewer rounds than this for each request there is no time to anneal from the top: the search begins cooler."""

MOST_SKIPPED = 0.8
"""Of annealing, where there is next to no time: what is left is nearly descent."""


class Found(NamedTuple):
    """What a search has found so far.

    Attributes:
        seconds: since it began, without compilation.
        actions: `i32[B, N+V]`, as `search.best_plans`.
        cost: `f32[B]`.
    """

    seconds: float
    actions: np.ndarray
    cost: np.ndarray


def search_for(
    instances: Instance,
    key: jax.Array,
    seconds: float,
    *,
    tries: int = TRIES,
    limits: bool = False,
    penalty: float = 100.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Found]:
    """Search for plans for so long; yields the best ones so far every few rounds, and the last when time is up.

    Args:
        instances: a batch `[B]`, padded or not.
        key: typed key.
        seconds: of searching; programs are compiled before.
        tries: chains of each instance.
        limits, penalty: as in `search.ruin_and_recreate`.
        clock: seconds from any point on.
    """
    repeated = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), tries, axis=0), instances)
    begin_key, key = jax.random.split(key)
    current = search.begin(repeated, begin_key, limits=limits, penalty=penalty)
    # For nothing: whoever waits pays for searching alone. Once more, to see how many rounds there will be.
    no_heat = jnp.zeros(ROUNDS)
    jax.block_until_ready((search.advance(current, key, no_heat), search.restart(current, tries)))
    start = clock()
    jax.block_until_ready(search.advance(current, key, no_heat))
    pace = clock() - start
    skipped = share_skipped(seconds / max(pace, 1e-9) * ROUNDS, current.lanes.exists.shape[0])
    start, now, cycle = clock(), 0.0, 0
    while now < seconds:
        if cycle + 1 < len(CYCLES) and now >= CYCLES[cycle + 1][0] * seconds:
            cycle += 1
            current = search.restart(current, tries)
        key, round_key = jax.random.split(key)
        first, last = (progress_of(when / seconds, cycle, skipped) for when in (now, now + pace))
        progress = np.linspace(first, last, ROUNDS)
        current = jax.block_until_ready(search.advance(current, round_key, search.heats(jnp.float32(progress))))
        before, now = now, clock() - start
        pace = now - before
        yield _found(current, now, tries)


def share_skipped(rounds: float, requests: int) -> float:
    """How much of annealing is left out, where so many rounds are all there is time for."""
    return float(np.clip(1 - rounds / (ROUNDS_PER_REQUEST * requests), 0.0, MOST_SKIPPED))


def progress_of(share: float, cycle: int, skipped: float) -> float:
    """How far annealing is when this share of the time has passed, in [0, 1], if so much of it is left out."""
    begin, head_start = CYCLES[cycle]
    head_start = max(head_start, skipped)
    end = CYCLES[cycle + 1][0] if cycle + 1 < len(CYCLES) else 1.0
    return head_start + (1 - head_start) * min(1.0, (share - begin) / (end - begin))


def _found(current: search.Search, seconds: float, tries: int) -> Found:
    actions, cost = jax.device_get(search.best_plans(current))
    cost = cost.reshape(-1, tries)
    best = cost.argmin(axis=1)
    instance = np.arange(len(best))
    return Found(seconds, actions.reshape(len(best), tries, -1)[instance, best], cost[instance, best])


def search_episode(env: Darp, instance: Instance, key: jax.Array, seconds: float) -> Iterator[Searched]:
    """Plan an episode of one instance; see `jaxvrp.toolbox.Search`."""
    penalty = float(env.penalty_unvisited)
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], instance)
    for found in search_for(single, key, seconds, limits=env.limits, penalty=penalty):
        yield Searched(found.seconds, float(found.cost[0]), {ROLE: found.actions[0][:, None]})


def search_all(env: Darp, instances: Instance, key: jax.Array, seconds: float) -> Iterator[SearchedAll]:
    """Plan an episode of each instance of a batch `[B]`; see `jaxvrp.toolbox.SearchAll`."""
    tries = int(np.clip(LANES // len(instances.demand), 1, TRIES))
    penalty = float(env.penalty_unvisited)
    for found in search_for(instances, key, seconds, tries=tries, limits=env.limits, penalty=penalty):
        yield SearchedAll(found.seconds, found.cost, {ROLE: found.actions[..., None]})
