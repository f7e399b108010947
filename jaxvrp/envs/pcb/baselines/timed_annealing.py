"""Searches that place parts within a time: annealing by the clock, and a random placement."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.pcb import rules
from jaxvrp.envs.pcb.baselines.annealing import BestPlacements, advance, begin, net_widths
from jaxvrp.envs.pcb.baselines.random_placement import random_legal
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.observation import measure_agents
from jaxvrp.envs.pcb.problem.board import as_float32
from jaxvrp.envs.pcb.problem.instance import Instance
from jaxvrp.toolbox import Searched

RESTARTS = 32

BLOCKS = 8
"""Of moves in one call: the clock is read between calls."""

CYCLES = (0.0, 0.15, 1.0)
"""After these shares of the time an annealing begins, or the last one ends: a hasty one, so that there is a placement
early, then a slow one."""


def anneal_episode(env: Pcb, instance: Instance, key: jax.Array, seconds: float) -> Iterator[Searched]:
    """Place the parts of one board; see `jaxvrp.toolbox.Search`. Programs are compiled before the clock starts."""
    board = as_float32(instance.board)
    play = jax.jit(functools.partial(advance, board, widths=net_widths(board)))
    start = jax.jit(functools.partial(begin, board, num_restarts=RESTARTS))
    annealing = start(key)
    jax.block_until_ready(play(annealing, jax.random.split(key, BLOCKS), jnp.zeros(BLOCKS)))
    begun, now, pace = time.monotonic(), 0.0, 0.0
    for since, until in itertools.pairwise(CYCLES):
        key, start_key = jax.random.split(key)
        annealing = start(start_key).replace(best=annealing.best)
        while now < until * seconds:
            key, block_key = jax.random.split(key)
            progress = (np.linspace(now, now + pace, BLOCKS) / seconds - since) / (until - since)
            shares = jnp.float32(np.clip(progress, 0.0, 1.0))
            annealing = jax.block_until_ready(play(annealing, jax.random.split(block_key, BLOCKS), shares))
            before, now = now, time.monotonic() - begun
            pace = now - before
            yield _searched(env, instance, annealing.best, now)


def place_randomly(env: Pcb, instance: Instance, key: jax.Array, seconds: float) -> Iterator[Searched]:
    """A random placement without overlap, if one is found; see `jaxvrp.toolbox.Search`."""
    del seconds
    board = as_float32(instance.board)

    def place(key: jax.Array) -> BestPlacements:
        position, orientation, legal = random_legal(board, key)
        hpwl = jnp.where(legal, measure_board(board, position, orientation).hpwl, jnp.inf)
        return jax.tree.map(lambda leaf: leaf[None], BestPlacements(position, orientation, hpwl, legal))

    program = jax.jit(place).lower(key).compile()
    begun = time.monotonic()
    placed = jax.block_until_ready(program(key))
    yield _searched(env, instance, placed, time.monotonic() - begun)


def _searched(env: Pcb, instance: Instance, found: BestPlacements, seconds: float) -> Searched:
    """The best restart; its states are an episode of one step, `[2, ...]`: the start, and the parts in their places."""
    best = jax.tree.map(lambda leaf: np.asarray(leaf)[np.asarray(found.hpwl).argmin()], found)
    states = functools.partial(_placed_states, env, instance, best.position, best.orientation)
    return Searched(seconds, float(best.hpwl), {}, lambda: jax.device_get(states()))


@jax.jit
def _placed_states(env: Pcb, instance: Instance, position: jax.Array, orientation: jax.Array) -> Any:
    start, is_agent = env.init_state(instance), instance.wiring.is_agent
    placed = start.replace(position=position, orientation=orientation)
    measures, _ = measure_agents(*placed.placement, env.rays)
    placed = rules.record_turns(placed, is_agent, measures, jnp.zeros_like(is_agent), clamp=True)
    return jax.tree.map(lambda first, last: jnp.stack([first, last]), start, rules.settle(placed))
