"""A search for a given time: ruin and recreate by the clock, with restarts from the best plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.darp.baselines import search
from jaxvrp.envs.darp.env import ROLE, Darp
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.io.machine import num_cores
from jaxvrp.toolbox import Searched, SearchedAll

TRIES = 4
"""Chains for each instance of a batch; a single instance has one for each core, since more rounds are worth more."""

LANES = 1024  # the most chains of a batch: instances of larger batches have fewer than `TRIES` each, but at least one
MOST_CORES = 8  # the most cores that a search uses: the best of more chains is hardly better
ROUNDS = 16  # rounds of one call; the clock is read between calls
ROUNDS_ALONE = 128  # rounds of one call for a single instance, whose rounds are short
CYCLES = ((0.0, 0.5, 0.0), (0.5, 0.8, 0.4), (0.8, 1.0, 0.6))
"""Annealing runs from one share of the time to the next, each time from the best plans, with this head start."""

ROUNDS_PER_REQUEST = 25
"""With fewer rounds than this for each request there is no time to anneal from the top: the search begins cooler."""

MOST_SKIPPED = 0.8
"""The largest share of annealing that is left out, however short the time: the rest is nearly descent."""


def search_for(
    instances: Instance,
    key: jax.Array,
    seconds: float,
    *,
    tries: int = TRIES,
    threads: int = 1,
    rounds: int | None = None,
    limits: bool = False,
    penalty: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[SearchedAll]:
    """Search for plans for so long; yields the best ones so far every few rounds, and the last when time is up.

    Args:
        instances, key, limits, penalty: as in `search.ruin_and_recreate`.
        seconds: of searching; programs are compiled before.
        tries: chains of each instance in each thread.
        threads: each has chains of its own, and all go on from the best plans of all.
        rounds: of one call, between which the clock is read; None: `ROUNDS`.
        clock: seconds from any point on.
    """
    rounds = ROUNDS if rounds is None else rounds
    begin_key, key = jax.random.split(key)
    parts = [
        search.begin(instances, each, tries=tries, limits=limits, penalty=penalty)
        for each in jax.random.split(begin_key, threads)
    ]
    with ThreadPoolExecutor(threads) as pool:

        def advanced(key: jax.Array, progress: np.ndarray) -> list[search.Search]:
            """All parts after a round for each entry of `progress`, a thread for each part."""
            heats, keys = search.heats(jnp.asarray(progress, jnp.float32)), jax.random.split(key, threads)
            results = pool.map(lambda part, key: search.advance(part, key, heats), parts, keys)
            return jax.block_until_ready(list(results))

        # All programs are compiled before the clock starts.
        jax.block_until_ready(
            (search.advance(parts[0], key, jnp.zeros(rounds, jnp.float32)), search.restart(parts, tries))
        )
        _found(parts, 0.0, tries)
        start = clock()
        advanced(key, np.zeros(rounds))
        pace = clock() - start
        skipped = share_skipped(seconds / max(pace, 1e-9) * rounds, len(parts[0].lanes.exists))
        start, now, cycle = clock(), 0.0, 0
        while now < seconds:
            if now >= CYCLES[cycle][1] * seconds:
                cycle += 1
                parts = search.restart(parts, tries)
            key, round_key = jax.random.split(key)
            first, last = (progress_of(when / seconds, cycle, skipped) for when in (now, now + pace))
            parts = advanced(round_key, np.linspace(first, last, rounds))
            before, now = now, clock() - start
            pace = now - before
            yield _found(parts, now, tries)


def share_skipped(rounds: float, requests: int) -> float:
    """How much of annealing is left out, where so many rounds are all there is time for."""
    return float(np.clip(1 - rounds / (ROUNDS_PER_REQUEST * requests), 0.0, MOST_SKIPPED))


def progress_of(share: float, cycle: int, skipped: float) -> float:
    """How far annealing is when this share of the time has passed, in [0, 1], if so much of it is left out."""
    begin, end, head_start = CYCLES[cycle]
    head_start = max(head_start, skipped)
    return head_start + (1 - head_start) * min(1.0, (share - begin) / (end - begin))


def _found(parts: Sequence[search.Search], seconds: float, tries: int) -> SearchedAll:
    """The best plan of each instance in all threads."""
    found = jax.device_get([search.best_plans(part) for part in parts])
    actions = np.concatenate([actions.reshape(-1, tries, actions.shape[-1]) for actions, _ in found], axis=1)
    cost = np.concatenate([cost.reshape(-1, tries) for _, cost in found], axis=1)
    best = cost.argmin(axis=1)
    instance = np.arange(len(best))
    return SearchedAll(seconds, cost[instance, best], {ROLE: actions[instance, best][..., None]})


def search_episode(env: Darp, instance: Instance, key: jax.Array, seconds: float) -> Iterator[Searched]:
    """Plan an episode of one instance, a chain for each core; see `jaxvrp.toolbox.Search`."""
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], instance)
    threads = min(num_cores(), MOST_CORES)
    how: dict[str, Any] = {"tries": 1, "threads": threads, "rounds": ROUNDS_ALONE, "limits": env.limits}
    for found in search_for(single, key, seconds, penalty=float(env.penalty_unvisited), **how):
        yield Searched(found.seconds, float(found.cost[0]), {ROLE: found.actions[ROLE][0]})


def search_all(env: Darp, instances: Instance, key: jax.Array, seconds: float) -> Iterator[SearchedAll]:
    """Plan an episode of each instance of a batch `[B]`; see `jaxvrp.toolbox.SearchAll`."""
    tries = int(np.clip(LANES // len(instances.demand), 1, TRIES))
    return search_for(instances, key, seconds, tries=tries, limits=env.limits, penalty=float(env.penalty_unvisited))
