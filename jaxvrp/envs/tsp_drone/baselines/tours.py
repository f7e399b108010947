"""Local search over tours, for many instances at once: their length, or what their best partition costs. Pure JAX.

A round looks at all tours that differ in one move, and goes to the best: one customer to another place ("one-point"),
two change places ("two-point"), or the tour between two positions is driven backwards ("2-opt"); until none is better
(Agatz, Bouman & Schmidt 2018: TSP-ep-all, where the cost is that of the best partition).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance, as_float32
from jaxvrp.envs.tsp_drone.baselines.partition import Times, make_times, partition_cost, tour_length

LANES = 1024
"""Tours that are priced at once: what is computed of them fits into the cache."""

NOISE = 1.0
"""Most that is added to a time, as a share of it, where a tour begins as the nearest neighbour's."""

GAIN = 1e-5
"""Share of the cost that a move must save: sums are rounded."""

Price = Callable[[jax.Array, jax.Array], jax.Array]
"""`(tours i32[n + 1, L], of i32[L]) -> f32[L]`: what tours of the instances `of` cost."""


class Moves(NamedTuple):
    """The positions from which each move takes the nodes, `i32[M, n + 1]`, and the last that it changes, `i32[M]`."""

    order: np.ndarray
    last: np.ndarray


def all_moves(num_nodes: int) -> Moves:
    """Every move between positions 1 and n - 1, each once."""
    position = np.arange(num_nodes + 1)
    first, second = (index.ravel()[:, None] for index in np.mgrid[1:num_nodes, 1:num_nodes])
    low, high = np.minimum(first, second), np.maximum(first, second)
    inside = (position >= low) & (position <= high)
    step = np.where(first < second, 1, -1)
    moved = np.where(position == second, first, np.where(inside, position + step, position))
    swapped = np.where(position == first, second, np.where(position == second, first, position))
    turned = np.where(inside, low + high - position, position)
    orders = np.unique(np.concatenate([moved, swapped, turned]), axis=0)
    orders = orders[(orders != position).any(axis=1)]
    changed = np.where(orders != position, position, 0)
    return Moves(orders.astype(np.int32), changed.max(axis=1, initial=0).astype(np.int32))


