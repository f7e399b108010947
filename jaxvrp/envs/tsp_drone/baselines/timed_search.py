"""TSP-ep-all for as long as somebody wants to wait: from other tours each time, and the best is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.tsp_drone.baselines.planners import plan_actions
from jaxvrp.envs.tsp_drone.baselines.tours import plan_tours
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.problem.instance import Instance
from jaxvrp.toolbox import Searched

TRIES = 8
"""Searches side by side between two looks at the clock."""

WIDEST = 20
"""Most positions of an operation: partitions are exact for no more nodes than this."""


def search_episode(env: TspDrone, instance: Instance, key: jax.Array, seconds: float) -> Iterator[Searched]:
    """Plan an episode of one instance; see `jaxvrp.toolbox.Search`."""
    repeated = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[None], TRIES, axis=0), instance)

    def plan(key: jax.Array) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        planned = plan_tours(repeated, key, method="ep_all", starts=1, window=WIDEST)
        actions = plan_actions(planned.times, planned.tours, with_drone=True, window=WIDEST)
        cost, actions = jax.device_get((planned.cost, actions))
        return cost, actions

    plan(key)  # for nothing: whoever waits pays for searching alone
    start, now, best = time.monotonic(), 0.0, np.inf
    actions: dict[str, np.ndarray] = {}
    while now < seconds:
        key, plan_key = jax.random.split(key)
        cost, plans = plan(plan_key)
        if cost.min() < best:
            best, actions = cost.min(), {role: each[cost.argmin(), :, None] for role, each in plans.items()}
        now = time.monotonic() - start
        yield Searched(now, float(best), actions)
