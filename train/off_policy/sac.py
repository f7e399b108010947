"""SAC (Haarnoja et al. 2018, "Algorithms and applications"): maximum entropy, automatic temperature."""

from __future__ import annotations

import functools
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from train.off_policy import q_learning
from train.off_policy.config import SACConfig
from train.off_policy.q_learning import Metrics, Params, RoleNetworks, RoleState
from train.off_policy.replay_buffer import Decisions

LOG_DEVIATIONS = (-20.0, 2.0)
"""Bounds of the logarithm of a Gaussian's standard deviation (Haarnoja et al. 2018)."""


class SAC:
    """The learner of one role; see `train.off_policy.collect.Method`."""

    batches_per_step = 1

    def __init__(self, config: SACConfig, observation_size: int, action_size: int):
        self.config = config
        self.networks = RoleNetworks(config, observation_size, action_size, actor_outputs=2 * action_size)
        self.target_entropy = -float(action_size) if config.target_entropy is None else config.target_entropy
        rates = {"actor": config.actor_lr, "critic": config.critic_lr, "log_temperature": config.temperature_lr}
        self.optimizers = {part: optax.adam(rate) for part, rate in rates.items()}

    def init(self, key: jax.Array) -> RoleState:
        """Fresh parameters; the target is a copy of the critics."""
        log_temperature = jnp.asarray(math.log(self.config.initial_temperature), jnp.float32)
        params = {**self.networks.init(key), "log_temperature": log_temperature}
        optimizer = {part: tx.init(params[part]) for part, tx in self.optimizers.items()}
        target = {"critic": jax.tree.map(jnp.copy, params["critic"])}
        return RoleState(params=params, target=target, optimizer=optimizer)

    def act(self, actor: Params, observation: jax.Array, noise: jax.Array) -> jax.Array:
        """A sample of the policy, see `train.off_policy.collect.Method`."""
        return self.sample(actor, observation, noise)[0]

    def learn(self, state: RoleState, batches: Decisions, key: jax.Array) -> tuple[RoleState, Metrics]:
        """One step of the critics, of the actor, of the temperature, and of the target."""
        batch = jax.tree.map(lambda leaf: leaf[0], batches)
        noise = jax.random.normal(key, (2, *batch.action.shape), jnp.float32)
        target = self.critic_target(state.params, state.target, batch, noise[0])
        state, metrics = q_learning.critic_step(state, batch, target, self.networks, self.optimizers["critic"])
        seen = batch.observation
        of_actor = functools.partial(self.actor_loss, others=state.params, observation=seen, noise=noise[1])
        state, actor_metrics = q_learning.gradient_step(state, "actor", of_actor, self.optimizers["actor"])
        loss = functools.partial(temperature_loss, entropy=actor_metrics["entropy"], target_entropy=self.target_entropy)
        part = "log_temperature"
        state, temperature_metrics = q_learning.gradient_step(state, part, loss, self.optimizers[part])
        critic = q_learning.polyak(state.target["critic"], state.params["critic"], self.config.tau)
        metrics |= {**actor_metrics, "temperature": temperature_metrics["temperature"]}
        return state.replace(target={"critic": critic}), metrics

    def sample(self, actor: Params, observation: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Actions `f32[B, A]` in [-1, 1] for observations `f32[B, F]`, and their log-probabilities `f32[B]`.

        `noise` `f32[B, A]` is standard normal; 0 gives the mode of the Gaussian, squashed.
        """
        outputs: Any = self.networks.actor.apply(actor, observation)
        mean, log_deviation = jnp.split(outputs, 2, axis=-1)
        return sample_squashed(noise, mean, log_deviation)

    def critic_target(
        self, params: dict[str, Params], target: dict[str, Params], batch: Decisions, noise: jax.Array
    ) -> jax.Array:
        """The critics' target, `f32[B]`: the lesser soft value of a sampled next action.

        `params` holds those of `actor` and `log_temperature`, `target` those of the target `critic`; `noise`
        `f32[B, A]` is standard normal.
        """
        chex.assert_equal_shape([noise, batch.action])
        next_action, log_prob = self.sample(params["actor"], batch.next_observation, noise)
        next_value = self.networks.q(target["critic"], batch.next_observation, next_action).min(axis=0)
        next_value -= jnp.exp(params["log_temperature"]) * log_prob
        return q_learning.td_target(batch, next_value, self.config.gamma)

    def actor_loss(
        self, actor: Params, others: dict[str, Params], observation: jax.Array, noise: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Mean of temperature times log-probability minus the lesser value, `f32[]`, and metrics.

        `others` holds the parameters of `critic` and `log_temperature`; the rest is as in `sample`.
        """
        action, log_prob = self.sample(actor, observation, noise)
        value = self.networks.q(others["critic"], observation, action).min(axis=0)
        chex.assert_equal_shape([log_prob, value])
        loss = (jnp.exp(others["log_temperature"]) * log_prob - value).mean()
        return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}


def sample_squashed(noise: jax.Array, mean: jax.Array, log_deviation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `f32[..., A]` from a Gaussian that tanh squashes into [-1, 1], and their log-probabilities `f32[...]`.

    From standard normal `noise` `f32[..., A]`; the logarithm of the deviation is clipped to [-20, 2] (Haarnoja et al.
    2018). The density is computed before the squashing, so it stays finite where tanh is 1 in float32.
    """
    log_deviation = jnp.clip(log_deviation, *LOG_DEVIATIONS)
    # From the numbers drawn: the difference to the mean would lose them where the deviation is small.
    log_density = -0.5 * jnp.square(noise) - 0.5 * math.log(2 * math.pi) - log_deviation
    drawn = mean + jnp.exp(log_deviation) * noise
    log_stretch = 2 * (jnp.log(2) - drawn - jax.nn.softplus(-2 * drawn))  # log of the slope 1 - tanh(drawn)^2
    return jnp.tanh(drawn), (log_density - log_stretch).sum(axis=-1)


def temperature_loss(
    log_temperature: jax.Array, entropy: jax.Array, target_entropy: float
) -> tuple[jax.Array, Metrics]:
    """Temperature times the excess of the policy's entropy over the target, each `f32[]`; and metrics."""
    chex.assert_rank([log_temperature, entropy], 0)
    temperature = jnp.exp(log_temperature)
    return temperature * (entropy - target_entropy), {"temperature": temperature}
