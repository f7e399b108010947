"""Random instances."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.problem.instance import Instance

KNOWN = 0x6B6E6F77
"""Folded into the key of a problem for what is drawn beside it; `generate` splits the key."""


def generate(
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
