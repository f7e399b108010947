"""Simulated annealing in many chains, of plans that are written as codes and may be late on their way. Pure JAX.

A chain has one plan, `i32[P]`; plans are the last axis. In a step every chain draws some changes of its plan, prices
all of them, and takes the first that is accepted. The best plans are in time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.io.machine import num_cores

CHAINS = 4
"""On a core."""

STEPS = 256
"""Steps of one call; the clock is read between calls."""

HEAD_START = (0.0, 0.4)
"""How far annealing is at the beginning of a cycle, in turn: plans are forgotten, or the best ones are improved."""

MOST_CORES = 8


class Method(NamedTuple):
    """How plans of one kind are annealed."""

    price: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]
    """`(tables, codes i32[P, L])` to what they cost, inf if it is no plan, and how late they are, `f32[L]` each."""
    change: Callable[[Any, jax.Array, jax.Array], jax.Array]
    """`(tables, codes i32[P, L], drawn f32[8, L])` to a change of each; `drawn` are numbers in [0, 1)."""
    tries: int
    """Changes that a chain prices at a time."""
    temperature: tuple[float, float]
    """From the beginning to the end of a cycle, geometrically, in units of the cost for each node."""
    fine: tuple[float, float]
    """For a lateness of `late_unit`, likewise."""
    patience: float
    """Steps of a cycle for each pair of nodes, if there is time for them: one cycle follows the other."""


class Chains(struct.PyTreeNode):
    """`C` plans that are annealed, and the best of each chain."""

    codes: jax.Array  # `i32[P, C]`
    cost: jax.Array  # `f32[C]`
    late: jax.Array  # `f32[C]`
    best: jax.Array  # `i32[P, C]`, in time
    least: jax.Array  # `f32[C]`, its cost


@functools.partial(jax.jit, static_argnums=0)
def advance(
    method: Method, tables: Any, chains: Chains, key: jax.Array, temperatures: jax.Array, fines: jax.Array
) -> Chains:
    """The chains after a step at each of these temperatures, and fines for a unit of lateness, `f32[steps]` each."""

    def step(chains: Chains, drawn: tuple[jax.Array, ...]) -> tuple[Chains, None]:
        key, temperature, fine = drawn
        rest, luck = jnp.split(jax.random.uniform(key, (9, chains.codes.shape[1] * method.tries), jnp.float32), [8])
        changed = method.change(tables, jnp.repeat(chains.codes, method.tries, axis=1), rest)
        return _accepted(method, tables, chains, changed, temperature * -jnp.log(luck[0]), fine), None

    return jax.lax.scan(step, chains, (jax.random.split(key, len(temperatures)), temperatures, fines))[0]


def _accepted(
    method: Method, tables: Any, chains: Chains, changed: jax.Array, margin: jax.Array, fine: jax.Array
) -> Chains:
    """The chains after the first of their changes, `i32[P, C tries]`, that costs less than before and a margin."""
    tries = method.tries
    cost, late = method.price(tables, changed)
    new = (changed.reshape(len(changed), -1, tries) != chains.codes[..., None]).any(axis=0)
    before = jnp.repeat(chains.cost + fine * chains.late, tries)
    accepted = (cost + fine * late < before + margin).reshape(-1, tries) & new
    lane = jnp.arange(0, len(margin), tries) + jax.lax.argmax(accepted, 1, jnp.int32)
    moves = accepted.any(axis=1)
    codes = jnp.where(moves, changed[:, lane], chains.codes)
    cost, late = jnp.where(moves, cost[lane], chains.cost), jnp.where(moves, late[lane], chains.late)
    better = (cost < chains.least) & (late == 0)
    best, least = jnp.where(better, codes, chains.best), jnp.where(better, cost, chains.least)
    return Chains(codes, cost, late, best, least)


class Annealed(NamedTuple):
    """The best plan so far."""

    seconds: float  # since the search began
    cost: float
    codes: np.ndarray  # `i32[P]`


def anneal(
    method: Method, tables: Any, codes: np.ndarray, key: jax.Array, seconds: float, nodes: int, late_unit: float
) -> Iterator[Annealed]:
    """Anneal a plan in time, `i32[P]`, for so long, with chains on each core; yields the best so far."""
    units = ((method.temperature, 1.0), (method.fine, late_unit))
    threads = min(num_cores(), MOST_CORES)
    repeated = jnp.repeat(jnp.asarray(codes)[:, None], CHAINS, axis=1)
    cost, late = method.price(tables, repeated)
    parts = [Chains(repeated, cost, late, repeated, cost)] * threads
    with ThreadPoolExecutor(threads) as pool:

        def advanced(key: jax.Array, progress: np.ndarray) -> list[Chains]:
            unit = min(float(part.least.min()) for part in parts) / nodes
            heats, fines = (
                jnp.asarray(unit * first / size * (last / first) ** progress, jnp.float32)
                for (first, last), size in units
            )
            keys = jax.random.split(key, threads)
            results = pool.map(lambda part, key: advance(method, tables, part, key, heats, fines), parts, keys)
            return jax.block_until_ready(list(results))

        advanced(key, np.ones(STEPS))
        start = time.monotonic()
        advanced(key, np.ones(STEPS))
        pace, now = time.monotonic() - start, 0.0
        cycles = max(1, round(seconds / (method.patience * nodes**2 * pace / STEPS)))
        cycle, start = 0, time.monotonic()
        while now < seconds:
            if now >= (cycle + 1) * seconds / cycles:
                cycle, parts = cycle + 1, _restarted(parts)
            key, step_key = jax.random.split(key)
            share = np.clip(np.linspace(now, now + pace, STEPS) / seconds * cycles - cycle, 0.0, 1.0)
            head_start = HEAD_START[cycle % len(HEAD_START)]
            parts = advanced(step_key, head_start + (1 - head_start) * share)
            before, now = now, time.monotonic() - start
            pace = now - before
            best = min(parts, key=lambda part: float(part.least.min()))
            yield Annealed(now, float(best.least.min()), np.asarray(best.best[:, int(best.least.argmin())]))


def _restarted(parts: list[Chains]) -> list[Chains]:
    """Chains that go on from the best half of all of them, twice each."""
    best = np.concatenate([np.asarray(part.best) for part in parts], axis=1)
    least = np.concatenate([np.asarray(part.least) for part in parts])
    order = np.argsort(least)[np.arange(len(least)) // 2]
    chosen = [jnp.asarray(order[number :: len(parts)]) for number in range(len(parts))]
    plans = [(jnp.asarray(best)[:, row], jnp.asarray(least)[row]) for row in chosen]
    return [Chains(codes, cost, jnp.zeros_like(cost), codes, cost) for codes, cost in plans]


def among_rest(position: jax.Array, start: jax.Array, length: jax.Array, target: jax.Array) -> jax.Array:
    """Where what stays comes from if `length` places from `start` on move to `target`, `i32[P, L]`."""
    rest = jnp.where(position < target, position, position - length)
    return jnp.where(rest < start, rest, rest + length)


def below(count: jax.Array | int, drawn: jax.Array) -> jax.Array:
    """Whole numbers from 0, `i32[L]`, from numbers in [0, 1)."""
    return jnp.minimum((drawn * count).astype(jnp.int32), count - 1)
