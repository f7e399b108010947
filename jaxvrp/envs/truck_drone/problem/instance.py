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
        known_from: `i32[C]`, the step from which agents know of the customer. None if they know all from the start.
    """

    truck_position: jax.Array
    node_position: jax.Array
    customer_position: jax.Array
    demand: jax.Array
    window_start: jax.Array
    window_end: jax.Array
    exists: jax.Array | None = None
    known_from: jax.Array | None = None


def void_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The instance with its first `count` (`i32[]`) customers; all numbers of the others are 0, and C stays."""
    exists = jnp.arange(instance.demand.shape[0], dtype=jnp.int32) < count
    known_from = None if instance.known_from is None else jnp.where(exists, instance.known_from, 0)
    return only(instance, exists).replace(exists=exists, known_from=known_from)


def only(instance: Instance, shown: jax.Array) -> Instance:
    """The instance in which all numbers of customers are 0 but of those that are `shown` (`bool[C]`)."""
    return instance.replace(
        customer_position=jnp.where(shown[:, None], instance.customer_position, 0.0),
        demand=jnp.where(shown, instance.demand, 0.0),
        window_start=jnp.where(shown, instance.window_start, 0),
        window_end=jnp.where(shown, instance.window_end, 0),
    )
