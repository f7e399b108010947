"""The truck-and-drones problem as data, and random ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

KNOWN = 0x6B6E6F77
"""Folded into the key of a problem for what is drawn beside it; `draw_problem` splits the key."""


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


def draw_problem(
    key: jax.Array, *, num_customers: int, num_route_nodes: int, max_steps: int, widths: tuple[int, int]
) -> Instance:
    """Draw one problem.

    The truck starts at the origin, and nodes are spread evenly on a circle of radius 0.6 around it. Customers are
    uniform in [-0.8, 0.8]^2, demands in [0.5, 1). Windows start uniformly in [0, max_steps // 2), are
    [widths[0], widths[1]) steps wide, and end with the episode at the latest.
    """
    place_key, demand_key, start_key, width_key = jax.random.split(key, 4)
    count = (num_customers,)
    start = jax.random.randint(start_key, count, 0, max_steps // 2, jnp.int32)
    width = jax.random.randint(width_key, count, *widths, jnp.int32)
    angle = 2 * jnp.pi * jnp.arange(num_route_nodes, dtype=jnp.float32) / num_route_nodes
    return Instance(
        truck_position=jnp.zeros(2, jnp.float32),
        node_position=0.6 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1),
        customer_position=jax.random.uniform(place_key, (*count, 2), jnp.float32, -0.8, 0.8),
        demand=jax.random.uniform(demand_key, count, jnp.float32, 0.5, 1.0),
        window_start=start,
        window_end=jnp.minimum(start + width, max_steps),
    )


def draw_known_from(key: jax.Array, first: jax.Array | int, last: jax.Array, share: jax.Array | float) -> jax.Array:
    """The steps from which customers are known, `i32[C]`, from the key of their problem.

    Each becomes known during the episode with probability `share`: at a step uniform in [first, last]
    (`i32[C]`). The others, and those for which there is no such step after step 0, are known from the start.
    """
    dynamic_key, step_key = jax.random.split(jax.random.fold_in(key, KNOWN))
    is_dynamic = jax.random.uniform(dynamic_key, last.shape, jnp.float32) < share
    step = jax.random.randint(step_key, last.shape, first, jnp.maximum(last, first) + 1, jnp.int32)
    return jnp.where(is_dynamic & (last >= first) & (step > 0), step, 0)
