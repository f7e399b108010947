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


class Problem(struct.PyTreeNode):
    """An instance whose deadlines also leave time to go home directly.

    Attributes:
        instance: with these deadlines.
        distance, travel: between nodes, `f32[N+1, N+1]`.
        max_ride_time: `f32[]`, inf unless limits are enforced.
    """

    instance: Instance
    distance: jax.Array
    travel: jax.Array
    max_ride_time: jax.Array


def make_problem(instance: Instance, *, limits: bool) -> Problem:
    """What is read of an instance (JAX arrays); `limits` says whether ride times count."""
    lengths = distance(instance.locs[:, None], instance.locs)
    travel = travel_time(instance, lengths)
    in_time = instance.deadline[0] - instance.service_time - travel[:, 0]
    return Problem(
        instance=instance.replace(deadline=jnp.minimum(instance.deadline, in_time)),
        distance=lengths,
        travel=travel,
        max_ride_time=instance.max_ride_time if limits else jnp.full_like(instance.max_ride_time, jnp.inf),
    )


class Past(struct.PyTreeNode):
    """The part of a plan that cannot change any more where it goes on from the middle of an episode; plans last.

    The beginning of a sequence, up to the stop where the current vehicle is, stands for what it has done: the depot for
    each vehicle before it and for itself, then the pickups of requests on board, then that stop.

    Attributes:
        position: `i32[B]`, of the stop where the vehicle is.
        start: `f32[B]`, of service there.
        aboard: `bool[R, B]`, requests on board: their pickups stay, their drop-offs are to be inserted.
        stranding: `f32[B]`, the cost of not delivering one of them.
    """

    position: jax.Array
    start: jax.Array
    aboard: jax.Array
    stranding: jax.Array


class Lanes(struct.PyTreeNode):
    """What rounds read of the problems, the plans last.

    Attributes:
        distance: of all problems, `f32[I (N+1)²]`.
        origin: `i32[B]`, where that of a plan's problem begins, from a (N + 1) + b.
        speed: `f32[B]`.
        is_rounded: `bool[B]`, whether travel times are.
        earliest, deadline, service: `f32[N+1, B]`.
        demand: `i32[N+1, B]`.
        capacity: `i32[V, B]`.
        exists: `bool[R, B]`, requests that are no padding.
        max_ride_time: `f32[B]`, inf unless limits are enforced.
        max_duration: `f32[B]`.
        penalty: `f32[B]`, of an unvisited node.
        past: None for whole plans.
        limits: whether ride times and durations are enforced; not beside a past.
    """

    distance: jax.Array
    origin: jax.Array
    speed: jax.Array
    is_rounded: jax.Array
    earliest: jax.Array
    deadline: jax.Array
    service: jax.Array
    demand: jax.Array
    capacity: jax.Array
    exists: jax.Array
    max_ride_time: jax.Array
    max_duration: jax.Array
    penalty: jax.Array
    past: Past | None
    limits: bool = struct.field(pytree_node=False)


def make_lanes(problems: Problem, tries: int, penalty: float | jax.Array, *, limits: bool) -> Lanes:
    """Lanes for so many plans of each problem of a batch `[I]`; those of a problem follow each other."""
    instance = problems.instance
    count, size = problems.distance.shape[:2]
    problem = jnp.repeat(jnp.arange(count, dtype=jnp.int32), tries)

    def last(leaf: jax.Array) -> jax.Array:
        return jnp.moveaxis(leaf[problem], 0, -1)

    return Lanes(
        distance=problems.distance.reshape(-1),
        origin=problem * size**2,
        speed=last(instance.vehicle_speed),
        is_rounded=last(instance.round_travel_time),
        earliest=last(instance.earliest),
        deadline=last(instance.deadline),
        service=last(instance.service_time),
        demand=last(instance.demand),
        capacity=last(instance.capacity),
        exists=last(instance.demand[:, 1::2] > 0),
        max_ride_time=last(problems.max_ride_time),
        max_duration=last(instance.max_route_duration),
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
