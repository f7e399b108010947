"""What looks for a plan within so many seconds: baselines and planners, which play once, and policies, which sample."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jaxvrp import Environment, registry
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.players import Searched
from train.commands.instance_file import best_episode, episodes_of

Method = Callable[[jax.Array, float], Iterator[Searched]]
"""Looks for a plan, with a typed key, for so many seconds, and yields its best now and then."""

MakeActor = Callable[[Any], Actor]
"""See `jaxvrp.Players.baselines`."""

LOTS = (64, 16, 4, 1)
"""Sampled episodes of a policy between two looks at the clock: the most for which time is left."""

KEPT = 64
"""Baselines and planners whose programs are kept for the next problem."""


def methods_of(env: Environment, instance: Any) -> dict[str, Method]:
    """Searches, planners and baselines of an environment, by name."""
    players = registry.players_of(env)
    planners = {name: make for name, make in players.planners.items() if name not in players.searches}
    makers: dict[str, MakeActor] = {**planners, **players.baselines, "random": RandomActor}
    searches = {name: functools.partial(search, env, instance) for name, search in players.searches.items()}
    once = {name: functools.partial(play_once, env, instance, shared_program(make)) for name, make in makers.items()}
    return {**searches, **once}


def play_once(env: Environment, instance: Any, program: Any, key: jax.Array, seconds: float) -> Iterator[Searched]:
    """One episode, by a program of `episode_program`; a `Method` of what comes first."""
    del seconds
    yield timed(program, env, instance, key)


def sample_policy(
    env: Environment, instance: Any, deterministic: Actor, sampling: Actor, key: jax.Array, seconds: float
) -> Iterator[Searched]:
    """What a policy holds for best, then the best of as many samples as there is time for; likewise."""
    best = timed(episode_program(lambda env: deterministic, tries=1), env, instance, key)
    yield best
    programs = {tries: episode_program(lambda env: sampling, tries=tries) for tries in LOTS}
    now = of_each = best.seconds
    while now < seconds:
        tries = next((each for each in LOTS if episodes_of(each) * of_each <= seconds - now), LOTS[-1])
        key, sample_key = jax.random.split(key)
        found = timed(programs[tries], env, instance, sample_key)
        of_each = found.seconds / episodes_of(tries)
        now += found.seconds
        best = (found if found.cost < best.cost else best)._replace(seconds=now)
        yield best


def episode_program(make: MakeActor, *, tries: int) -> Any:
    """A jitted program `(env, instance, key) -> (actions, cost, metrics)`: the best of several episodes of an actor."""

    def play(env: Environment, instance: Any, key: jax.Array) -> tuple[dict[str, jax.Array], jax.Array, Any]:
        cost = registry.players_of(env).cost
        episode, totals = best_episode(env, make(env), instance, key, tries=tries, cost=cost)
        return episode.actions, totals["cost"], jax.tree.map(lambda leaf: leaf[-1], episode.timesteps.metrics)

    return jax.jit(play)


@functools.lru_cache(maxsize=KEPT)
def shared_program(make: MakeActor) -> Any:
    """One episode by the actor that `make` makes; of all problems of one size, so that these compile it once."""
    return episode_program(make, tries=1)


def timed(program: Any, env: Environment, instance: Any, key: jax.Array) -> Searched:
    """What a program of `episode_program` finds, and how long it takes, without compilation."""
    compiled = program.lower(env, instance, key).compile()  # at once, where it has been compiled
    start = time.monotonic()
    actions, cost, figures = jax.device_get(compiled(env, instance, key))
    return Searched(time.monotonic() - start, float(cost.sum(dtype=np.float64)), actions, figures=figures)
