"""What the active vehicle sees: a context and a set of nodes, scaled to be alike for instances of any size and unit."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.rules import State

CONTEXT_SIZE, NODE_SIZE = 13, 19


def observe(state: State, allowed: jax.Array) -> jax.Array:
    """The vector that the docstring of `Darp` describes, `f32[13 + 19 (N + 1)]`.

    Args:
        state: of one instance.
        allowed: the mask, `bool[N+1]`.
    """
    scales = _Scales(state.instance)
    return jnp.concatenate([_context(state, scales), _nodes(state, allowed, scales).ravel()])


class _Scales:
    """Units of an instance: extent (of its map), horizon (of its clock), capacity (of its largest vehicle)."""

    def __init__(self, instance: Instance):
        self.is_depot = jnp.arange(instance.num_nodes + 1) == 0
        self.is_real = self.is_depot | (instance.demand != 0)
        offset = jnp.abs(instance.locs - instance.locs[0]).max(axis=1)
        self.extent = jnp.maximum(jnp.where(self.is_real, offset, 0.0).max(), 1e-6)
        finite = jnp.where(jnp.isfinite(instance.deadline), instance.deadline, 0.0)
        horizon = jnp.where(finite[0] > 0, finite[0], jnp.where(finite.max() > 0, finite.max(), 1.0))
        self.horizon = jnp.maximum(horizon, 1e-6)
        self.capacity = jnp.maximum(instance.capacity.max(), 1).astype(jnp.float32)

    def share(self, time: jax.Array) -> jax.Array:
        """A time as a share of the horizon, within [-1, 1]."""
        return jnp.clip(time / self.horizon, -1.0, 1.0)


def _context(state: State, scales: _Scales) -> jax.Array:
    """`f32[13]`, the numbers that the vehicle sees of itself and of the whole problem."""
    instance = state.instance
    capacity = instance.capacity.astype(jnp.float32)
    is_current = jnp.arange(capacity.shape[0]) == state.current_agent
    current_capacity = jnp.sum(jnp.where(is_current, capacity, 0.0))
    waiting = ~state.vehicle_finished & ~is_current
    num_waiting = waiting.sum(dtype=jnp.float32)
    mean_waiting = jnp.sum(capacity * waiting) / jnp.maximum(num_waiting, 1.0)
    num_vehicles = jnp.maximum(jnp.sum(instance.capacity > 0, dtype=jnp.float32), 1.0)
    num_requests = jnp.maximum(jnp.sum(instance.demand > 0, dtype=jnp.float32), 1.0)
    place = (instance.locs[state.current_node] - instance.locs[0]) / scales.extent
    figures = [
        state.current_time / scales.horizon,
        state.current_load / jnp.maximum(current_capacity, 1.0),
        current_capacity / scales.capacity,
        (state.current_node == 0).astype(jnp.float32),
        num_waiting / num_vehicles,
        mean_waiting / scales.capacity,
        jnp.sum(~state.visited[1::2], dtype=jnp.float32) / num_requests,
        jnp.sum(rules.on_board(state), dtype=jnp.float32) / num_requests,
        place[0],
        place[1],
        scales.extent / (instance.vehicle_speed * scales.horizon),
        jnp.minimum(instance.max_ride_time / scales.horizon, 1.0),
        jnp.minimum(instance.max_route_duration / scales.horizon, 1.0),
    ]
    return jnp.stack(figures)


def _nodes(state: State, allowed: jax.Array, scales: _Scales) -> jax.Array:
    """`f32[N+1, 19]`, rows of what is not there any more all zero."""
    instance, nodes = state.instance, jnp.arange(state.visited.shape[0])
    visits, aboard = rules.outlook(state), rules.on_board(state)
    present = scales.is_depot | (~state.visited & scales.is_real)
    place = (instance.locs - instance.locs[0]) / scales.extent
    deadline = jnp.minimum(instance.deadline, scales.horizon)
    ride = instance.max_ride_time - (visits.start - jnp.roll(state.pickup_time, 1))
    columns = [
        present.astype(jnp.float32),
        (nodes % 2 == 1).astype(jnp.float32),
        ((nodes % 2 == 0) & ~scales.is_depot).astype(jnp.float32),
        aboard.astype(jnp.float32),
        allowed.astype(jnp.float32),
        place[:, 0],
        place[:, 1],
        _partners(place[:, 0]),
        _partners(place[:, 1]),
        instance.demand / scales.capacity,
        scales.share(instance.earliest),
        scales.share(deadline),
        scales.share(instance.service_time),
        scales.share(_partners(deadline)),
        visits.distance / scales.extent,
        scales.share(visits.start - state.current_time),
        scales.share(instance.deadline - visits.arrival),
        scales.share(instance.deadline[0] - visits.home),
        jnp.where(aboard, scales.share(ride), 1.0),
    ]
    return jnp.where(present[:, None], jnp.stack(columns, axis=1), 0.0)


def _partners(values: jax.Array) -> jax.Array:
    """`[N+1]` by node to `[N+1]` by the other end of its request; the depot is its own partner."""
    nodes = jnp.arange(values.shape[0])
    partners = jnp.where(nodes % 2 == 1, jnp.roll(values, -1), jnp.roll(values, 1))
    return jnp.where(nodes == 0, values[0], partners)
