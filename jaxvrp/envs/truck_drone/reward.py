"""What a step is worth in `truck_drone_basic`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.truck_drone.world import World
from jaxvrp.fields import parameter


class RewardWeights(struct.PyTreeNode):
    """The parameters of the reward; leaves, so they can be swept and batched."""

    delivery_bonus: float = parameter(10.0, minimum=0.0, help="for each delivery")
    late_penalty: float = parameter(0.5, minimum=0.0, help="for each step by which a delivery is late")
    energy_cost: float = parameter(0.1, minimum=0.0, help="for each unit of battery drawn")
    forced_return_penalty: float = parameter(1.0, minimum=0.0, help="for each action that the battery guard overrode")
    completion_bonus: float = parameter(50.0, minimum=0.0, help="at the end, if all are served")
    incomplete_penalty: float = parameter(10.0, minimum=0.0, help="at the end, for each customer not served")


def shared_reward(weights: RewardWeights, world: World, is_terminal: jax.Array, is_complete: jax.Array) -> jax.Array:
    """`f32[]`, of the step that led to `world`; the formula is in the docstring of `TruckDroneBasic`.

    The episode ends with this step if it `is_terminal`; nothing is left to do if it `is_complete` (both `bool[]`).
    """
    customers = world.customers
    late = jnp.maximum(customers.arrival_step - world.instance.window_end, 0).astype(jnp.float32)
    payment = weights.delivery_bonus - weights.late_penalty * late
    deliveries = jnp.where(customers.just_served, payment, 0.0).sum()
    energy = weights.energy_cost * world.drones.battery_used.sum()
    forced = weights.forced_return_penalty * jnp.sum(world.drones.forced_return, dtype=jnp.float32)
    unserved = jnp.sum(~customers.served, dtype=jnp.float32)
    ending = jnp.where(is_complete, weights.completion_bonus, -weights.incomplete_penalty * unserved)
    return deliveries - energy - forced + jnp.where(is_terminal, ending, 0.0)
