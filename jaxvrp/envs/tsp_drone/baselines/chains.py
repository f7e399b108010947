"""Simulated annealing in many chains, of plans that are written as codes and may be late on their way. Pure JAX.

A chain has one plan, `i32[P]`; plans are the last axis. In a step every chain draws some changes of its plan, prices
all of them, and takes the first that is accepted. The best plans are in time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.search.annealing import Cycle, geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.side_by_side import advanced, num_threads
from jaxvrp.search.stop import Stop

CHAINS = 4
"""On a core."""

STEPS = 256
"""Steps of one call."""

HEAD_START = (0.0, 0.4)
"""How far annealing is at the beginning of a cycle, in turn: plans are forgotten, or the best ones are improved."""


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
    method: Method,
    tables: Any,
    codes: np.ndarray,
    key: jax.Array,
    stop: Stop | float,
    *,
    nodes: int,
    late_unit: float,
) -> Iterator[Annealed]:
    """Anneal a plan in time, `i32[P]`, until it is time to stop, with chains on each core; yields the best so far."""
    threads = num_threads()
    repeated = jnp.repeat(jnp.asarray(codes)[:, None], CHAINS, axis=1)
    cost, late = method.price(tables, repeated)
    parts = [Chains(repeated, cost, late, repeated, cost)] * threads
    with ThreadPoolExecutor(threads) as pool:

        def play(parts: list[Chains], key: jax.Array, progress: np.ndarray) -> list[Chains]:
            unit = min(float(part.least.min()) for part in parts) / nodes
            heats = jnp.asarray(geometric(*method.temperature, progress, unit), jnp.float32)
            fines = jnp.asarray(geometric(*method.fine, progress, unit / late_unit), jnp.float32)
            return advanced(pool, lambda part, key: advance(method, tables, part, key, heats, fines), parts, key)

        def cycles(steps: float) -> list[Cycle]:
            count = max(1, round(min(steps / (method.patience * nodes**2), steps / STEPS)))
            return [Cycle(k / count, (k + 1) / count, HEAD_START[k % len(HEAD_START)]) for k in range(count)]

        for spent, found in anytime(play, parts, key, stop, rounds=STEPS, cycles=cycles, renew=_restarted):
            best = min(found, key=lambda part: float(part.least.min()))
            yield Annealed(spent.seconds, float(best.least.min()), np.asarray(best.best[:, int(best.least.argmin())]))


def _restarted(parts: list[Chains], key: jax.Array) -> list[Chains]:
    """Chains that go on from the best half of all of them, twice each."""
    del key
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
