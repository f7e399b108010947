"""What dispatchers share: who gets which customer, and what the team does then."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.world import DELIVER, HOVER, RETURN, World

SLACK = 1e-4
"""Battery, or map units: far above the rounding of float32, far below any trip; a plan at the very edge of its battery
is not begun."""


def legal(action: jax.Array, mask: jax.Array) -> jax.Array:
    """`action` `i32[agents]`, or 0 where `mask` `bool[agents, actions]` forbids it (a scenario may forbid more)."""
    return jnp.where(jnp.take_along_axis(mask, action[:, None], axis=1)[:, 0], action, 0)


def joint_action(
    world: World, mask: dict[str, jax.Array], customer: jax.Array, truck: jax.Array
) -> dict[str, jax.Array]:
    """Airborne drones deliver to their `customer` (`i32[D]`, -1 for none) or return, the truck does `truck` (`i32[]`).

    `{"truck": i32[1], "drone": i32[D]}`, legal by the `mask`.
    """
    drone = jnp.where(customer >= 0, DELIVER + customer, RETURN)
    drone = jnp.where(world.drones.is_airborne, drone, HOVER)
    return {"truck": legal(truck[None], mask["truck"]), "drone": legal(drone, mask["drone"])}


def claimed(customer: jax.Array, num_customers: int) -> jax.Array:
    """`bool[C]`: who is among `customer` (`i32[D]`, -1 for none)."""
    return (customer[:, None] == jnp.arange(num_customers, dtype=jnp.int32)).any(axis=0)


def match_cheapest(cost: jax.Array) -> jax.Array:
    """Match the cheapest pair, strike out its row and column, and so on: `f32[D, C]` (inf: never) to `i32[D]`."""
    num_drones, num_customers = cost.shape
    rows = jnp.arange(num_drones, dtype=jnp.int32)
    columns = jnp.arange(num_customers, dtype=jnp.int32)

    def match_pair(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        matched, cost = carry
        pair = jax.lax.argmin(cost.ravel(), 0, jnp.int32)
        row, column = pair // num_customers, pair % num_customers
        matched = jnp.where((rows == row) & jnp.isfinite(cost[row, column]), column, matched)
        return matched, jnp.where((rows == row)[:, None] | (columns == column), jnp.inf, cost)

    nobody = jnp.full(num_drones, -1, jnp.int32)
    return jax.lax.fori_loop(0, num_drones, match_pair, (nobody, cost))[0]
