"""The exact partition of a tour into operations (Agatz, Bouman & Schmidt 2018), for many tours at once. Pure JAX.

The customers keep the order of the tour; an operation goes from one of its positions to a later one, and the drone
serves one customer between, the truck the others. What the cheapest sequence of operations costs follows by dynamic
programming over positions. Truck and drone meet at nodes that the truck visits for the first time: no loops, no way
back.

A tour is `i32[n + 1]`: the depot, the customers that exist, and the depot to the end. All arrays have the tours as
their last axis, `L`: positions are few and uneven, and so every loop runs over tours, at the machine's full width.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.tsp_drone.problem.instance import Instance, drone_time, truck_time
from jaxvrp.envs.tsp_drone.rules import SLACK


class Times(struct.PyTreeNode):
    """What is read of `I` instances of `n` nodes, the instances first."""

    truck: jax.Array  # `f32[I, n²]`, the truck's time from a to b, at a n + b
    drone: jax.Array  # `f32[I, n²]`, the drone's
    barred: jax.Array  # `f32[I, n]`, inf for nodes that the drone may not serve, else 0
    longest: jax.Array  # `f32[I]`, the drone's time for the longest flight
    launch: jax.Array  # `f32[I]`
    recovery: jax.Array  # `f32[I]`
    customers: jax.Array  # `i32[I]`, how many exist

    @property
    def num_nodes(self) -> int:
        """n."""
        return self.barred.shape[1]


def make_times(instances: Instance) -> Times:
    """Of a batch of instances `[I]` (JAX arrays)."""

    def times(instance: Instance) -> Times:
        nodes = jnp.arange(instance.num_nodes, dtype=jnp.int32)
        # Flights are proportional to the drone's times, so that these can be compared with the limit instead.
        pace = 1.0 if instance.drone_time is not None else instance.drone_pace
        barred = instance.no_fly | ~instance.exists | (nodes == 0)
        return Times(
            truck=truck_time(instance, nodes[:, None], nodes).ravel(),
            drone=drone_time(instance, nodes[:, None], nodes).ravel(),
            barred=jnp.where(barred, jnp.inf, 0.0).astype(jnp.float32),
            longest=instance.max_flight * pace * (1.0 + SLACK),
            launch=instance.launch_time,
            recovery=instance.recovery_time,
            customers=instance.exists[1:].sum(dtype=jnp.int32),
        )

    return jax.vmap(times)(instances)


class Partition(NamedTuple):
    """How tours are cut, by the position where an operation ends, `i32[n + 1, L]` each.

    The position where it starts, and the one that the drone serves; 0 if it rides along.
    """

    start: jax.Array
    drone: jax.Array


def tour_length(times: Times, tours: jax.Array, of: jax.Array) -> jax.Array:
    """The truck's time alone, `f32[L]`, for tours `i32[n + 1, L]` of the instances `of`, `i32[L]`."""
    return _between(times.truck, tours[:-1], tours[1:], of).sum(axis=0)


def partition_cost(times: Times, tours: jax.Array, of: jax.Array, window: int) -> jax.Array:
    """The makespan of the best partition, `f32[L]`, of tours `i32[n + 1, L]` of the instances `of`, `i32[L]`.

    `window`: most positions from the start of an operation to its end; n for the exact optimum.
    """
    value, _ = _values(_operations(times, tours, of, window)[0], window)
    return jnp.take_along_axis(value, times.customers[of][None] + 1, axis=0)[0]


def partition(times: Times, tours: jax.Array, of: jax.Array, window: int) -> Partition:
    """The best partition; arguments as for `partition_cost`."""
    cost, back = _operations(times, tours, of, window)
    _, length = _values(cost, window)
    # Where no operation ends, the length is 0, and that of the last column is read for nothing.
    drone_back = jnp.take_along_axis(back, jnp.minimum(window - length, window - 1)[:, None], axis=1)[:, 0]
    end = jnp.arange(len(tours), dtype=jnp.int32)[:, None]
    return Partition(end - length, jnp.where(drone_back > 0, end - drone_back, 0))


