"""TD3 (Fujimoto et al. 2018): twin critics, smoothed target actions, delayed actors."""

from __future__ import annotations

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from train.off_policy import q_learning
from train.off_policy.config import TD3Config
from train.off_policy.q_learning import Metrics, Params, RoleNetworks, RoleState
from train.off_policy.replay_buffer import Decisions


class TD3:
    """The learner of one role; see `train.off_policy.collect.Method`."""

    def __init__(self, config: TD3Config, observation_size: int, action_size: int):
        self.config = config
        self.networks = RoleNetworks(config, observation_size, action_size, actor_outputs=action_size)
        self.optimizers = {"actor": optax.adam(config.actor_lr), "critic": optax.adam(config.critic_lr)}

    @property
    def batches_per_step(self) -> int:
        """Minibatches of one call of `learn`: the critics' steps for one of the actor."""
        return self.config.policy_delay

    def init(self, key: jax.Array) -> RoleState:
        """Fresh parameters; the targets are copies."""
        params = self.networks.init(key)
        optimizer = {part: tx.init(params[part]) for part, tx in self.optimizers.items()}
        return RoleState(params=params, target=jax.tree.map(jnp.copy, params), optimizer=optimizer)

    def act(self, actor: Params, observation: jax.Array, noise: jax.Array) -> jax.Array:
        """Actions with exploration noise, see `train.off_policy.collect.Method`."""
        action = self.deterministic_action(actor, observation)
        return jnp.clip(action + self.config.exploration_noise * noise, -1.0, 1.0)

    def learn(self, state: RoleState, batches: Decisions, key: jax.Array) -> tuple[RoleState, Metrics]:
        """`policy_delay` steps of the critics, then one of the actor and of the targets."""

        def critic_step(state: RoleState, xs: tuple[Decisions, jax.Array]) -> tuple[RoleState, Metrics]:
            batch, key = xs
            noise = jax.random.normal(key, batch.action.shape, jnp.float32)
            target = self.critic_target(state.target, batch, noise)
            return q_learning.critic_step(state, batch, target, self.networks, self.optimizers["critic"])

        keys = jax.random.split(key, self.batches_per_step)
        # Unrolled: see `jaxvrp.policies.networks.gru.GRULayer`.
        state, critic_metrics = jax.lax.scan(critic_step, state, (batches, keys), unroll=True)
        critic_metrics = jax.tree.map(jnp.mean, critic_metrics)
        observation = batches.observation[-1]
        loss = functools.partial(self.actor_loss, critic=state.params["critic"], observation=observation)
        state, actor_metrics = q_learning.gradient_step(state, "actor", loss, self.optimizers["actor"])
        target = q_learning.polyak(state.target, state.params, self.config.tau)
        return state.replace(target=target), critic_metrics | actor_metrics

    def deterministic_action(self, actor: Params, observation: jax.Array) -> jax.Array:
        """The actor's actions `f32[B, A]` in [-1, 1] for observations `f32[B, F]`."""
        outputs: Any = self.networks.actor.apply(actor, observation)
        return jnp.tanh(outputs)

    def critic_target(self, target: dict[str, Params], batch: Decisions, noise: jax.Array) -> jax.Array:
        """The critics' target, `f32[B]`: the lesser value of an action of the target actor, with clipped `noise` on it.

        `target` holds the parameters of the target `actor` and `critic`, `noise` `f32[B, A]` is standard normal.
        """
        chex.assert_equal_shape([noise, batch.action])
        smoothing = jnp.clip(self.config.policy_noise * noise, -self.config.noise_clip, self.config.noise_clip)
        next_action = self.deterministic_action(target["actor"], batch.next_observation)
        smoothed = jnp.clip(next_action + smoothing, -1.0, 1.0)
        next_value = self.networks.q(target["critic"], batch.next_observation, smoothed).min(axis=0)
        return q_learning.td_target(batch, next_value, self.config.gamma)

    def actor_loss(self, actor: Params, critic: Params, observation: jax.Array) -> tuple[jax.Array, Metrics]:
        """Minus the first critic's mean value of the actor's actions in observations `f32[B, F]`, and metrics."""
        action = self.deterministic_action(actor, observation)
        loss = -self.networks.q(critic, observation, action)[0].mean()
        return loss, {"actor_loss": loss}
