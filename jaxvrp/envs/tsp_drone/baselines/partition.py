"""The exact partition of a tour into operations (Agatz, Bouman & Schmidt 2018), for many tours at once. Pure JAX.

The customers keep the order of the tour; an operation goes from one of its positions to a later one, and the drone
serves one customer between, the truck the others. The cheapest sequence of operations follows by dynamic programming
over positions.

A tour is `i32[P]`, P > n: the depot, all customers that exist, and the depot to the end. A node that stands in a tour
again is a revisit: an operation with the drone ends there, and no operation passes it. So a tour can say that truck and
drone meet at any served node, also where the drone left the truck (a loop). All arrays have the tours as their last
axis, `L`: positions are few and uneven, and so every loop runs over tours, at the machine's full width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.legs import drone_time, truck_time
from jaxvrp.envs.truck_and_drone.rules import SLACK

BITS = 32
"""Nodes of a word of the set of nodes that a tour has visited."""


class Times(struct.PyTreeNode):
    """What is read of `I` instances of `n` nodes, the instances first."""

    truck: jax.Array  # `f32[I, n²]`, the truck's time from a to b, at a n + b
    drone: jax.Array  # `f32[I, n²]`, the drone's; inf from a node to itself
    barred: jax.Array  # `f32[I, n]`, inf for nodes that the drone may not serve, else 0
    longest: jax.Array  # `f32[I]`, the drone's time for the longest flight
    launch: jax.Array  # `f32[I]`
    recovery: jax.Array  # `f32[I]`
    customers: jax.Array  # `i32[I]`, how many exist
    depot_launch: jax.Array | None  # `f32[I]`, see `Instance`
    most_driven: jax.Array | None  # `f32[I]`, the truck's time in a sortie, by `Instance.max_sortie`

    @property
    def num_nodes(self) -> int:
        """n."""
        return self.barred.shape[1]


def make_times(instances: Instance) -> Times:
    """The `Times` of a batch of instances `[I]` (JAX arrays)."""

    def times(instance: Instance) -> Times:
        nodes = jnp.arange(instance.num_nodes, dtype=jnp.int32)
        # Flights are proportional to the drone's times, so that these can be compared with the limit instead.
        pace = 1.0 if instance.drone_time is not None else instance.drone_pace
        barred = instance.no_fly | ~instance.exists | (nodes == 0)
        flights = drone_time(instance, nodes[:, None], nodes)
        longest, most_driven = instance.max_flight * pace, None
        if instance.max_sortie is not None:
            most_driven = instance.max_sortie - instance.recovery_time
            longest = jnp.minimum(longest, most_driven)
            most_driven *= 1.0 + SLACK
        return Times(
            truck=truck_time(instance, nodes[:, None], nodes).ravel(),
            drone=jnp.where(nodes[:, None] == nodes, jnp.inf, flights).ravel(),
            barred=jnp.where(barred, jnp.inf, 0.0).astype(jnp.float32),
            longest=longest * (1.0 + SLACK),
            launch=instance.launch_time,
            recovery=instance.recovery_time,
            customers=instance.exists[1:].sum(dtype=jnp.int32),
            depot_launch=instance.depot_launch_time,
            most_driven=most_driven,
        )

    return jax.vmap(times)(instances)


class Partition(NamedTuple):
    """How tours are cut, by the position where an operation ends, `i32[P, L]` each.

    The position where it starts, and the one that the drone serves; 0 if it rides along.
    """

    start: jax.Array
    drone: jax.Array


def tour_length(times: Times, tours: jax.Array, of: jax.Array) -> jax.Array:
    """The truck's time alone, `f32[L]`, for tours `i32[P, L]` of the instances `of`, `i32[L]`."""
    return _between(times.truck, tours[:-1], tours[1:], of).sum(axis=0)


def ends_of(tours: jax.Array) -> jax.Array:
    """`i32[L]`, the position at which the last customer is served and the tour `i32[P, L]` is at the depot."""
    position = jnp.arange(len(tours), dtype=jnp.int32)[:, None]
    return jnp.where(tours > 0, position, 0).max(axis=0) + 1


def partition_cost(times: Times, tours: jax.Array, of: jax.Array, window: int) -> tuple[jax.Array, jax.Array]:
    """The makespan of the best partition of tours `i32[P, L]` of the instances `of`, `i32[L]`.

    Args:
        times, tours, of: see above.
        window: most positions from the start of an operation to its end; n for the exact optimum.

    Returns:
        The makespans, `f32[L]`, inf where there is no partition, and which positions are revisits, `bool[P, L]`.
    """
    value, _, is_revisit = _values(times, tours, _operations(times, tours, of, window)[0])
    return jnp.take_along_axis(value, ends_of(tours)[None], axis=0)[0], is_revisit


def partition(times: Times, tours: jax.Array, of: jax.Array, window: int) -> Partition:
    """The best partition; arguments as for `partition_cost`."""
    cost, back = _operations(times, tours, of, window)
    _, length, _ = _values(times, tours, cost)
    # Where no operation ends, the length is 0, and that of the last column is read for nothing.
    drone_back = jnp.take_along_axis(back, jnp.minimum(window - length, window - 1)[:, None], axis=1)[:, 0]
    end = jnp.arange(len(tours), dtype=jnp.int32)[:, None]
    return Partition(end - length, jnp.where(drone_back > 0, end - drone_back, 0))


