"""Decisions that hold until something happens: everybody's last choice is repeated up to the next event."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.truck_drone.physics import Physics, distance, recoverable
from jaxvrp.envs.truck_drone.world import World

ARRIVED = 1e-6
"""Map units: a truck nearer to a node than this is there."""


class Decision(struct.PyTreeNode):
    """What came of the last decision: `reward` `f32[]`, the sum over its steps, and `steps` `i32[]`, their number."""

    reward: jax.Array
    steps: jax.Array


def no_decision() -> Decision:
    """At the beginning of an episode."""
    return Decision(jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32))


def until_event(
    physics: Physics,
    before: World,
    first: World,
    *,
    advance: Callable[[World], World],
    paid: Callable[[World], jax.Array],
    is_over: Callable[[World], jax.Array],
    max_repeat: int,
) -> World:
    """The world when something has happened to somebody, or after `max_repeat` steps, with what was paid on the way.

    Args:
        physics: its parameters.
        before: the world when the decision was made.
        first: one step later.
        advance: one more step with the same choices.
        paid: the reward of the step that led to a world, `f32[]`.
        is_over: whether the episode has ended, `bool[]`.
        max_repeat: most steps of a decision.
    """

    def goes_on(carry: tuple[World, World, Decision]) -> jax.Array:
        earlier, world, decision = carry
        return (decision.steps < max_repeat) & ~is_over(world) & ~is_event(physics, earlier, world)

    def repeat(carry: tuple[World, World, Decision]) -> tuple[World, World, Decision]:
        _, world, decision = carry
        later = advance(world)
        return world, later, Decision(decision.reward + paid(later), decision.steps + 1)

    start = Decision(paid(first), jnp.ones((), jnp.int32))
    # The decision of the world before is no longer looked at, but its structure has to be that of a world.
    _, world, decision = jax.lax.while_loop(goes_on, repeat, (before, first, start))
    return world.replace(decision=decision)


def is_event(physics: Physics, before: World, after: World) -> jax.Array:
    """`bool[]`: between two successive worlds, something happened to somebody.

    A customer was served; a drone boarded, was released, crashed, came within the truck's reach, is fully charged, or
    was sent home by its battery guard; the truck arrived at a node.
    """
    boarded = before.drones.is_onboard != after.drones.is_onboard
    crashed = before.drones.is_crashed != after.drones.is_crashed
    near = recoverable(physics, after) & ~recoverable(physics, before)
    charged = (after.drones.battery >= physics.max_battery) & (before.drones.battery < physics.max_battery)
    sent_home = after.drones.forced_return & ~before.drones.forced_return
    of_drones = boarded | crashed | near | charged | sent_home
    return of_drones.any() | after.customers.just_served.any() | (_is_at_node(after) & ~_is_at_node(before))


def _is_at_node(world: World) -> jax.Array:
    """`bool[]`."""
    return (distance(world.instance.node_position, world.truck.position) < ARRIVED).any()
