"""The nearest neighbour under the mask."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry, Memoryless
from jaxvrp.environment import TimeStep
from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.rules import State


class NearestActor(Memoryless):
    """Goes to the nearest allowed customer; to the depot if there is none."""

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del key
        customers = timestep.action_mask["vehicle"].at[..., 0].set(False)
        distance = jax.vmap(lambda state: rules.outlook(state).distance)(state)[:, None]
        # With no customer all are inf, and the first is the depot.
        return {"vehicle": jnp.argmin(jnp.where(customers, distance, jnp.inf), axis=-1).astype(jnp.int32)}, carry
