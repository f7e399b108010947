"""What ways of truck and drone take, from node to node, and what follows from an instance for all of its steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.io import arrays
from jaxvrp.rows import rows_at


def node_indices(instance: Instance) -> jax.Array:
    """`i32[n]`, of all nodes."""
    return jnp.arange(instance.num_nodes, dtype=jnp.int32)


def distance(instance: Instance, start: Any, end: Any) -> jax.Array:
    """Euclidean distance, `f32[...]`, from nodes `start` to nodes `end`: whatever indexes nodes, broadcast."""
    gap = _places(instance, end) - _places(instance, start)
    return jnp.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)


def _places(instance: Instance, nodes: Any) -> jax.Array:
    """`f32[..., 2]`, of nodes; a Python number is known before run time."""
    return instance.locs[nodes] if isinstance(nodes, int) else rows_at(instance.locs, nodes)


def truck_time(instance: Instance, start: Any, end: Any) -> jax.Array:
    """The truck's time from `start` to `end`, as `distance`."""
    if instance.truck_time is not None:
        return instance.truck_time[start, end]
    return instance.truck_pace * distance(instance, start, end)


def drone_time(instance: Instance, start: Any, end: Any) -> jax.Array:
    """The drone's time from `start` to `end`, as `distance`."""
    if instance.drone_time is not None:
        return instance.drone_time[start, end]
    return instance.drone_pace * distance(instance, start, end)


def truck_distance(instance: Instance, start: Any, end: Any) -> jax.Array:
    """What the truck drives, in map units; where times are given as matrices, in time."""
    return distance(instance, start, end) if instance.truck_time is None else truck_time(instance, start, end)


def drone_distance(instance: Instance, start: Any, end: Any) -> jax.Array:
    """What counts against `max_flight`: map units; where times are given as matrices, the drone's time."""
    return distance(instance, start, end) if instance.drone_time is None else drone_time(instance, start, end)


def launch_time(instance: Instance, node: Any) -> jax.Array:
    """What a launch at nodes `node` adds to both clocks, `f32[...]`, of the shape of `node`."""
    if instance.depot_launch_time is None:
        return instance.launch_time
    return jnp.where(node == 0, instance.depot_launch_time, instance.launch_time)


class Figures(struct.PyTreeNode):
    """What follows from one instance and is needed at every step."""

    extent: jax.Array  # `f32[]`, the largest |x - x0| or |y - y0| of a node, from the depot
    horizon: jax.Array  # `f32[]`, the truck's time from the depot to the node that is farthest for it
    flight_unit: jax.Array  # `f32[]`, the largest drone distance from the depot to a node
    pace_ratio: jax.Array  # `f32[]`, the drone's longest time from the depot, as a share of the truck's
    num_customers: jax.Array  # `f32[]`, at least 1
    nearest: jax.Array  # `f32[n]`, the least drone distance from a node to another; inf if there is none
    truck_home: jax.Array  # `f32[n]`, the truck's time from each node to the depot
    drone_home: jax.Array  # `f32[n]`, the drone's


def figures_of(instance: Instance) -> Figures:
    """What follows from an instance (JAX arrays, padded); computed once, before it is played."""
    nodes = node_indices(instance)
    exists = instance.exists

    def largest(values: jax.Array) -> jax.Array:
        return arrays.unit_of(jnp.where(exists, values, 0.0).max())

    horizon = largest(truck_time(instance, 0, nodes))
    is_other = exists & (nodes[:, None] != nodes)
    between = drone_distance(instance, nodes[:, None], nodes)
    return Figures(
        extent=largest(jnp.abs(instance.locs - instance.locs[0]).max(axis=1)),
        horizon=horizon,
        flight_unit=largest(drone_distance(instance, 0, nodes)),
        pace_ratio=largest(drone_time(instance, 0, nodes)) / horizon,
        num_customers=jnp.maximum(exists[1:].sum(dtype=jnp.float32), 1.0),
        nearest=jnp.where(is_other, between, jnp.inf).min(axis=1),
        truck_home=truck_time(instance, nodes, 0),
        drone_home=drone_time(instance, nodes, 0),
    )
