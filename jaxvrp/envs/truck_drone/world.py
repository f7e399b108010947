"""The entities of the truck-and-drones world, as immutable pytrees.

`D` drones, `C` customers, `N` route nodes. Distances are in map units, times in steps, battery as a fraction of a
full charge.
"""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.envs.truck_drone.problem.instance import Instance, only
from jaxvrp.notebook import NotebookStill

ONBOARD, FLYING, RETURNING, CRASHED = 0, 1, 2, 3
"""Drone status."""

STATUS_NAMES = ("onboard", "flying", "returning", "crashed")
"""Names of the status of a drone in episode files and pictures, by number."""

STAY = 0
"""Truck action 0; then `MOVE_0..MOVE_{N-1}, RELEASE_0..RELEASE_{D-1}, RECOVER_0..RECOVER_{D-1}`."""

HOVER, RETURN, DELIVER = 0, 1, 2
"""Drone actions: `HOVER`, `RETURN`, then `DELIVER + i` for customer `i`."""


class Truck(struct.PyTreeNode):
    """The truck."""

    position: jax.Array  # `f32[2]`
    velocity: jax.Array  # `f32[2]`, map units per time unit
    # `i32[]`, the route node that it keeps driving to, -1 for none; None where it drives only in steps of MOVE
    target_node: Annotated[jax.Array | None, fields.Whole(-1, "instance/node_position")] = None


class Drones(struct.PyTreeNode):
    """The fleet."""

    position: jax.Array  # `f32[D, 2]`
    velocity: jax.Array  # `f32[D, 2]`, map units per time unit
    battery: jax.Array  # `f32[D]`
    status: Annotated[jax.Array, fields.Whole(ONBOARD, CRASHED)]  # `i32[D]`
    carrying: Annotated[jax.Array, fields.Whole(-1, "customers/served")]  # `i32[D]`, whose package; -1 for none
    target: jax.Array  # `f32[D, 2]`, zeros without a target
    has_target: jax.Array  # `bool[D]`
    battery_used: jax.Array  # `f32[D]`, drawn in this step
    flown: jax.Array  # `f32[D]`, map units in this step; riding and the snap on boarding do not count
    forced_return: jax.Array  # `bool[D]`, the battery guard overrode the action of this step

    @property
    def is_onboard(self) -> jax.Array:
        """`bool[D]`: rides on the truck."""
        return self.status == ONBOARD

    @property
    def is_airborne(self) -> jax.Array:
        """`bool[D]`: neither onboard nor crashed."""
        return (self.status == FLYING) | (self.status == RETURNING)

    @property
    def is_crashed(self) -> jax.Array:
        """`bool[D]`: ran out of battery in flight."""
        return self.status == CRASHED

    @property
    def just_crashed(self) -> jax.Array:
        """`bool[D]`: ran out of battery in this step; a wreck draws nothing later."""
        return self.is_crashed & (self.battery_used > 0)

    @property
    def is_waiting(self) -> jax.Array:
        """`bool[D]`: stands at the customer whose package it carries; a drone that hovers has no target."""
        stands = (self.velocity[..., 0] == 0) & (self.velocity[..., 1] == 0)
        return (self.status == FLYING) & (self.carrying >= 0) & self.has_target & stands


class Customers(struct.PyTreeNode):
    """What became of the customers."""

    served: jax.Array  # `bool[C]`; customers that only fill up the size (`Instance.exists`) are from the start
    just_served: jax.Array  # `bool[C]`, in this step
    arrival_step: jax.Array  # `i32[C]`, -1 until served
    served_by: Annotated[jax.Array, fields.Whole(-1, "drones/status")]  # `i32[C]`, the drone; -1 until served


class Totals(struct.PyTreeNode):
    """Totals of the episode so far: counts `i32[]`, distances (map units) and battery `f32[]`."""

    on_time: jax.Array
    invalid_actions: jax.Array
    forced_returns: jax.Array
    battery_used: jax.Array
    truck_distance: jax.Array
    drone_distance: jax.Array


class Decision(struct.PyTreeNode):
    """The last decision and its outcome, where a decision holds for several steps."""

    truck: jax.Array  # `i32[]`, the action that was repeated; pictures play its steps again from it
    drone: jax.Array  # `i32[D]`, likewise
    reward: jax.Array  # `f32[]`, the sum over its steps
    steps: jax.Array  # `i32[]`, their number


class World(NotebookStill, struct.PyTreeNode):
    """The state of the environment: the problem and everything that changes in it."""

    instance: Instance
    truck: Truck
    drones: Drones
    customers: Customers
    totals: Totals
    step: jax.Array  # `i32[]`, counts from 0
    decision: Any = ()  # the last decision; () where each step has its own


def initial_world(
    instance: Instance, num_drones: int, battery: jax.Array | float, *, keeps_target: bool = False
) -> World:
    """The world at step 0: drones onboard with charge `battery`, nothing served; the truck may keep a target node."""
    num_customers = instance.demand.shape[0]
    count, amount = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    vectors = jnp.zeros((num_drones, 2), jnp.float32)
    flags, nowhere = jnp.zeros(num_drones, bool), jnp.full((), -1, jnp.int32)
    return World(
        instance=instance,
        truck=Truck(instance.truck_position, jnp.zeros(2, jnp.float32), nowhere if keeps_target else None),
        drones=Drones(
            position=jnp.broadcast_to(instance.truck_position, (num_drones, 2)),
            velocity=vectors,
            battery=jnp.full(num_drones, battery, jnp.float32),
            status=jnp.full(num_drones, ONBOARD, jnp.int32),
            carrying=jnp.full(num_drones, -1, jnp.int32),
            target=vectors,
            has_target=flags,
            battery_used=jnp.zeros(num_drones, jnp.float32),
            flown=jnp.zeros(num_drones, jnp.float32),
            forced_return=flags,
        ),
        customers=Customers(
            served=jnp.zeros(num_customers, bool) if instance.exists is None else ~instance.exists,
            just_served=jnp.zeros(num_customers, bool),
            arrival_step=jnp.full(num_customers, -1, jnp.int32),
            served_by=jnp.full(num_customers, -1, jnp.int32),
        ),
        totals=Totals(count, count, count, amount, amount, amount),
        step=count,
    )


def is_known(world: World) -> jax.Array:
    """`bool[C]`: agents know of the customer in this step."""
    if world.instance.known_from is None:
        return jnp.ones_like(world.customers.served)
    return world.instance.known_from <= world.step


def as_known(world: World) -> World:
    """The world without the customers that agents do not know yet, which look like padding.

    Observations and masks are computed from this world, so that nothing about an unknown customer leaks.
    """
    if world.instance.known_from is None:
        return world
    known = is_known(world)
    customers = world.customers.replace(served=world.customers.served | ~known)
    return world.replace(instance=only(world.instance, known), customers=customers)
