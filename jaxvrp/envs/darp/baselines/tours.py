"""What insertion and search share: the problem as they read it, the exact test of a tour, and plans as actions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp import schedule
from jaxvrp.envs.darp.problem.instance import Instance, distance, travel_time


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


def keeps_limits(problem: Problem, route: jax.Array) -> jax.Array:
    """`bool[]`, whether a tour, `i32[N]` with 0 beyond its end, has a schedule within all limits."""
    instance, depot = problem.instance, jnp.zeros(1, jnp.int32)
    stops = jnp.concatenate([depot, route, depot])
    travel = problem.travel[stops[:-1], stops[1:]]
    # Rounded, the way home from halfway may be longer than the rest of the tour; the environment measures that too.
    rest = jnp.cumsum((instance.service_time[stops[:-1]] + travel)[::-1])[::-1]
    home = instance.service_time[stops[:-1]] + problem.travel[stops[:-1], 0]
    excess = jnp.where(instance.round_travel_time, jnp.max(home - rest), 0.0)
    return schedule.keeps_tour(instance, stops[1:], travel, instance.max_route_duration - excess, 0.0)


def as_actions(routes: jax.Array, lengths: jax.Array) -> jax.Array:
    """The tours one behind the other, with a 0 after each and to the end, `i32[N+V]`.

    Args:
        routes: `i32[V, N]`, 0 beyond the end.
        lengths: `i32[V]`.
    """
    position = jnp.arange(routes.shape[1], dtype=jnp.int32)
    begin = jnp.cumsum(lengths + 1, dtype=jnp.int32) - lengths - 1
    size = sum(routes.shape)
    target = jnp.where(position < lengths[:, None], begin[:, None] + position, size)
    return jnp.zeros(size, jnp.int32).at[target].set(routes, mode="drop")
