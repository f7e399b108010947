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

from jaxvrp.envs.darp.problem.instance import Instance, as_counted, distance, travel_time


class Past(struct.PyTreeNode):
    """The part of a plan that cannot change any more where it goes on from the middle of an episode; plans last.

    The beginning of a sequence, up to the stop where the current vehicle is, stands for what it has done: the depot for
    each vehicle before it and for itself, then the pickups of requests on board, then that stop.
    """

    position: jax.Array  # `i32[B]`, of the stop where the vehicle is
    start: jax.Array  # `f32[B]`, of service there
    aboard: jax.Array  # `bool[R, B]`, requests on board: their pickups stay, their drop-offs are to be inserted
    stranding: jax.Array  # `f32[B]`, the cost of not delivering one of them


class Lanes(struct.PyTreeNode):
    """What rounds read of the problems, the plans last."""

    distance: jax.Array  # of all problems, `f32[I (N+1)²]`: from a to b at `origin` + a (N + 1) + b
    origin: jax.Array  # `i32[B]`, where the distances of a plan's problem begin
    speed: jax.Array  # `f32[B]`
    is_rounded: jax.Array  # `bool[B]`, whether travel times are
    earliest: jax.Array  # `f32[N+1, B]`
    deadline: jax.Array  # `f32[N+1, B]`, which also leaves time to go home directly
    service: jax.Array  # `f32[N+1, B]`
    demand: jax.Array  # `i32[N+1, B]`
    capacity: jax.Array  # `i32[V, B]`
    exists: jax.Array  # `bool[R, B]`, requests that are no padding
    max_ride_time: jax.Array  # `f32[B]`, inf unless limits are enforced
    max_duration: jax.Array  # `f32[B]`
    penalty: jax.Array  # `f32[B]`, of an unvisited node
    past: Past | None  # None for whole plans
    limits: bool = struct.field(pytree_node=False)  # whether ride times and durations are enforced; not beside a past


def make_lanes(instances: Instance, tries: int, penalty: float | jax.Array, *, limits: bool) -> Lanes:
    """Lanes for so many plans of each instance of a batch `[I]` of JAX arrays; those of an instance follow each other.

    Args:
        instances: the problems.
        tries: plans of each.
        penalty: of an unvisited node, `f32[]` or `f32[I tries]`.
        limits: whether ride times and durations count.
    """

    def prepare(instance: Instance) -> tuple[jax.Array, jax.Array]:
        lengths = distance(instance.locs[:, None], instance.locs)
        in_time = instance.deadline[0] - instance.service_time - travel_time(instance, lengths)[:, 0]
        return lengths, jnp.minimum(instance.deadline, in_time)

    lengths, deadline = jax.vmap(prepare)(instances)
    problem = jnp.repeat(jnp.arange(len(lengths), dtype=jnp.int32), tries)

    def last(leaf: jax.Array) -> jax.Array:
        return jnp.moveaxis(leaf[problem], 0, -1)

    longest = instances.max_ride_time
    return Lanes(
        distance=lengths.reshape(-1),
        origin=problem * lengths.shape[1] ** 2,
        speed=last(instances.vehicle_speed),
        is_rounded=last(instances.round_travel_time),
        earliest=last(instances.earliest),
        deadline=last(deadline),
        service=last(instances.service_time),
        demand=last(instances.demand),
        capacity=last(instances.capacity),
        exists=last(instances.demand[:, 1::2] > 0),
        max_ride_time=last(longest if limits else jnp.full_like(longest, jnp.inf)),
        max_duration=last(instances.max_route_duration),
        penalty=jnp.broadcast_to(jnp.asarray(penalty, jnp.float32), problem.shape),
        past=None,
        limits=limits,
    )


def between(lanes: Lanes, start: jax.Array, end: jax.Array) -> jax.Array:
    """Distances from nodes to nodes, `i32[..., B]` each; one may lack the leading axis of the other."""
    index = lanes.origin + start * len(lanes.earliest) + end
    return lanes.distance.at[index].get(mode="promise_in_bounds")


def driven(lanes: Lanes, length: jax.Array) -> jax.Array:
    """How long it takes to drive so far, `f32[..., B]`."""
    return as_counted(length / lanes.speed, lanes.is_rounded)


def of_nodes(table: jax.Array, nodes: jax.Array) -> jax.Array:
    """`[T, B]`, of `[K, B]` at `i32[T, B]`."""
    return jnp.take_along_axis(table, nodes, axis=0, mode="promise_in_bounds")


def pick(array: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]`, of `[K, B]` at `i32[B]`."""
    return of_nodes(array, index[None])[0]


def following(array: jax.Array) -> jax.Array:
    """Of the next stop, `[T, B]`; of the first behind the last, which is void."""
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
    """Of each plan that of `a` or of `b`, by a condition, `bool[B]`."""
    return jax.tree.map(functools.partial(jnp.where, condition), a, b)
