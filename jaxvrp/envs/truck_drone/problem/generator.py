"""Random instances of `truck_drone_basic`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.problem.instance import Instance


def generate(key: jax.Array, *, num_customers: int, num_route_nodes: int, max_steps: int) -> Instance:
    """Customers uniform in [-0.8, 0.8]^2, demand in [0.5, 1), windows as specified, nodes on a circle of 0.6."""
    places, demands, starts, widths = jax.random.split(key, 4)
    count = (num_customers,)
    start = jax.random.randint(starts, count, 0, max_steps // 2, jnp.int32)
    width = jax.random.randint(widths, count, max_steps // 3, max_steps, jnp.int32)
    angle = 2 * jnp.pi * jnp.arange(num_route_nodes, dtype=jnp.float32) / num_route_nodes
    return Instance(
        truck_position=jnp.zeros(2, jnp.float32),
        node_position=0.6 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1),
        customer_position=jax.random.uniform(places, (*count, 2), jnp.float32, -0.8, 0.8),
        demand=jax.random.uniform(demands, count, jnp.float32, 0.5, 1.0),
        window_start=start,
        window_end=jnp.minimum(start + width, max_steps),
    )
