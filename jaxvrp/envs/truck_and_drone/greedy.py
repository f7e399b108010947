"""The nearest neighbour for both."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry, Memoryless
from jaxvrp.environment import TimeStep
from jaxvrp.envs.truck_and_drone.legs import drone_time, truck_time
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE, MEET, STAY_WITH_TRUCK
from jaxvrp.envs.truck_and_drone.rules import State


class NearestNeighbourActor(Memoryless):
    """The truck goes to the nearest customer, the drone flies to the nearest of the others, and they meet at once.

    Nearest in time, as far as the masks allow. If all customers are served, the truck goes home; if the drone cannot
    reach it there, to the nearest node where it can.
    """

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del key
        masks = timestep.action_mask
        drone, truck = jax.vmap(_choices)(state, masks["drone"][:, 0], masks["truck"][:, 0])
        return {"drone": drone[:, None], "truck": truck[:, None]}, carry


def _choices(state: State, drone_mask: jax.Array, truck_mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`i32[]` each, by the masks, `bool[n + 2]` and `bool[n]`."""
    nodes = jnp.arange(state.served.shape[0], dtype=jnp.int32)
    # Nodes that are served come later, and the depot first among them.
    truck_times = truck_time(state.instance, state.truck_node, nodes)
    later = 2.0 * truck_times.max()
    truck_times = jnp.where(state.served, jnp.where(nodes == 0, later, 2.0 * later + truck_times), truck_times)
    trucks = jax.lax.argmin(truck_times, 0, jnp.int32)
    # The truck's next customer is left to it, unless there is no other: then the truck goes home meanwhile.
    is_left = (nodes == trucks) & (jnp.sum(~state.served) > 1)
    times = drone_time(state.instance, state.truck_node, nodes)
    servable = drone_mask[FIRST_SERVE:] & ~is_left
    nearest = jax.lax.argmin(jnp.where(servable, times, jnp.inf), 0, jnp.int32)
    flies = jnp.where(servable.any(), FIRST_SERVE + nearest, STAY_WITH_TRUCK)
    truck = jax.lax.argmin(jnp.where(truck_mask, truck_times, jnp.inf), 0, jnp.int32)
    return jnp.where(drone_mask[MEET], MEET, flies).astype(jnp.int32), truck
