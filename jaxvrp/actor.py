"""The protocol of heuristics and networks that choose actions, and masked random play."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.environment import Environment, State, TimeStep
from jaxvrp.spaces import ByRole, Discrete

Carry = Any
"""A pytree that an actor carries from step to step of an episode (a recurrent state); () for nothing."""


class Actor(Protocol):
    """Chooses the actions of a whole batch `[E]`; pure, so it can be jitted and scanned."""

    def init(self, num_envs: int) -> Carry:
        """The carry at the beginning of an episode, leading axis `[E]`; or ()."""
        ...

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """Actions `{role: [E, agents, ...]}` from the states and timesteps of a batch, both with leading axis `[E]`."""
        ...


def sample_masked(uniform: jax.Array, mask: jax.Array) -> jax.Array:
    """A uniform choice among the legal actions of `mask` (`bool[..., actions]`), by `uniform` (`f32[...]` in [0, 1)).

    `i32[...]`; 0 where the mask has no legal action.
    """
    rank = jax.lax.platform_dependent(mask, cpu=_ranks_by_product, default=_ranks_by_sums)
    legal = rank[..., -1]
    # 24 random bits times a small count can round up to the count itself.
    chosen = jnp.minimum((uniform * legal).astype(jnp.int32), legal - 1)
    return jnp.sum(rank <= chosen[..., None], axis=-1, dtype=jnp.int32)


def _ranks_by_product(mask: jax.Array) -> jax.Array:
    """`i32[..., actions]`, how many actions up to each are legal; exact in float32, and the fastest on a CPU."""
    # By way of bytes: of 5, 7, 21 and other odd numbers of actions, XLA's code for AMD's CPUs took ten times as long.
    legal = mask.astype(jnp.uint8).astype(jnp.float32)
    return jnp.matmul(legal, _triangle(mask).astype(np.float32)).astype(jnp.int32)


def _ranks_by_sums(mask: jax.Array) -> jax.Array:
    """The same for a GPU, which starts two kernels more for a product, and for a TPU."""
    return jnp.sum(mask[..., :, None] & _triangle(mask), axis=-2, dtype=jnp.int32)


def _triangle(mask: jax.Array) -> np.ndarray:
    """`bool[actions, actions]`, whether the action of a row is no later than that of a column."""
    number = np.arange(mask.shape[-1])
    return number[:, None] <= number


class Memoryless:
    """An actor that carries nothing from one decision to the next."""

    def init(self, num_envs: int) -> Carry:
        """See `Actor.init`."""
        del num_envs
        return ()


class RandomActor(Memoryless):
    """Masked random play: uniform over the legal actions (or over a box)."""

    def __init__(self, env: Environment):
        self.roles = env.roles

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        batch = timestep.terminated.shape
        uniform = jax.random.uniform(key, (*batch, sum(role.num_agents for role in self.roles.values())), jnp.float32)
        action, start = {}, 0
        for name, role in self.roles.items():
            end = start + role.num_agents
            if isinstance(role.action, Discrete):
                action[name] = sample_masked(uniform[..., start:end], timestep.action_mask[name])
            else:
                action[name] = role.action.sample(jax.random.fold_in(key, start), (*batch, role.num_agents))
            start = end
        return action, carry
