"""A search for a given time: ruin and recreate by the clock, with restarts from the best plans."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.darp.baselines import search
from jaxvrp.envs.darp.env import ROLE, Darp
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.episodes import Episode, follow
from jaxvrp.players import Searched, SearchedAll
from jaxvrp.search.annealing import Cycle
from jaxvrp.search.loop import anytime
from jaxvrp.search.side_by_side import advanced, num_threads
from jaxvrp.search.stop import Stop

TRIES = 4
"""Chains for each instance of a batch; a single instance has one for each core, since more rounds are worth more."""

LANES = 1024  # the most chains of a batch: instances of larger batches have fewer than `TRIES` each, but at least one
ROUNDS = 16  # rounds of one call; the clock is read between calls
ROUNDS_ALONE = 128  # rounds of one call for a single instance, whose rounds are short
CYCLES = (Cycle(0.0, 0.5, 0.0), Cycle(0.5, 0.8, 0.4), Cycle(0.8, 1.0, 0.6))
"""Annealing runs, each from the best plans."""

ROUNDS_PER_REQUEST = 25
"""With fewer rounds than this for each request there is no time to anneal from the top: the search begins cooler."""

MOST_SKIPPED = 0.8
"""The largest share of annealing that is left out, however short the time: the rest is nearly descent."""


def search_for(
    instances: Instance,
    key: jax.Array,
    stop: Stop | float,
    *,
    tries: int = TRIES,
    threads: int = 1,
    rounds: int = ROUNDS,
    limits: bool = False,
    penalty: float | None = None,
) -> Iterator[SearchedAll]:
    """Search for plans until it is time to stop; yields the best ones so far every few rounds.

    Args:
        instances, key, limits, penalty: as in `search.ruin_and_recreate`.
        stop: when; a number: after so many seconds. Programs are compiled before.
        tries: chains of each instance in each thread.
        threads: each has chains of its own, and all go on from the best plans of all.
        rounds: of one call, between which the clock is read.
    """
    begin_key, key = jax.random.split(key)
    parts = [
        search.begin(instances, each, tries=tries, limits=limits, penalty=penalty)
        for each in jax.random.split(begin_key, threads)
    ]
    # Compiled before the clock starts.
    jax.block_until_ready(search.restart(parts, tries))
    _found(parts, 0.0, tries)
    with ThreadPoolExecutor(threads) as pool:

        def advance(parts: list[search.Search], key: jax.Array, progress: np.ndarray) -> list[search.Search]:
            heats = search.heats(jnp.asarray(progress, jnp.float32))
            return advanced(pool, lambda part, key: search.advance(part, key, heats), parts, key)

        def renew(parts: list[search.Search], key: jax.Array) -> list[search.Search]:
            del key
            return search.restart(parts, tries)

        cycles = functools.partial(cycles_of, requests=len(parts[0].lanes.exists))
        for spent, found in anytime(advance, parts, key, stop, rounds=rounds, cycles=cycles, renew=renew):
            yield _found(found, spent.seconds, tries)


def cycles_of(rounds: float, requests: int) -> list[Cycle]:
    """`CYCLES`, of which some of annealing is left out where so many rounds are all there is time for."""
    skipped = float(np.clip(1 - rounds / (ROUNDS_PER_REQUEST * requests), 0.0, MOST_SKIPPED))
    return [cycle._replace(first=max(cycle.first, skipped)) for cycle in CYCLES]


def _found(parts: Sequence[search.Search], seconds: float, tries: int) -> SearchedAll:
    """The best plan of each instance in all threads."""
    found = jax.device_get([search.best_plans(part) for part in parts])
    actions = np.concatenate([actions.reshape(-1, tries, actions.shape[-1]) for actions, _ in found], axis=1)
    cost = np.concatenate([cost.reshape(-1, tries) for _, cost in found], axis=1)
    best = cost.argmin(axis=1)
    instance = np.arange(len(best))
    return SearchedAll(seconds, cost[instance, best], {ROLE: actions[instance, best][..., None]})


def search_episode(env: Darp, instance: Instance, key: jax.Array, stop: Stop | float) -> Iterator[Searched]:
    """Plan an episode of one instance, a chain for each core; see `jaxvrp.toolbox.Search`."""
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], instance)
    for found in search_for(
        single,
        key,
        stop,
        tries=1,
        threads=num_threads(),
        rounds=ROUNDS_ALONE,
        limits=env.limits,
        penalty=float(env.penalty_unvisited),
    ):
        actions = found.actions[ROLE][0]
        episode = functools.partial(driven, env, instance, actions)
        yield Searched(found.seconds, float(found.cost[0]), {ROLE: actions}, episode)


def search_all(env: Darp, instances: Instance, key: jax.Array, stop: Stop | float) -> Iterator[SearchedAll]:
    """Plan an episode of each instance of a batch `[B]`; see `jaxvrp.toolbox.SearchAll`."""
    tries = int(np.clip(LANES // len(instances.demand), 1, TRIES))
    for found in search_for(instances, key, stop, tries=tries, limits=env.limits, penalty=float(env.penalty_unvisited)):

        def episode(row: int, plans: np.ndarray = found.actions[ROLE]) -> Episode:
            return driven(env, jax.tree.map(lambda leaf: leaf[row], instances), plans[row])

        yield found._replace(episode=episode)


def driven(env: Darp, instance: Instance, plan: np.ndarray) -> Episode:
    """The episode of a plan, `i32[N+V, 1]`, as it is: a vehicle may stay at the depot, which the mask forbids while it
    could pick somebody up, even if that passenger could not be brought home in time.

    The plan has a 0 for each padded vehicle, too; agents play none.
    """
    nodes, capacity = plan[:, 0], np.asarray(instance.capacity)
    vehicle = np.minimum(np.cumsum(nodes == 0) - (nodes == 0), len(capacity) - 1)
    played = nodes[(nodes > 0) | (capacity[vehicle] > 0)]
    actions = np.pad(played, (0, len(nodes) - len(played)))[:, None]
    return follow(env, instance, {ROLE: actions}, by_mask=False)
