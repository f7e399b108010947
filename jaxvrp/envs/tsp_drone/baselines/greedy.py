"""The nearest neighbour for both."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.tsp_drone.problem.instance import drone_time, truck_time
from jaxvrp.envs.tsp_drone.problem.operations import FIRST_SERVE, MEET, STAY_WITH_TRUCK
from jaxvrp.envs.tsp_drone.rules import State

LATER = 1e6
"""Added to times to nodes that are served: unserved ones come first."""


class NearestNeighbourActor:
    """The truck goes to the nearest customer, the drone flies to the nearest of the others, and they meet at once.

    Nearest in time, and as far as the masks allow. With nobody left to serve the truck goes home; if the drone cannot
    reach it there, to the nearest node where it can.
    """

    def init(self, num_envs: int) -> Carry:
        """Nothing to carry from one decision to the next."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del key
        masks = timestep.action_mask
        drone = jax.vmap(_drone_choice)(state, masks["drone"][:, 0])
        truck = jax.vmap(_truck_choice)(state, masks["truck"][:, 0])
        return {"drone": drone[:, None], "truck": truck[:, None]}, carry


def _truck_times(state: State) -> jax.Array:
    """`f32[n]`, later for those that are served, and least of these for the depot."""
    nodes = jnp.arange(state.served.shape[0], dtype=jnp.int32)
    times = truck_time(state.instance, state.truck_node, nodes)
    return jnp.where(state.served, jnp.where(nodes == 0, LATER, 2 * LATER + times), times)


def _truck_choice(state: State, mask: jax.Array) -> jax.Array:
    """`i32[]`, by the mask, `bool[n]`."""
    return jax.lax.argmin(jnp.where(mask, _truck_times(state), jnp.inf), 0, jnp.int32)


def _drone_choice(state: State, mask: jax.Array) -> jax.Array:
    """`i32[]`, by the mask, `bool[n + 2]`."""
    nodes = jnp.arange(state.served.shape[0], dtype=jnp.int32)
    trucks = jax.lax.argmin(_truck_times(state), 0, jnp.int32)
    # The truck's next customer is left to it, unless there is no other: then the truck goes home meanwhile.
    is_left = (nodes == trucks) & (jnp.sum(~state.served) > 1)
    times = drone_time(state.instance, state.truck_node, nodes)
    servable = mask[FIRST_SERVE:] & ~is_left
    nearest = jax.lax.argmin(jnp.where(servable, times, jnp.inf), 0, jnp.int32)
    flies = jnp.where(servable.any(), FIRST_SERVE + nearest, STAY_WITH_TRUCK)
    return jnp.where(mask[MEET], MEET, flies).astype(jnp.int32)