def _operations(times: Times, tours: jax.Array, of: jax.Array, window: int) -> tuple[jax.Array, jax.Array]:
    """The cheapest operation by its end and its length.

    In column c operations go over W - c positions; inf where there is none. A row is an end, and the way from a start
    that is further back lies further left, so that a slice of values before that end fits beside it.

    Returns:
        What it costs, `f32[n + 1, W, L]`, and how many positions before the end the drone serves a customer, `i32`
        likewise; 0 where it rides along.
    """
    count = len(tours)
    legs = _between(times.truck, tours[:-1], tours[1:], of)
    short = _between(times.truck, tours[:-2], tours[2:], of)
    nothing = jnp.zeros_like(legs[:1])
    # The truck's time from the depot to each position, and what leaving the position out saves.
    travelled = jnp.concatenate([nothing, jnp.cumsum(legs, axis=0)])
    saved = jnp.concatenate([nothing, legs[:-1] + legs[1:] - short, nothing])
    before = jnp.pad(tours, [(window, 0), (0, 0)])
    row, column = jnp.arange(count, dtype=jnp.int32), jnp.arange(window, dtype=jnp.int32)
    exists = (row[:, None] >= window - column)[..., None]
    from_there = before[row[:, None] + column]
    flights = jnp.where(exists, _between(times.drone, from_there, tours[:, None], of), jnp.inf)
    since = jnp.pad(travelled, [(window, 0), (0, 0)])[row[:, None] + column]
    truck = travelled[:, None] - since
    barred = jnp.pad(times.barred[of, tours], [(window, 0), (0, 0)])
    saved = jnp.pad(saved, [(window, 0), (0, 0)])
    around = jnp.pad(flights, [(window, 0), (0, window), (0, 0)], constant_values=jnp.inf)
    longest = times.longest[of]

    def with_drone(back: jax.Array, best: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """The same, where the drone may also serve the customer so many positions before the end."""
        least, least_back = best
        there = window - back
        first = jax.lax.dynamic_slice(around, (there, back, 0), flights.shape)
        second = jax.lax.dynamic_index_in_dim(flights, there, axis=1)
        saving = jax.lax.dynamic_slice_in_dim(saved, there, count)[:, None]
        refused = jax.lax.dynamic_slice_in_dim(barred, there, count)[:, None]
        flight = first + second
        cost = jnp.where(flight <= longest, jnp.maximum(truck - saving, flight) + refused, jnp.inf)
        return jnp.minimum(cost, least), jnp.where(cost < least, back, least_back)

    none = jnp.full_like(flights, jnp.inf), jnp.zeros(flights.shape, jnp.int32)
    sorties, drone_back = jax.lax.fori_loop(1, window, with_drone, none)
    sorties += times.launch[of] + times.recovery[of]
    # An operation of one leg is a ride, all others are sorties.
    rides = jnp.where(row[:, None] > 0, truck[:, -1], jnp.inf)
    return sorties.at[:, -1].set(rides), drone_back.at[:, -1].set(0)


def _values(operations: jax.Array, window: int) -> tuple[jax.Array, jax.Array]:
    """The least time until each position, `f32[n + 1, L]`, and the length of the operation that ends there, `i32`."""
    count, _, lanes = operations.shape
    value = jnp.full((window + count, lanes), jnp.inf).at[window].set(0.0)
    length = jnp.zeros((count, lanes), jnp.int32)

    def reach(end: jax.Array, found: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        value, length = found
        sums = jax.lax.dynamic_slice_in_dim(value, end, window) + operations[end]
        column = jax.lax.argmin(sums, 0, jnp.int32)
        return value.at[window + end].set(sums.min(axis=0)), length.at[end].set(window - column)

    value, length = jax.lax.fori_loop(1, count, reach, (value, length))
    return value[window:], length


def _between(matrices: jax.Array, start: jax.Array, end: jax.Array, of: jax.Array) -> jax.Array:
    """From nodes to nodes, `i32[..., L]` each, in `f32[I, n²]`, of the instances `of`, `i32[L]`."""
    size = round(matrices.shape[1] ** 0.5)
    index = of * matrices.shape[1] + start * size + end
    return matrices.ravel().at[index].get(mode="promise_in_bounds")
