"""Simulated annealing in many chains, of plans that are written as codes and may be late on their way. Pure JAX.

A chain has one plan, `i32[P]`; plans are the last axis. In a step every chain draws some changes of its plan, prices
all of them, and takes one that is accepted, see `Method.takes_best`. The best plans are in time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.search.annealing import Cycle, geometric
from jaxvrp.search.loop import WHOLE, anytime
from jaxvrp.search.side_by_side import advanced, num_threads
from jaxvrp.search.stop import Stop

CHAINS = 4
"""Chains on each core."""

STEPS = 256
"""Steps of one call."""

MOST_CYCLES = 1000
"""Cycles of a search at most; a longer search has longer cycles."""

HEAD_START = (0.0, 0.4)
"""How far annealing is at the beginning of a cycle, in turn: plans are forgotten, or the best ones are improved."""


class Method(NamedTuple):
    """How plans of one kind are annealed."""

    price: Callable[..., tuple[jax.Array, ...]]
    """`(tables, codes i32[P, L])` to what they cost, inf if it is no plan, and how late they are, `f32[L]` each; and
    what changes read beside the codes, `[P, L]` each."""
    change: Callable[..., jax.Array]
    """`(tables, codes i32[P, L], drawn f32[dice, L], *what price found beside)` to a change of each."""
    tries: int
    """Changes that a chain prices at a time."""
    temperature: tuple[float, float]
    """From the beginning to the end of a cycle, geometrically, in units of the cost for each node."""
    fine: tuple[float, float] = (1.0, 1.0)
    """The fine for a lateness of `late_unit`, likewise: from the beginning to the end of a cycle."""
    patience: float | None = None
    """Steps of a cycle for each pair of nodes, if there is time for them: one cycle follows the other. None: one."""
    dice: int = 8
    """Numbers in [0, 1) that a change is drawn by."""
    is_ahead: bool = False
    """Whether changes are made a step before they are priced: what one turn of a loop hands to the next is stored,
    where otherwise every reader would compute it once more."""
    takes_best: bool = False
    """Whether a chain takes the change that is furthest below its limit, not the first below it: where many changes
    cost nothing, one of those is nearly always the first."""


class Chains(struct.PyTreeNode):
    """`C` plans that are annealed, and the best of each chain."""

    codes: jax.Array  # `i32[P, C]`
    cost: jax.Array  # `f32[C]`
    late: jax.Array  # `f32[C]`
    best: jax.Array  # `i32[P, C]`, in time
    least: jax.Array  # `f32[C]`, its cost
    beside: tuple[jax.Array, ...] = ()  # `[P, C]`, what changes read beside the codes
    ahead: jax.Array | None = None  # `i32[P, C tries]`, changes to be priced, those of a chain side by side


@functools.partial(jax.jit, static_argnums=0)
def begin(method: Method, tables: Any, codes: jax.Array) -> Chains:
    """Chains at these plans, `i32[P, C]`."""
    cost, late, *beside = method.price(tables, codes)
    ahead = jnp.repeat(codes, method.tries, axis=1) if method.is_ahead else None
    return Chains(codes, cost, late, codes, jnp.where(late > 0, jnp.inf, cost), tuple(beside), ahead)


@functools.partial(jax.jit, static_argnums=0)
def advance(
    method: Method, tables: Any, chains: Chains, key: jax.Array, temperatures: jax.Array, fines: jax.Array
) -> Chains:
    """The chains after a step at each of these temperatures, and fines for a unit of lateness, `f32[steps]` each."""

    def changed(chains: Chains, drawn: jax.Array) -> jax.Array:
        codes, *beside = (jnp.repeat(leaf, method.tries, axis=1) for leaf in (chains.codes, *chains.beside))
        return method.change(tables, codes, drawn, *beside)

    def step(chains: Chains, drawn: tuple[jax.Array, ...]) -> tuple[Chains, None]:
        key, temperature, fine = drawn
        shape = method.dice + 1, chains.codes.shape[1] * method.tries
        rest, luck = jnp.split(jax.random.uniform(key, shape, jnp.float32), [method.dice])
        changes = changed(chains, rest) if chains.ahead is None else chains.ahead
        chains = _accepted(method, tables, chains, changes, temperature * -jnp.log(luck[0]), fine)
        return chains if chains.ahead is None else chains.replace(ahead=changed(chains, rest)), None

    return jax.lax.scan(step, chains, (jax.random.split(key, len(temperatures)), temperatures, fines))[0]


def _accepted(
    method: Method, tables: Any, chains: Chains, changed: jax.Array, margin: jax.Array, fine: jax.Array
) -> Chains:
    """The chains after one of their changes, `i32[P, C tries]`, that costs less than before and a margin: the limit."""
    tries = method.tries
    cost, late, *beside = method.price(tables, changed)
    new = (changed.reshape(len(changed), -1, tries) != chains.codes[..., None]).any(axis=0)
    before = jnp.repeat(chains.cost + fine * chains.late, tries)
    fined, limit = cost + fine * late, before + margin
    accepted = (fined < limit).reshape(-1, tries) & new
    rank = jnp.where(accepted, (limit - fined).reshape(-1, tries), 0.0) if method.takes_best else accepted
    lane = jnp.arange(0, len(margin), tries) + jax.lax.argmax(rank, 1, jnp.int32)
    moves = accepted.any(axis=1)
    leaves = (changed, chains.codes), (cost, chains.cost), (late, chains.late), *zip(beside, chains.beside, strict=True)
    codes, cost, late, *beside = (jnp.where(moves, after[..., lane], before) for after, before in leaves)
    better = (cost < chains.least) & (late == 0)
    best, least = jnp.where(better, codes, chains.best), jnp.where(better, cost, chains.least)
    return Chains(codes, cost, late, best, least, tuple(beside), chains.ahead)


class Annealed(NamedTuple):
    """The best plan so far."""

    seconds: float  # since the search began
    cost: float
    codes: np.ndarray  # `i32[P]`


def anneal_from(
    method: Method, tables: Any, codes: np.ndarray, key: jax.Array, stop: Stop | float, **how: Any
) -> Iterator[Annealed]:
    """As `anneal`, with chains on each core that begin at a plan in time, `i32[P]`."""
    chains = begin(method, tables, jnp.repeat(jnp.asarray(codes)[:, None], CHAINS, axis=1))
    return anneal(method, tables, [chains] * num_threads(), key, stop, **how)


def anneal(
    method: Method,
    tables: Any,
    parts: Sequence[Chains],
    key: jax.Array,
    stop: Stop | float,
    *,
    nodes: int,
    late_unit: float = 1.0,
) -> Iterator[Annealed]:
    """Anneal until it is time to stop, each part in a thread of its own; yields the best plan so far."""
    with ThreadPoolExecutor(len(parts)) as pool:

        def play(parts: Sequence[Chains], key: jax.Array, progress: np.ndarray) -> list[Chains]:
            unit = min(float(part.least.min()) for part in parts) / nodes
            heats = jnp.asarray(geometric(*method.temperature, progress, unit), jnp.float32)
            fines = jnp.asarray(geometric(*method.fine, progress, unit / late_unit), jnp.float32)
            return advanced(pool, lambda part, key: advance(method, tables, part, key, heats, fines), parts, key)

        cycles = functools.partial(cycles_of, method.patience * nodes**2) if method.patience else WHOLE
        for spent, found in anytime(play, parts, key, stop, rounds=STEPS, cycles=cycles, renew=_restarted):
            yield Annealed(spent.seconds, *best_of(found))


def best_of(parts: Sequence[Chains]) -> tuple[float, np.ndarray]:
    """The least cost, and its plan, `i32[P]`."""
    best = min(parts, key=lambda part: float(part.least.min()))
    return float(best.least.min()), np.asarray(best.best[:, int(best.least.argmin())])


def cycles_of(length: float, steps: float) -> list[Cycle]:
    """Cycles of about so many steps, where there are so many steps in all."""
    count = max(1, round(min(steps / length, steps / STEPS, MOST_CYCLES)))
    return [Cycle(k / count, (k + 1) / count, HEAD_START[k % len(HEAD_START)]) for k in range(count)]


def _restarted(parts: Sequence[Chains], key: jax.Array) -> list[Chains]:
    """Chains that go on from the best half of all of them, twice each."""
    del key
    best = np.concatenate([np.asarray(part.best) for part in parts], axis=1)
    least = np.concatenate([np.asarray(part.least) for part in parts])
    order = np.argsort(least)[np.arange(len(least)) // 2]
    chosen = [jnp.asarray(order[number :: len(parts)]) for number in range(len(parts))]
    plans = [(jnp.asarray(best)[:, row], jnp.asarray(least)[row]) for row in chosen]
    return [Chains(codes, cost, jnp.zeros_like(cost), codes, cost) for codes, cost in plans]


def nearest_of(ways: jax.Array, most: int) -> jax.Array:
    """`i32[n, K]`, the other nodes that are nearest to each, by all ways between nodes, `f32[n, n]`; `most` at most."""
    others = jnp.where(jnp.eye(len(ways), dtype=bool), jnp.inf, ways)
    return jax.lax.top_k(-others, min(most, max(len(ways) - 1, 1)))[1]


def kind_by(shares: Sequence[float], drawn: jax.Array) -> jax.Array:
    """Kinds of changes, `i32[L]`, each drawn as often as its share, from numbers in [0, 1)."""
    return (drawn >= np.cumsum(shares[:-1], dtype=np.float32)[:, None]).sum(axis=0, dtype=jnp.int32)


def among_rest(position: jax.Array, start: jax.Array, length: jax.Array, target: jax.Array) -> jax.Array:
    """Where what stays comes from if `length` places from `start` on move to `target`, `i32[P, L]`."""
    rest = jnp.where(position < target, position, position - length)
    return jnp.where(rest < start, rest, rest + length)


def code_at(codes: jax.Array, place: jax.Array) -> jax.Array:
    """The code at a place of each chain, `i32[L]` of `i32[P, L]` by `i32[L]`."""
    return jnp.take_along_axis(codes, place[None], axis=0, mode="promise_in_bounds")[0]


def below(count: jax.Array | int, drawn: jax.Array) -> jax.Array:
    """Whole numbers from 0, `i32[L]`, from numbers in [0, 1)."""
    return jnp.minimum((drawn * count).astype(jnp.int32), count - 1)
