"""The truck-and-drones problem as data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct


class Instance(struct.PyTreeNode):
    """One problem, as data.

    Attributes:
        truck_position: `f32[2]`, where truck and drones start.
        node_position: `f32[N, 2]`, where the truck can drive.
        customer_position: `f32[C, 2]`.
        demand: `f32[C]`, parcel size.
        window_start: `i32[C]`, first step of the time window.
        window_end: `i32[C]`, last step at which a delivery is on time.
        exists: `bool[C]`, whether there is such a customer, the first ones; else its row is padding. None if all exist.
    """

    truck_position: jax.Array
    node_position: jax.Array
    customer_position: jax.Array
    demand: jax.Array
    window_start: jax.Array
    window_end: jax.Array
    exists: jax.Array | None = None


def void_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The instance with its first `count` (`i32[]`) customers; all numbers of the others are 0, and C stays."""
    exists = jnp.arange(instance.demand.shape[0], dtype=jnp.int32) < count
    return instance.replace(
        customer_position=jnp.where(exists[:, None], instance.customer_position, 0.0),
        demand=jnp.where(exists, instance.demand, 0.0),
        window_start=jnp.where(exists, instance.window_start, 0),
        window_end=jnp.where(exists, instance.window_end, 0),
        exists=exists,
    )