def _batches(moves: Moves, instances: int) -> Moves:
    """All moves, `[K, m]`, m of every kind at once; some are there twice, to fill the last batch."""
    count, width = moves.order.shape
    at_once = max(1, min(LANES // instances, count))
    batches = -(-count // at_once)
    filled = np.arange(batches * at_once).reshape(at_once, batches).T.ravel() % count
    return Moves(moves.order[filled].reshape(-1, at_once, width), moves.last[filled].reshape(-1, at_once))


def _improve(times: Times, tours: jax.Array, price: Price, *, hasty: bool = False) -> tuple[jax.Array, jax.Array]:
    """Tours `i32[n + 1, I]` that no single move makes better, from given ones, and what they cost, `f32[I]`."""
    cost = price(tours, jnp.arange(tours.shape[1], dtype=jnp.int32))
    moves = all_moves(times.num_nodes)
    if not len(moves.order):
        return tours, cost
    batches = _batches(moves, tours.shape[1])

    def go(loop: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        tours, cost, _ = loop
        bound = cost * (1.0 - GAIN)
        look = functools.partial(_look, times, price, None if hasty else tours)
        (found, least), _ = jax.lax.scan(look, (tours, bound), batches)
        better = least < bound
        return found, jnp.where(better, least, cost), better.any()

    tours, cost, _ = jax.lax.while_loop(lambda loop: loop[2], go, (tours, cost, jnp.ones((), bool)))
    return tours, cost


def _look(
    times: Times, price: Price, tours: jax.Array | None, best: tuple[jax.Array, jax.Array], batch: Moves
) -> tuple[tuple[jax.Array, jax.Array], None]:
    """The best tours and costs after a batch of moves of `tours`, or of the best so far where these are None."""
    best_tours, least = best
    instances = jnp.arange(best_tours.shape[1], dtype=jnp.int32)
    of = jnp.broadcast_to(instances, (len(batch.last), len(instances)))
    changed = jnp.moveaxis((best_tours if tours is None else tours)[batch.order], 1, 0)
    cost = price(changed.reshape(len(best_tours), -1), of.ravel()).reshape(of.shape)
    cost = jnp.where(batch.last[:, None] <= times.customers, cost, jnp.inf)
    chosen = jax.lax.argmin(cost, 0, jnp.int32)
    tour = jnp.take_along_axis(changed, chosen[None, None], axis=1)[:, 0]
    better = cost.min(axis=0) < least
    return (jnp.where(better, tour, best_tours), jnp.minimum(cost.min(axis=0), least)), None


def truck_tours(times: Times, key: jax.Array, starts: int) -> jax.Array:
    """Short tours of the truck alone, `i32[n + 1, I]`: the best of so many local searches."""
    count, nodes = times.barred.shape
    repeated = jax.tree.map(lambda leaf: jnp.tile(leaf, (starts,) + (1,) * (leaf.ndim - 1)), times)
    tours, length = _improve(repeated, near_tours(repeated, key), functools.partial(tour_length, repeated))
    best = jax.lax.argmin(length.reshape(starts, count), 0, jnp.int32)
    return jnp.take_along_axis(tours.reshape(nodes + 1, starts, count), best[None, None], axis=1)[:, 0]


def near_tours(times: Times, key: jax.Array) -> jax.Array:
    """Tours from customer to customer that is near, `i32[n + 1, I]`: the nearest after some noise."""
    count, nodes = times.barred.shape
    truck = times.truck.reshape(count, nodes, nodes)
    truck *= 1.0 + NOISE * jax.random.uniform(key, truck.shape, jnp.float32)
    node = jnp.arange(nodes, dtype=jnp.int32)

    def go(walk: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        here, left = walk
        away = jnp.take_along_axis(truck, here[:, None, None], axis=1)[:, 0]
        nearest = jax.lax.argmin(jnp.where(left, away, jnp.inf), 1, jnp.int32)  # the depot, if no customer is left
        return (nearest, left & (node != nearest[:, None])), nearest

    all_customers = (node > 0) & (node <= times.customers[:, None])
    _, order = jax.lax.scan(go, (jnp.zeros(count, jnp.int32), all_customers), None, length=nodes - 1)
    return jnp.pad(order, [(1, 1), (0, 0)])


class Planned(NamedTuple):
    """Tours of `I` instances, `i32[n + 1, I]`, and what they cost, `f32[I]`."""

    times: Times
    tours: jax.Array
    cost: jax.Array


@functools.partial(jax.jit, static_argnames=("method", "starts", "window", "hasty"))
def plan_tours(
    instances: Instance,
    key: jax.Array,
    *,
    method: str,
    starts: int = 8,
    window: int | None = None,
    hasty: bool = False,
) -> Planned:
    """Plan a batch of instances.

    Args:
        instances: `[I]`, padded or not.
        key: typed key, of the tours from which the search starts.
        method: `"ep"`, a short tour of the truck alone with its best partition; `"ep_all"`, the local search over tours
            by what their best partition costs, from there.
        starts: searches for the truck's tour.
        window: most positions of an operation; None: all, so that partitions are exact.
        hasty: of `"ep_all"`: go on from the best of every batch of moves, not from the best of all: fewer rounds, and
            another local optimum.
    """
    times = make_times(jax.vmap(as_float32)(instances))
    window = times.num_nodes if window is None else min(window, times.num_nodes)
    of = jnp.arange(times.customers.shape[0], dtype=jnp.int32)
    tours = truck_tours(times, key, starts)

    def price(tours: jax.Array, of: jax.Array) -> jax.Array:
        return partition_cost(times, tours, of, window)[0]

    if method == "ep":
        return Planned(times, tours, price(tours, of))
    tours, cost = _improve(times, tours, price, hasty=hasty)
    return Planned(times, tours, cost)
