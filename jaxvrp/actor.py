"""Who chooses actions: one protocol for heuristics and networks, and masked random play."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from jaxvrp.environment import Environment, State, TimeStep
from jaxvrp.spaces import ByRole, Discrete

Carry = Any
"""What an actor carries from step to step of an episode (a recurrent state), a pytree; () for nothing."""


class Actor(Protocol):
    """Chooses the actions of a whole batch `[E]`; pure, so it can be jitted and scanned."""

    def init(self, num_envs: int) -> Carry:
        """What it remembers at the beginning of an episode (a recurrent state), leading axis `[E]`; or ()."""
        ...

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """Actions `{role: [E, agents, ...]}` from the states and timesteps of a batch, both with leading axis `[E]`."""
        ...


def sample_masked(uniform: jax.Array, mask: jax.Array) -> jax.Array:
    """A uniform choice among the legal actions, from one uniform number each.

    Args:
        uniform: `f32[...]` in [0, 1).
        mask: `bool[..., actions]`.

    Returns:
        `i32[...]`; 0 where the mask has no legal action.
    """
    rank = jnp.cumsum(mask, axis=-1, dtype=jnp.int32)
    legal = rank[..., -1]
    # 24 random bits times a small count can round up to the count itself.
    chosen = jnp.minimum((uniform * legal).astype(jnp.int32), legal - 1)
    return jnp.sum(rank <= chosen[..., None], axis=-1, dtype=jnp.int32)


class RandomActor:
    """Masked random play: uniform over the legal actions (or over a box)."""

    def __init__(self, env: Environment):
        self.roles = env.roles

    def init(self, num_envs: int) -> Carry:
        """Remembers nothing."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        del state
        batch = timestep.terminated.shape
        counts = [role.num_agents for role in self.roles.values()]
        uniform = jax.random.uniform(key, (*batch, sum(counts)), jnp.float32)
        action, start = {}, 0
        for (name, role), count in zip(self.roles.items(), counts, strict=True):
            if isinstance(role.action, Discrete):
                action[name] = sample_masked(uniform[..., start : start + count], timestep.action_mask[name])
            else:
                action[name] = role.action.sample(jax.random.fold_in(key, start), (*batch, count))
            start += count
        return action, carry
