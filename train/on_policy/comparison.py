"""How much better another action is than the teacher's, if the teacher plays on (AggreVaTe, Ross & Bagnell 2014).

Both are played from the same state, so the same future happens to both: the difference is what the action makes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp import Environment
from jaxvrp.actor import Actor
from jaxvrp.spaces import ByRole


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Compares actions of some `roles` by the rewards of the next `steps` steps; the `teacher` remembers nothing."""

    env: Environment
    teacher: Actor
    roles: tuple[str, ...]
    steps: int

    def compare(self, key: jax.Array, state: Any, mask: ByRole, taught: ByRole) -> tuple[ByRole, ByRole]:
        """Rivals of the teacher's actions, and what they gain.

        Args:
            key: draws the rivals.
            state: of a batch of environments, `[E, ...]`.
            mask: the legal actions there, `{role: bool[E, agents, actions]}`.
            taught: the teacher's actions, `{role: i32[E, agents]}`, legal.

        Returns:
            `{role: i32[E, agents]}`, of each role another legal action of one agent, drawn evenly from all others;
            where there is none, the teacher's. `{role: f32[E, agents]}`, how much more that agent is paid.
        """
        keys = jax.random.split(key, len(self.roles))
        rivals = {role: drawn_rivals(key, mask[role], taught[role]) for role, key in zip(self.roles, keys, strict=True)}
        plays = [taught, *({**taught, role: rival} for role, rival in rivals.items())]
        joined = jax.tree.map(lambda *actions: jnp.concatenate(actions), *plays)
        states = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(plays)), state)
        paid = jax.tree.map(lambda rewards: jnp.split(rewards, len(plays)), self._paid(states, joined))
        gains = {
            role: jnp.where(rivals[role] == taught[role], 0.0, paid[role][1 + place] - paid[role][0])
            for place, role in enumerate(self.roles)
        }
        return rivals, gains

    def _paid(self, state: Any, action: ByRole) -> ByRole:
        """`{role: f32[E, agents]}`, what the agents are paid if they act so, and then as the teacher."""
        step = jax.vmap(self.env.step)

        def advance(carry: tuple[Any, ByRole], _: None) -> tuple[tuple[Any, ByRole], ByRole]:
            state, timestep = step(*carry)
            action, _ = self.teacher.act(jax.random.key(0), (), state, timestep)
            return (state, action), {role: timestep.reward[role] for role in self.roles}

        rewards = jax.lax.scan(advance, (state, action), length=self.steps)[1]
        return {role: reward.sum(axis=0) for role, reward in rewards.items()}


def drawn_rivals(key: jax.Array, mask: jax.Array, taken: jax.Array) -> jax.Array:
    """`i32[E, A]`: one agent's action of `taken`, `i32[E, A]`, becomes another of the `mask`, `bool[E, A, actions]`.

    All pairs of an agent and another legal action are equally likely; without any, nothing changes.
    """
    num_agents, num_actions = mask.shape[1:]
    others = mask & (jnp.arange(num_actions, dtype=jnp.int32) != taken[..., None])
    order = jnp.where(others, jax.random.uniform(key, others.shape, jnp.float32), -1.0)
    agent, action = jnp.divmod(jnp.argmax(order.reshape(order.shape[0], -1), axis=-1).astype(jnp.int32), num_actions)
    is_drawn = (jnp.arange(num_agents, dtype=jnp.int32) == agent[:, None]) & others.any(axis=(1, 2))[:, None]
    return jnp.where(is_drawn, action[:, None], taken)
