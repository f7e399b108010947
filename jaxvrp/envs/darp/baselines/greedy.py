"""Baselines under the mask: actors that go to the allowed customer that is first by some rule."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.rules import State


class PriorityActor:
    """Goes to the allowed customer with the least priority, `f32[N+1]` of a state; to the depot if there is none."""

    def __init__(self, priority: Callable[[State], jax.Array]):
        self.priority = priority

    def init(self, num_envs: int) -> Carry:
        """Nothing to carry from one decision to the next."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del key
        customers = timestep.action_mask["vehicle"].at[..., 0].set(False)
        priority = jax.vmap(self.priority)(state)[:, None]
        # With no customer all are inf, and the first is the depot.
        return {"vehicle": jnp.argmin(jnp.where(customers, priority, jnp.inf), axis=-1).astype(jnp.int32)}, carry


def distance(state: State) -> jax.Array:
    """From where the vehicle is: the nearest customer goes first."""
    return rules.outlook(state).distance


def deadline(state: State) -> jax.Array:
    """The next deadline goes first; finite, so that the depot (inf) comes last."""
    return jnp.minimum(state.binding.deadline, jnp.finfo(jnp.float32).max)
