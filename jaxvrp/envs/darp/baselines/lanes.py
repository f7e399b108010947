"""Many plans side by side: what rounds of ruin and recreate read of their problems, the plans as the last axis.

A plan is one sequence: depot, nodes of the first tour, depot, nodes of the second, ... `T` stops and `R` requests are
short and uneven, so all arrays have the plans as their last axis, `B`, and every loop runs over plans, at the machine's
full width. Several plans of one problem share its distances.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp.problem.instance import Instance, all_ways, prohibitive, travel_time
from jaxvrp.io.limits import LEAST


class Lanes(struct.PyTreeNode):
    """What rounds read of the problems."""

    instance: Instance  # the plans last; deadlines leave time to go home directly, ride times are inf without `limits`
    distance: jax.Array  # of all problems, `f32[I (N+1)²]`: from a to b at `origin` + a (N + 1) + b
    time: jax.Array | None  # likewise, of ways along streets; None where they follow from distances
    origin: jax.Array  # `i32[B]`, where the distances of a plan's problem begin
    penalty: jax.Array  # `f32[B]`, of an unvisited node
    limits: bool = struct.field(pytree_node=False)  # whether ride times and durations are enforced

    @property
    def exists(self) -> jax.Array:
        """`bool[R, B]`, requests that are no padding."""
        return self.instance.demand[1::2] > 0


def make_lanes(instances: Instance, tries: int, penalty: float | jax.Array | None, *, limits: bool) -> Lanes:
    """Lanes for so many plans of each instance of a batch `[I]` of JAX arrays; those of an instance follow each other.

    `penalty` of an unvisited node is `f32[]` or `f32[I tries]`; None: `prohibitive`.
    """

    def prepare(instance: Instance) -> tuple[Instance, jax.Array, jax.Array]:
        lengths, times = all_ways(instance)
        in_time = instance.deadline[0] - instance.service_time - times[:, 0]
        longest = instance.max_ride_time if limits else jnp.full_like(instance.max_ride_time, jnp.inf)
        bound = instance.replace(deadline=jnp.minimum(instance.deadline, in_time), max_ride_time=longest)
        if instance.travel_time is not None:
            speed = lengths.sum() / jnp.maximum(instance.travel_time.sum(), LEAST)
            bound = bound.replace(vehicle_speed=speed, travel_time=None, travel_distance=None)
        return bound, lengths, times

    has_streets, unserved = instances.travel_time is not None, prohibitive(instances)
    instances, lengths, times = jax.vmap(prepare)(instances)
    penalty = jnp.repeat(unserved, tries) if penalty is None else penalty
    problem = jnp.repeat(jnp.arange(len(lengths), dtype=jnp.int32), tries)
    return Lanes(
        instance=jax.tree.map(lambda leaf: jnp.moveaxis(leaf[problem], 0, -1), instances),
        distance=lengths.reshape(-1),
        time=times.reshape(-1) if has_streets else None,
        origin=problem * lengths.shape[1] ** 2,
        penalty=jnp.broadcast_to(jnp.asarray(penalty, jnp.float32), problem.shape),
        limits=limits,
    )


def between(lanes: Lanes, start: jax.Array, end: jax.Array) -> jax.Array:
    """Distances from nodes to nodes, `i32[..., B]` each; one may lack the leading axis of the other."""
    index = lanes.origin + start * len(lanes.instance.demand) + end
    return lanes.distance.at[index].get(mode="promise_in_bounds")


def time_between(lanes: Lanes, start: jax.Array, end: jax.Array, length: jax.Array) -> jax.Array:
    """Travel times of ways whose `length` is that `between` these nodes."""
    if lanes.time is None:
        return travel_time(lanes.instance, length)
    index = lanes.origin + start * len(lanes.instance.demand) + end
    return lanes.time.at[index].get(mode="promise_in_bounds")


def of_nodes(table: jax.Array, nodes: jax.Array) -> jax.Array:
    """`[T, B]`, of `[K, B]` at `i32[T, B]`."""
    return jnp.take_along_axis(table, nodes, axis=0, mode="promise_in_bounds")


def pick(array: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]`, of `[K, B]` at `i32[B]`."""
    return of_nodes(array, index[None])[0]


def following(array: jax.Array) -> jax.Array:
    """What `array` (`[T, B]`) has for the next stop; behind the last stop that of the first, which is void."""
    return jnp.roll(array, -1, axis=0)


def least(cost: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The least of each plan, `f32[B]`, and its first row, `i32[B]`; two reductions are faster than `argmin`."""
    minimum = cost.min(axis=0)
    rows = jnp.arange(len(cost), dtype=jnp.int32)[:, None]
    return minimum, jnp.where(cost == minimum, rows, len(cost) - 1).min(axis=0)


def length_of(lanes: Lanes, sequence: jax.Array) -> jax.Array:
    """The distance that is driven, `f32[B]`, along sequences, `i32[T, B]`."""
    return between(lanes, sequence, following(sequence)).sum(axis=0)


def where(condition: jax.Array, a: Any, b: Any) -> Any:
    """`jnp.where` for trees with plans last: plans of `a` where their condition (`bool[B]`) holds, else of `b`."""
    return jax.tree.map(functools.partial(jnp.where, condition), a, b)
