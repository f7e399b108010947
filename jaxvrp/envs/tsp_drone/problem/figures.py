"""What follows from an instance and is needed at every step: computed once, before it is played."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.tsp_drone.problem.instance import Instance, drone_distance, drone_time, truck_time

SMALLEST = 1e-6
"""Least units."""


class Figures(struct.PyTreeNode):
    """What follows from one instance.

    Attributes:
        extent: `f32[]`, the largest |x - x0| or |y - y0| of a node, from the depot.
        horizon: `f32[]`, the truck's time from the depot to the node that is farthest for it.
        flight_unit: `f32[]`, the largest drone distance from the depot to a node.
        pace_ratio: `f32[]`, the drone's longest time from the depot, as a share of the truck's.
        num_customers: `f32[]`, at least 1.
        nearest: `f32[n]`, the least drone distance from a node to another; inf if there is none.
        truck_home, drone_home: `f32[n]`, times from each node to the depot.
    """

    extent: jax.Array
    horizon: jax.Array
    flight_unit: jax.Array
    pace_ratio: jax.Array
    num_customers: jax.Array
    nearest: jax.Array
    truck_home: jax.Array
    drone_home: jax.Array


def figures_of(instance: Instance) -> Figures:
    """What follows from an instance (JAX arrays, padded)."""
    nodes = jnp.arange(instance.num_nodes, dtype=jnp.int32)
    exists = instance.exists

    def largest(values: jax.Array) -> jax.Array:
        return jnp.maximum(jnp.where(exists, values, 0.0).max(), SMALLEST)

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