def _operations(times: Times, tours: jax.Array, of: jax.Array, window: int) -> tuple[jax.Array, jax.Array]:
    """The cheapest operation by its end and its length, whether or not it passes a revisit.

    In column c operations go over W - c positions; inf where there is none. A row is an end, and the way from a start
    that is further back lies further left, so that a slice of values before that end fits beside it.

    Returns:
        What it costs, `f32[P, W, L]`, and how many positions before the end the drone serves a customer, `i32`
        likewise; 0 where it rides along.
    """
    count, lanes = tours.shape
    legs = _between(times.truck, tours[:-1], tours[1:], of)
    short = _between(times.truck, tours[:-2], tours[2:], of)
    nothing = jnp.zeros_like(legs[:1])
    # What leaving a position out saves the truck.
    saved = jnp.pad(jnp.concatenate([nothing, legs[:-1] + legs[1:] - short, nothing]), [(window, 0), (0, 0)])
    barred = jnp.pad(times.barred[of, tours], [(window, 0), (0, 0)], constant_values=jnp.inf)
    start = np.arange(count)[:, None] + np.arange(window)
    origins = jnp.pad(tours, [(window, 0), (0, 0)])[start]
    flights = _between(times.drone, origins, tours[:, None], of)
    flights = jnp.where((start >= window)[..., None], flights, jnp.inf)
    around = jnp.pad(flights, [(window, 0), (0, window), (0, 0)], constant_values=jnp.inf)
    longest = times.longest[of]

    def go(truck: jax.Array, leg: jax.Array) -> tuple[jax.Array, jax.Array]:
        truck = jnp.concatenate([truck[1:], nothing]) + leg
        return truck, truck

    _, truck = jax.lax.scan(go, jnp.zeros((window, lanes), jnp.float32), jnp.concatenate([nothing, legs]))
    least, least_back = jnp.full_like(truck, jnp.inf), jnp.zeros(truck.shape, jnp.int32)
    # Static slices: all of it is one loop over tours, where a loop with slices of its own would read all for each turn.
    for back in range(1, window):
        there = slice(window - back, window - back + count)
        flight = around[there, back : back + window] + flights[:, window - back, None]
        driven = truck - saved[there, None]
        cost = jnp.maximum(driven, flight) + barred[there, None]
        cost = jnp.where(flight <= longest, cost, jnp.inf)
        if times.most_driven is not None:
            cost = jnp.where(driven <= times.most_driven[of], cost, jnp.inf)
        least, least_back = jnp.minimum(cost, least), jnp.where(cost < least, back, least_back)
    launch = times.launch[of]
    if times.depot_launch is not None:
        launch = jnp.where(origins == 0, times.depot_launch[of], launch)
    sorties = least + launch + times.recovery[of]
    # An operation of one leg is a ride, all others are sorties.
    return sorties.at[:, -1].set(truck[:, -1]), least_back.at[:, -1].set(0)


def _values(times: Times, tours: jax.Array, operations: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The least time until each position, `f32[P, L]`, the length of the operation that ends there, and revisits."""
    count, window, lanes = operations.shape
    ends, word = ends_of(tours), jnp.arange(-(-times.num_nodes // BITS), dtype=jnp.int32)[:, None]

    def reach(before: tuple[jax.Array, jax.Array], row: tuple[jax.Array, ...]) -> tuple[Any, Any]:
        values, visited = before
        operations, node, position = row
        mark = jnp.where(word == node // BITS, jnp.uint32(1) << (node % BITS).astype(jnp.uint32), jnp.uint32(0))
        is_revisit = ((visited & mark) > 0).any(axis=0)
        # The drone does not ride to a revisit, but it does home.
        rides = jnp.where(is_revisit & (position != ends), jnp.inf, operations[-1])
        sums = values + operations.at[-1].set(rides)
        value, length = sums.min(axis=0), window - jax.lax.argmin(sums, 0, jnp.int32)
        values = jnp.concatenate([jnp.where(is_revisit, jnp.inf, values[1:]), value[None]])
        return (values, visited | mark), (value, length, is_revisit)

    at_depot = (
        jnp.full((window, lanes), jnp.inf, jnp.float32).at[-1].set(0.0),
        jnp.zeros((len(word), lanes), jnp.uint32).at[0].set(1),
    )
    rows = operations[1:], tours[1:], jnp.arange(1, count, dtype=jnp.int32)
    _, (value, length, is_revisit) = jax.lax.scan(reach, at_depot, rows)
    first = [(1, 0), (0, 0)]
    return jnp.pad(value, first), jnp.pad(length, first), jnp.pad(is_revisit, first)


def _between(matrices: jax.Array, start: jax.Array, end: jax.Array, of: jax.Array) -> jax.Array:
    """From nodes to nodes, `i32[..., L]` each, in `f32[I, n²]`, of the instances `of`, `i32[L]`."""
    size = round(matrices.shape[1] ** 0.5)
    index = of * matrices.shape[1] + start * size + end
    return matrices.ravel().at[index].get(mode="promise_in_bounds")
