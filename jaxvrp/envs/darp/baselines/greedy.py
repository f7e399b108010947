"""Baselines: the nearest neighbour and the earliest deadline under the mask."""

from __future__ import annotations

import abc

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.rules import State


class _PriorityActor(abc.ABC):
    """Goes to the allowed customer with the least priority number, to the depot only if there is none."""

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

    @abc.abstractmethod
    def priority(self, state: State) -> jax.Array:
        """`f32[N+1]` of one state: the least goes first."""


class NearestNeighbourActor(_PriorityActor):
    """Goes to the nearest customer that is allowed, pickup or drop-off."""

    def priority(self, state: State) -> jax.Array:
        """`f32[N+1]`, distance from the current node."""
        return rules.outlook(state).distance


class EarliestDeadlineActor(_PriorityActor):
    """Goes to the allowed customer whose deadline is next; nodes without deadline come last."""

    def priority(self, state: State) -> jax.Array:
        """`f32[N+1]`, deadlines; finite, so that the depot (inf) comes last."""
        return jnp.minimum(state.binding.deadline, jnp.finfo(jnp.float32).max)
