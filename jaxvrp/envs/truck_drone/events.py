"""Decisions that hold until something happens: everybody's last choice is repeated up to the next event."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.truck_drone.physics import ARRIVED, Physics, distance, recoverable, step
from jaxvrp.envs.truck_drone.world import World, is_known

Carry = tuple[World, World, jax.Array, jax.Array]
"""Of the loop over the steps of a decision: the last two worlds, what was paid so far, steps so far."""


class Decision(struct.PyTreeNode):
    """The last decision and what came of it.

    Attributes:
        truck, drone: the actions that were held, `i32[]` and `i32[D]`; with them pictures can fill in its steps.
        reward: `f32[]`, the sum over its steps.
        steps: `i32[]`, their number.
    """

    truck: jax.Array
    drone: jax.Array
    reward: jax.Array
    steps: jax.Array


def no_decision(num_drones: int) -> Decision:
    """At the beginning of an episode."""
    nothing = jnp.zeros((), jnp.int32)
    return Decision(nothing, jnp.zeros(num_drones, jnp.int32), jnp.zeros((), jnp.float32), nothing)


def until_event(
    physics: Physics,
    before: World,
    truck: jax.Array,
    drone: jax.Array,
    num_invalid: jax.Array,
    *,
    paid: Callable[[World], jax.Array],
    is_over: Callable[[World], jax.Array],
    max_repeat: int,
) -> World:
    """The world when something has happened to somebody, or after `max_repeat` steps, with what was paid on the way.

    Args:
        physics: its parameters.
        before: the world when the decision was made.
        truck, drone: the actions, `i32[]` and `i32[D]`.
        num_invalid: how many of them are fallbacks, `i32[]`; counted once.
        paid: the reward of the step that led to a world, `f32[]`.
        is_over: whether the episode has ended, `bool[]`.
        max_repeat: most steps of a decision.
    """

    def goes_on(carry: Carry) -> jax.Array:
        earlier, world, _, steps = carry
        return (steps < max_repeat) & ~is_over(world) & ~is_event(physics, earlier, world)

    def repeat(carry: Carry) -> Carry:
        _, world, reward, steps = carry
        later = step(physics, world, truck, drone, jnp.zeros((), jnp.int32))
        return world, later, reward + paid(later), steps + 1

    first = step(physics, before, truck, drone, num_invalid)
    # The decision of the world before is no longer looked at, but its structure has to be that of a world.
    start = (before, first, paid(first), jnp.ones((), jnp.int32))
    _, world, reward, steps = jax.lax.while_loop(goes_on, repeat, start)
    return world.replace(decision=Decision(truck, drone, reward, steps))


def is_event(physics: Physics, before: World, after: World) -> jax.Array:
    """`bool[]`: between two successive worlds, something happened to somebody.

    A customer was served, or became known; a drone boarded, was released, crashed, came within the truck's reach, is
    fully charged, or was sent home by its battery guard; the truck arrived at a node.
    """
    boarded = before.drones.is_onboard != after.drones.is_onboard
    crashed = before.drones.is_crashed != after.drones.is_crashed
    near = recoverable(physics, after) & ~recoverable(physics, before)
    charged = (after.drones.battery >= physics.max_battery) & (before.drones.battery < physics.max_battery)
    sent_home = after.drones.forced_return & ~before.drones.forced_return
    of_drones = boarded | crashed | near | charged | sent_home
    news = is_known(after) & ~is_known(before)
    arrived = _is_at_node(after) & ~_is_at_node(before)
    return of_drones.any() | (after.customers.just_served | news).any() | arrived


def _is_at_node(world: World) -> jax.Array:
    """`bool[]`."""
    return (distance(world.instance.node_position, world.truck.position) < ARRIVED).any()
