"""What TD3 and SAC learn with: actor and twin critics of a role, their targets, the critics' loss, gradient steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from train.networks.layers import Trunk
from train.off_policy.config import OffPolicyConfig
from train.off_policy.replay_buffer import Decisions
from train.sharding import DATA

Params = Any
Metrics = dict[str, jax.Array]

NUM_CRITICS = 2


class Learned(struct.PyTreeNode):
    """What a role has learned.

    Attributes:
        params: by part: `actor`, `critic` (leading axis `[2]`), perhaps more.
        target: slow copies of some of them.
        optimizer: state of the optimiser of each part.
    """

    params: dict[str, Params]
    target: dict[str, Params]
    optimizer: dict[str, Any]


class Head(nn.Module):
    """Dense layers and a linear head.

    Kernels begin uniform, with a third of the variance 1 / fan_in, as in the published systems (PyTorch's default);
    the orthogonal ones of PPO are larger, and soon drive tanh of TD3's actor further into its bounds.
    """

    size: int
    hidden_sizes: tuple[int, ...]
    activation: str
    layer_norm: bool

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """`[..., F] -> [..., size]`."""
        kernel_init = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
        x = Trunk(self.hidden_sizes, self.activation, self.layer_norm, kernel_init)(inputs)
        return nn.Dense(self.size, kernel_init=kernel_init)(x)


@dataclasses.dataclass(frozen=True)
class Networks:
    """Actor and critics of a role; all its agents share them.

    Attributes:
        actor: `[..., F] -> [..., outputs]`.
        critic: `[..., F + A] -> [..., 1]`.
        observation_size, action_size: F and A.
    """

    actor: nn.Module
    critic: nn.Module
    observation_size: int
    action_size: int

    @classmethod
    def of(cls, config: OffPolicyConfig, observation_size: int, action_size: int, outputs: int) -> Networks:
        """As a configuration wants them, with so many `outputs` of the actor."""
        hidden = {name: getattr(config, name) for name in ("hidden_sizes", "activation", "layer_norm")}
        return cls(Head(outputs, **hidden), Head(1, **hidden), observation_size, action_size)

    def init(self, key: jax.Array) -> dict[str, Params]:
        """Fresh parameters of `actor` and `critic`."""
        actor_key, critic_key = jax.random.split(key)
        seen = jnp.zeros((1, self.observation_size), jnp.float32)
        judged = jnp.zeros((1, self.observation_size + self.action_size), jnp.float32)
        critic = jax.vmap(lambda k: self.critic.init(k, judged))(jax.random.split(critic_key, NUM_CRITICS))
        return {"actor": self.actor.init(actor_key, seen), "critic": critic}

    def q(self, critic: Params, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Values `f32[2, B]` of actions `f32[B, A]` where `f32[B, F]` is seen."""
        chex.assert_shape(observation, (None, self.observation_size))
        chex.assert_shape(action, (observation.shape[0], self.action_size))
        judged = jnp.concatenate([observation, action], axis=-1)
        # Not `vmap`: batched products of this size take twice the time on a CPU (5.2 against 2.8 ms a step of TD3).
        twins = [jax.tree.map(lambda leaf, i=i: leaf[i], critic) for i in range(NUM_CRITICS)]
        values: list[Any] = [self.critic.apply(twin, judged) for twin in twins]
        return jnp.stack([value[:, 0] for value in values])


def bootstrapped(batch: Decisions, next_value: jax.Array, gamma: float) -> jax.Array:
    """Targets of the critics, `f32[B]`: r + gamma V(s'), and r alone where the task is over (`next_value` `f32[B]`)."""
    chex.assert_equal_shape([batch.reward, batch.terminated, next_value])
    return jax.lax.stop_gradient(batch.reward + gamma * (1 - batch.terminated) * next_value)


def critic_loss(critic: Params, batch: Decisions, target: jax.Array, networks: Networks) -> tuple[jax.Array, Metrics]:
    """Mean squared errors of both critics, summed, `f32[]`, and metrics.

    Args:
        critic: parameters with leading axis `[2]`.
        batch: `[B, ...]`.
        target: `f32[B]`.
        networks: of the role.
    """
    q = networks.q(critic, batch.observation, batch.action)
    chex.assert_shape(target, (q.shape[1],))
    loss = ((q - target) ** 2).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": q.mean(), "target_q": target.mean()}


def polyak(target: Params, params: Params, tau: float) -> Params:
    """The moving average `(1 - tau) target + tau params`."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, params)


def descend(
    learned: Learned,
    part: str,
    loss: Callable[[Params], tuple[jax.Array, Metrics]],
    optimizer: optax.GradientTransformation,
) -> tuple[Learned, Metrics]:
    """One gradient step of one part, with the mean of the gradients of all devices; the loss's metrics, and its norm.

    `loss` maps the part's parameters to this device's mean over its minibatch, and metrics.
    """
    grads, metrics = jax.lax.pmean(jax.grad(loss, has_aux=True)(learned.params[part]), DATA)
    updates, state = optimizer.update(grads, learned.optimizer[part], learned.params[part])
    params = optax.apply_updates(learned.params[part], updates)
    learned = learned.replace(params={**learned.params, part: params}, optimizer={**learned.optimizer, part: state})
    return learned, {**metrics, f"{part}_grad_norm": optax.tree.norm(grads)}
