"""What both dispatchers share: matching drones with customers, and the actions that follow."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import recoverable
from jaxvrp.envs.truck_drone.world import DELIVER, HOVER, RETURN, STAY, World

SLACK = 1e-4
"""Battery, or map units: far above the rounding of float32, far below any trip; a plan at the very edge of its battery
is not begun."""


def joint_action(
    world: World, mask: dict[str, jax.Array], customer: jax.Array, truck: jax.Array
) -> dict[str, jax.Array]:
    """Airborne drones deliver to their `customer` (`i32[D]`, -1 for none) or return, the truck does `truck` (`i32[]`).

    `{"truck": i32[1], "drone": i32[D]}`; 0 where the `mask` forbids an action, as a scenario may.
    """
    drone = jnp.where(customer >= 0, DELIVER + customer, RETURN)
    drone = jnp.where(world.drones.is_airborne, drone, HOVER)
    return {
        role: jnp.where(jnp.take_along_axis(mask[role], action[:, None], axis=1)[:, 0], action, 0)
        for role, action in (("truck", truck[None]), ("drone", drone))
    }


def truck_action(
    env: TruckDrone,
    world: World,
    customer: jax.Array,
    *,
    released: jax.Array,
    node: jax.Array,
    moves: jax.Array,
    is_free: jax.Array | bool = True,
) -> jax.Array:
    """RELEASE, else MOVE, else RECOVER, else STAY: `i32[]`, given the `customer` (`i32[D]`) of each drone.

    `released` (`i32[]`) is the drone that leaves first; the truck drives to `node` (`i32[]`) if it `moves` (`bool[]`),
    and releases or recovers only where it `is_free` to.
    """
    idle, release = recoverable(env, world) & (customer < 0), 1 + env.num_route_nodes
    recover = release + env.num_drones + jax.lax.argmax(idle, 0, jnp.int32)
    action = jnp.where(idle.any() & is_free, recover, STAY)
    action = jnp.where(moves, 1 + node, action)
    waits = world.drones.is_onboard & (customer >= 0)
    return jnp.where(waits.any() & is_free, release + released, action)


def assign(
    world: World,
    may_deliver: jax.Array,
    affordable: jax.Array,
    timely: jax.Array | bool,
    cost: jax.Array,
    rank_cost: jax.Array | float,
) -> jax.Array:
    """The customer of each drone, `i32[D]`, -1 for none, the cheapest pair first; arrays are `[D, C]`.

    `may_deliver` is the mask of the DELIVER actions; onboard drones are meant to be released for their customer. A
    drone keeps the package that it carries, whether it is `timely` or not. Loaded drones choose first, then airborne
    ones, so that a drone just released does not lose its customer to one onboard: each rank adds `rank_cost`.
    """
    drones, count = world.drones, world.customers.served.shape[0]
    onboard, loaded = drones.is_onboard[:, None], drones.carrying[:, None] >= 0
    free = ~world.customers.served & ~claimed(drones.carrying, count) & timely
    candidates = affordable & jnp.where(onboard, free, may_deliver & (free | loaded))
    rank = jnp.where(loaded, 0.0, jnp.where(onboard, 2.0, 1.0))
    return match_cheapest(jnp.where(candidates, cost + rank * rank_cost, jnp.inf))


def claimed(customer: jax.Array, num_customers: int) -> jax.Array:
    """`bool[C]`: the customers that are among `customer` (`i32[D]`, -1 for none)."""
    return (customer[:, None] == jnp.arange(num_customers, dtype=jnp.int32)).any(axis=0)


def unclaimed(world: World, customer: jax.Array) -> jax.Array:
    """`bool[C]`: not served, carried by no drone, and not among `customer` (`i32[D]`, -1 for none)."""
    count = world.customers.served.shape[0]
    return ~world.customers.served & ~claimed(world.drones.carrying, count) & ~claimed(customer, count)


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

    unmatched = jnp.full(num_drones, -1, jnp.int32)
    return jax.lax.fori_loop(0, num_drones, match_pair, (unmatched, cost))[0]
