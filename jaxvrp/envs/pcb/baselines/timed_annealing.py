"""Annealing for as long as somebody wants to wait, and random placements; placements as episodes of one step."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
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
from jaxvrp.envs.pcb.rules import State
from jaxvrp.toolbox import Searched

RESTARTS = 32

BLOCKS = 8
"""Of moves in one call: the clock is read between calls."""

CYCLES = (0.0, 0.15, 1.0)
"""After these shares of the time an annealing begins, or the last one ends: a hasty one, so that there is a placement
early, then a slow one."""


def anneal_episode(
    env: Pcb,
    instance: Instance,
    key: jax.Array,
    seconds: float,
    *,
    restarts: int = RESTARTS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Searched]:
    """Place the parts of one board; see `jaxvrp.toolbox.Search`. Programs are compiled before the clock starts.

    Args:
        env, instance: whose board it is.
        key: typed key.
        seconds: of annealing.
        restarts: side by side.
        clock: seconds from any point on.
    """
    board = as_float32(instance.board)
    play = jax.jit(functools.partial(advance, board, widths=net_widths(board)))
    start = jax.jit(functools.partial(begin, board, num_restarts=restarts))
    annealing = start(key)
    jax.block_until_ready(play(annealing, jax.random.split(key, BLOCKS), jnp.zeros(BLOCKS)))
    begun, now, pace = clock(), 0.0, 0.0
    for since, until in itertools.pairwise(CYCLES):
        key, start_key = jax.random.split(key)
        annealing = start(start_key).replace(best=annealing.best)
        while now < until * seconds:
            key, block_key = jax.random.split(key)
            progress = (np.linspace(now, now + pace, BLOCKS) / seconds - since) / (until - since)
            shares = jnp.float32(np.clip(progress, 0.0, 1.0))
            annealing = jax.block_until_ready(play(annealing, jax.random.split(block_key, BLOCKS), shares))
            before, now = now, clock() - begun
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
    row = int(np.asarray(found.hpwl).argmin())
    states = functools.partial(
        placed_states, env, instance, np.asarray(found.position)[row], np.asarray(found.orientation)[row]
    )
    return Searched(seconds, float(np.asarray(found.hpwl)[row]), {}, states)


def placed_states(env: Pcb, instance: Instance, position: jax.Array, orientation: jax.Array) -> State:
    """An episode of one step, `[2, ...]` on the host: the start, and the parts where somebody has put them.

    Args:
        env, instance: whose board it is.
        position: `f32[N, 2]`, centres in mm.
        orientation: `i32[N]`, quarter turns.
    """
    return jax.device_get(_place(env, instance, position, orientation))


@jax.jit
def _place(env: Pcb, instance: Instance, position: jax.Array, orientation: jax.Array) -> Any:
    start = env.init_state(instance)
    is_agent = instance.wiring.is_agent
    placed = start.replace(position=position, orientation=orientation)
    measures, _ = measure_agents(instance, position, orientation, env.rays)
    placed = rules.record_turns(placed, is_agent, measures, jnp.zeros_like(is_agent), clamp=True)
    return jax.tree.map(lambda first, last: jnp.stack([first, last]), start, rules.settle(placed))
