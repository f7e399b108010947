"""Random instances of `truck_drone_basic`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.problem.instance import Instance


def generate(key: jax.Array, *, num_customers: int, num_route_nodes: int, max_steps: int) -> Instance:
    """Draw one problem.

    The truck starts at the origin, and nodes are spread evenly on a circle of radius 0.6 around it. Customers are
    uniform in [-0.8, 0.8]^2, demands in [0.5, 1). Windows start uniformly in [0, max_steps // 2), are
    [max_steps // 3, max_steps) steps wide, and end with the episode at the latest.
    """
    place_key, demand_key, start_key, width_key = jax.random.split(key, 4)
    count = (num_customers,)
    start = jax.random.randint(start_key, count, 0, max_steps // 2, jnp.int32)
    width = jax.random.randint(width_key, count, max_steps // 3, max_steps, jnp.int32)
    angle = 2 * jnp.pi * jnp.arange(num_route_nodes, dtype=jnp.float32) / num_route_nodes
    return Instance(
        truck_position=jnp.zeros(2, jnp.float32),
        node_position=0.6 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1),
        customer_position=jax.random.uniform(place_key, (*count, 2), jnp.float32, -0.8, 0.8),
        demand=jax.random.uniform(demand_key, count, jnp.float32, 0.5, 1.0),
        window_start=start,
        window_end=jnp.minimum(start + width, max_steps),
    )
