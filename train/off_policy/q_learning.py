"""Parts of TD3 and SAC: actor and twin critics of a role, their targets, the critics' loss, gradient steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxvrp.policies.networks.layers import Trunk
from train.learning.sharding import DATA
from train.off_policy.config import OffPolicyConfig
from train.off_policy.replay_buffer import Decisions

Params = Any
Metrics = dict[str, jax.Array]

NUM_CRITICS = 2


class RoleState(struct.PyTreeNode):
    """The learned state of a role by part: `actor`, `critic` `[2, ...]`, perhaps more; `target` holds slow copies."""

    params: dict[str, Params]
    target: dict[str, Params]
    optimizer: dict[str, Any]


class DenseNetwork(nn.Module):
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
        """Outputs `f32[..., size]` of inputs `f32[..., F]`."""
        kernel_init = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
        x = Trunk(self.hidden_sizes, self.activation, self.layer_norm, kernel_init)(inputs)
        return nn.Dense(self.size, kernel_init=kernel_init)(x)


class RoleNetworks:
    """Actor `[..., F] -> [..., outputs]` and critic `[..., F + A] -> [..., 1]` of a role; all its agents share them."""

    def __init__(self, config: OffPolicyConfig, observation_size: int, action_size: int, actor_outputs: int):
        """The networks of a configuration; the actor has `actor_outputs` numbers as outputs."""
        dense = {name: getattr(config, name) for name in ("hidden_sizes", "activation", "layer_norm")}
        self.actor, self.critic = DenseNetwork(actor_outputs, **dense), DenseNetwork(1, **dense)
        self.observation_size, self.action_size = observation_size, action_size

    def init(self, key: jax.Array) -> dict[str, Params]:
        """Fresh parameters of `actor` and `critic`."""
        actor_key, critic_key = jax.random.split(key)
        actor_input = jnp.zeros((1, self.observation_size), jnp.float32)
        critic_input = jnp.zeros((1, self.observation_size + self.action_size), jnp.float32)
        critic = jax.vmap(lambda k: self.critic.init(k, critic_input))(jax.random.split(critic_key, NUM_CRITICS))
        return {"actor": self.actor.init(actor_key, actor_input), "critic": critic}

    def q(self, critic: Params, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Values `f32[2, B]` of actions `f32[B, A]` in observations `f32[B, F]`."""
        chex.assert_shape(observation, (None, self.observation_size))
        chex.assert_shape(action, (observation.shape[0], self.action_size))
        critic_input = jnp.concatenate([observation, action], axis=-1)
        # Not `vmap`: batched products of this size take twice the time on a CPU (5.2 against 2.8 ms a step of TD3).
        twins = [jax.tree.map(lambda leaf, i=i: leaf[i], critic) for i in range(NUM_CRITICS)]
        values: list[Any] = [self.critic.apply(twin, critic_input) for twin in twins]
        return jnp.stack([value[:, 0] for value in values])


def td_target(batch: Decisions, next_value: jax.Array, gamma: float) -> jax.Array:
    """Targets of the critics, `f32[B]`: r + gamma V(s'), and r alone where the episode is over; V is `next_value`."""
    chex.assert_equal_shape([batch.reward, batch.terminated, next_value])
    return jax.lax.stop_gradient(batch.reward + gamma * (1 - batch.terminated) * next_value)


def critic_loss(
    critic: Params, batch: Decisions, target: jax.Array, networks: RoleNetworks
) -> tuple[jax.Array, Metrics]:
    """Mean squared errors of both critics (parameters `[2, ...]`) from targets `f32[B]`, summed, `f32[]`; metrics."""
    q = networks.q(critic, batch.observation, batch.action)
    chex.assert_shape(target, (q.shape[1],))
    loss = ((q - target) ** 2).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": q.mean(), "target_q": target.mean()}


def polyak(target: Params, params: Params, tau: float) -> Params:
    """The moving average `(1 - tau) target + tau params`."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, params)


def critic_step(
    state: RoleState,
    batch: Decisions,
    target: jax.Array,
    networks: RoleNetworks,
    optimizer: optax.GradientTransformation,
) -> tuple[RoleState, Metrics]:
    """`gradient_step` of the critics on a minibatch `[B, ...]` with targets `f32[B]`."""
    loss = functools.partial(critic_loss, batch=batch, target=target, networks=networks)
    return gradient_step(state, "critic", loss, optimizer)


def gradient_step(
    state: RoleState,
    part: str,
    loss: Callable[[Params], tuple[jax.Array, Metrics]],
    optimizer: optax.GradientTransformation,
) -> tuple[RoleState, Metrics]:
    """One step of one part, along the mean of the gradients of all devices; the state afterwards, and metrics.

    `loss` maps the part's parameters to this device's mean over its minibatch, and metrics, of which the means over all
    devices are returned, and the norm of the gradient.
    """
    grads, metrics = jax.lax.pmean(jax.grad(loss, has_aux=True)(state.params[part]), DATA)
    updates, optimizer_state = optimizer.update(grads, state.optimizer[part], state.params[part])
    params = optax.apply_updates(state.params[part], updates)
    state = state.replace(params={**state.params, part: params}, optimizer={**state.optimizer, part: optimizer_state})
    return state, {**metrics, f"{part}_grad_norm": optax.tree.norm(grads)}
