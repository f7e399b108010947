"""The pilot method itself: at each step what the best plan of simple rules does next (Duin & Voss 1999)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.darp import prospect
from jaxvrp.envs.darp.rules import State


class PilotActor:
    """Goes where the shortest of the plans begins that `prospects` show; whether they are shown does not matter."""

    def init(self, num_envs: int) -> Carry:
        """Nothing to carry from one decision to the next."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del key
        allowed = timestep.action_mask["vehicle"]
        excess = jax.vmap(prospect.excess)(state, allowed[:, 0]).least[:, None]
        return {"vehicle": jnp.argmin(jnp.where(allowed, excess, jnp.inf), axis=-1).astype(jnp.int32)}, carry
