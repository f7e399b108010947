"""Why actions of truck and drones are masked, and why a drone is sent home; by the rules of both scenarios."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.physics import Freight, Physics, battery_reserve, distance
from jaxvrp.envs.truck_drone.scenarios.truck_drone_basic import TruckDroneBasic
from jaxvrp.envs.truck_drone.scenarios.vrpd_tw import VrpdTw
from jaxvrp.envs.truck_drone.world import World, is_known
from jaxvrp.replay.reasons import ALLOWED, Cause, Reasons, first_cause

WORDS = (
    "",
    "has crashed",
    "on board: the truck has to release it first",
    "in the air already",
    "on board already",
    "too far from the truck by {amount}",
    "no such customer",
    "served at step {amount}",
    "not known before step {amount}",
    "carries the parcel for customer {other}",
    "parcels are loaded at the truck, which is out of reach by {amount}",
)
(_, CRASHED, ON_BOARD, IN_THE_AIR, BOARDED, TOO_FAR, MISSING, SERVED, UNKNOWN, CARRIES, LOADED_AT_TRUCK) = range(
    len(WORDS)
)


def reasons_of(env: Any) -> Reasons | None:
    """Of the scenarios that come with the environment; None where one masks by rules of its own."""
    rules = ("action_mask", "may_load")
    known = any(
        all(getattr(type(env), name) is getattr(scenario, name) for name in rules)
        for scenario in (TruckDroneBasic, VrpdTw)
    )
    return Reasons(WORDS, lambda world: explain(env, world)) if known else None


def explain(env: TruckDroneBasic, world: World) -> dict[str, Cause]:
    """`{"truck": Cause [1, 1 + N + 2D], "drone": Cause [D, 2 + C]}`; distances beyond what is allowed, in map units."""
    return {"truck": _of_truck(env, world), "drone": _of_drones(env, world)}


def battery_shortfall(env: Physics, world: World) -> jax.Array:
    """`f32[D]`: how much charge the battery guard misses, of drones that it sends home; 0 for all others."""
    missing = battery_reserve(env, world) - world.drones.battery
    return jnp.where(world.drones.is_airborne, jnp.maximum(missing, 0.0), 0.0)


def _gap(env: TruckDroneBasic, world: World) -> jax.Array:
    """`f32[D]`: how far each drone is beyond the truck's reach; at most 0 within it."""
    return distance(world.drones.position, world.truck.position) - env.recovery_threshold


def _of_truck(env: TruckDroneBasic, world: World) -> Cause:
    drones, gap = world.drones, _gap(env, world)
    free = jnp.full(1 + world.instance.node_position.shape[0], ALLOWED, jnp.int32)
    release = jnp.where(drones.is_onboard, ALLOWED, jnp.where(drones.is_crashed, CRASHED, IN_THE_AIR))
    in_flight = jnp.where(gap > 0, TOO_FAR, ALLOWED)
    recover = jnp.where(drones.is_onboard, BOARDED, jnp.where(drones.is_crashed, CRASHED, in_flight))
    kind = jnp.concatenate([free, release, recover]).astype(jnp.int32)
    amount = jnp.concatenate([jnp.zeros(free.shape[0] + gap.shape[0], jnp.float32), gap])
    return Cause(kind[None], amount[None], jnp.zeros_like(kind)[None])


def _of_drones(env: TruckDroneBasic, world: World) -> Cause:
    drones, customers, instance = world.drones, world.customers, world.instance
    count, carrying = customers.served.shape[0], drones.carrying[:, None]
    exists = jnp.ones(count, bool) if instance.exists is None else instance.exists
    known_from = jnp.zeros(count, jnp.int32) if instance.known_from is None else instance.known_from
    out_of_reach = jnp.maximum(_gap(env, world), 0.0)[:, None]
    if not (isinstance(env, Freight) and env.load_at_truck):
        out_of_reach = jnp.zeros_like(out_of_reach)
    others = (carrying >= 0) & (carrying != jnp.arange(count))
    kind, amount = first_cause(
        [
            (drones.is_crashed[:, None], CRASHED, 0.0),
            (drones.is_onboard[:, None], ON_BOARD, 0.0),
            (~exists, MISSING, 0.0),
            (customers.served, SERVED, customers.arrival_step),
            (~is_known(world), UNKNOWN, known_from),
            (others, CARRIES, 0.0),
            ((carrying < 0) & (out_of_reach > 0), LOADED_AT_TRUCK, out_of_reach),
        ],
        others.shape,
    )
    grounded = jnp.where(drones.is_crashed, CRASHED, jnp.where(drones.is_onboard, ON_BOARD, ALLOWED))
    own = jnp.stack([jnp.zeros_like(grounded), grounded], axis=1)
    return Cause(
        jnp.concatenate([own, kind], axis=1).astype(jnp.int32),
        jnp.concatenate([jnp.zeros_like(own, jnp.float32), amount], axis=1).astype(jnp.float32),
        jnp.concatenate([own, jnp.broadcast_to(carrying, kind.shape)], axis=1).astype(jnp.int32),
    )
