"""Proximal policy optimisation for several roles, as pure functions.

Shapes: a rollout is `[K, L, E, ...]` (chunks, steps of a chunk, environments). For the update it becomes
`[L, E, K, ...]`; a minibatch takes some environments and merges the last two into a batch `[L, B, ...]` of sequences.
All reductions over the batch are sums divided by counts over the mesh axis `data`, so any number of devices gives the
same gradient.
"""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from train.networks import distributions
from train.on_policy.actor_critic import Actors, ByRole, Critics
from train.on_policy.config import PPOConfig
from train.on_policy.rollout import Transition
from train.on_policy.value_norm import ValueNorm
from train.sharding import DATA


class Batch(struct.PyTreeNode):
    """What a minibatch is taken from, `[L, E, K, ...]`; after taking, `[L, B, ...]`.

    Attributes:
        observation, critic_input, action_mask, action, log_prob: as in `Transition`.
        value: old values, `{role: f32[..., agents]}`, scaled by the present statistics.
        target: returns on the same scale.
        advantage: normalised, `{role: f32[..., agents]}`.
        decides: `{role: f32[..., agents]}`, 1 where there was a choice; forced decisions have no policy gradient.
        valid: `{role: f32[..., agents]}`, 0 for void rows.
        reset: `bool[...]`.
        carry: recurrent states at the beginning of each sequence, `[E, K, ...]` (no time axis).
    """

    observation: ByRole
    critic_input: ByRole
    action_mask: ByRole
    action: ByRole
    log_prob: ByRole
    value: ByRole
    target: ByRole
    advantage: ByRole
    decides: ByRole
    valid: ByRole
    reset: jax.Array
    carry: Any


def gae(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    gamma: float,
    gae_lambda: float,
) -> jax.Array:
    """Generalised advantage estimation (Schulman et al. 2016).

    Args:
        reward, value: `f32[T, ...]`.
        next_value: `f32[T, ...]`, value of the state that the step led to, before any auto-reset.
        terminated: `bool[T, ...]`, nothing follows: no bootstrap.
        truncated: `bool[T, ...]`, the episode was cut: bootstrap from `next_value`, but no trace across.
        gamma: discount.
        gae_lambda: trace decay.

    Returns:
        Advantages, `f32[T, ...]`.
    """
    chex.assert_equal_shape([reward, value, next_value, terminated, truncated])
    delta = reward + gamma * jnp.where(terminated, 0.0, next_value) - value
    decay = jnp.where(terminated | truncated, 0.0, gamma * gae_lambda)

    def back(trace: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        trace = xs[0] + xs[1] * trace
        return trace, trace

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


def masked_mean(x: jax.Array, weight: jax.Array, axis: tuple[int, ...] | None = None) -> jax.Array:
    """Share of this device in the mean of `x` over all devices; sum it over `data` to get the mean."""
    return (x * weight).sum(axis) / jnp.maximum(jax.lax.psum(weight.sum(axis), DATA), 1.0)


def moments(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weighted mean and variance over all devices, each `f32[]`."""
    mean = jax.lax.psum(masked_mean(x, weight), DATA)
    return mean, jax.lax.psum(masked_mean((x - mean) ** 2, weight), DATA)


def prepare(
    config: PPOConfig,
    transitions: Transition,
    carry: Any,
    last_value: ByRole,
    norm: dict[str, ValueNorm],
) -> tuple[Batch, dict[str, ValueNorm], dict[str, jax.Array]]:
    """From a rollout `[K, L, E, ...]` to a batch: advantages, targets, new value statistics; and metrics of the old."""
    targets, advantages, values, decides, valids, metrics = {}, {}, {}, {}, {}, {}
    new_norm = dict(norm)
    for name in transitions.reward:
        advantage, value = _advantage(config, transitions, last_value, norm, name)
        target = advantage + value
        valid = _valid(transitions, name, target)
        metrics[f"{name}/explained_variance"] = _explained_variance(value, target, valid)
        if config.value_norm:
            mean, variance = moments(target, valid)
            new_norm[name] = norm[name].update(mean, variance + mean**2, config.value_norm_decay)
        choice = (transitions.action_mask[name].sum(axis=-1) > 1).astype(jnp.float32) * valid
        if config.normalize_advantage:
            mean, variance = moments(advantage, choice)
            advantage = (advantage - mean) / (jnp.sqrt(variance) + 1e-8)
        targets[name], values[name] = (new_norm[name].normalize(x) for x in (target, value))
        advantages[name], decides[name], valids[name] = advantage, choice, valid
    recorded = {f: getattr(transitions, f) for f in ("observation", "critic_input", "action_mask", "action")}
    steps = {"log_prob": transitions.log_prob, "reset": transitions.reset, **recorded}
    steps |= {"value": values, "target": targets, "advantage": advantages, "decides": decides, "valid": valids}
    steps = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), steps)
    carry = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), carry)
    return Batch(**steps, carry=carry), new_norm, metrics


def take(batch: Batch, envs: jax.Array) -> Batch:
    """The sequences of some environments, `i32[e]`: `[L, E, K, ...] -> [L, e * K, ...]`."""

    def pick(leaf: jax.Array, axis: int) -> jax.Array:
        taken = jnp.take(leaf, envs, axis=axis)
        return taken.reshape(*taken.shape[:axis], -1, *taken.shape[axis + 2 :])

    steps = jax.tree.map(lambda leaf: pick(leaf, 1), batch.replace(carry=None))
    return steps.replace(carry=jax.tree.map(lambda leaf: pick(leaf, 0), batch.carry))


def loss(
    params: dict[str, Any], batch: Batch, *, config: PPOConfig, actors: Actors, critics: Critics
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """This device's share of the loss of a minibatch `[L, B, ...]`: policy, entropy and value terms of all roles.

    Returns:
        `f32[]`, and metrics by name (shares too): `f32[]`, or `f32[agents]` for roles with separate actors.
    """
    for name in actors.roles:
        chex.assert_shape(batch.advantage[name], (*batch.reset.shape, actors.roles[name].num_agents))
    logits, _ = actors.apply(params["actor"], batch.observation, batch.carry["actor"], batch.reset)
    seen = batch.critic_input if critics.is_central else batch.observation
    values, _ = critics.apply(params["critic"], seen, batch.carry["critic"], batch.reset)
    total = jnp.zeros((), jnp.float32)
    metrics: dict[str, jax.Array] = {}
    for name in actors.roles:
        own = {field: getattr(batch, field)[name] for field in ("action_mask", "action", "log_prob", "advantage")}
        terms = policy_terms(logits[name], **own, clip_eps=config.clip_eps)
        axis = (0, 1) if name in actors.separate else None
        role = {key: masked_mean(term, batch.decides[name], axis) for key, term in terms.items()}
        error = value_error(values[name], batch.value[name], batch.target[name], config)
        role["value_loss"] = masked_mean(error, batch.valid[name])
        total += (role["policy_loss"] - config.entropy_coef * role["entropy"]).sum() + role["value_loss"]
        metrics |= {f"{name}/{key}": value for key, value in role.items()}
    return total, metrics


def policy_terms(
    logits: jax.Array,
    *,
    action_mask: jax.Array,
    action: jax.Array,
    log_prob: jax.Array,
    advantage: jax.Array,
    clip_eps: float,
) -> dict[str, jax.Array]:
    """The clipped surrogate (Schulman et al. 2017) and its diagnostics, each `f32[...]`, one entry per decision.

    Args:
        logits: `f32[..., actions]`.
        action_mask: `bool[..., actions]`.
        action: `i32[...]`.
        log_prob: `f32[...]` when the action was taken.
        advantage: `f32[...]`.
        clip_eps: half-width of the trusted range of the ratio.
    """
    chex.assert_equal_shape([action, log_prob, advantage])
    new_log_prob, entropy = distributions.log_prob_and_entropy(logits, action_mask, action)
    log_ratio = new_log_prob - log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - clip_eps, 1 + clip_eps)
    return {
        "policy_loss": -jnp.minimum(ratio * advantage, clipped * advantage),
        "entropy": entropy,
        "ratio": ratio,
        "approx_kl": ratio - 1 - log_ratio,  # the low-variance, never negative estimator of Schulman (2020)
        "clip_fraction": (jnp.abs(ratio - 1) > clip_eps).astype(jnp.float32),
    }


def value_error(value: jax.Array, old: jax.Array, target: jax.Array, config: PPOConfig) -> jax.Array:
    """Huber (or squared) error of the values, each `f32[...]`; the worse of clipped and not, if `value_clip`."""
    chex.assert_equal_shape([value, old, target])

    def error(prediction: jax.Array) -> jax.Array:
        if config.value_loss == "huber":
            return optax.huber_loss(prediction, target, delta=config.huber_delta)
        return 0.5 * (prediction - target) ** 2

    if not config.value_clip:
        return error(value)
    near = old + jnp.clip(value - old, -config.clip_eps, config.clip_eps)
    return jnp.maximum(error(value), error(near))


def _advantage(
    config: PPOConfig, transitions: Transition, last_value: ByRole, norm: dict[str, ValueNorm], name: str
) -> tuple[jax.Array, jax.Array]:
    """Advantages and values of one role on the scale of rewards, `f32[K, L, E, agents]`."""
    value = norm[name].denormalize(transitions.value[name])
    shape = value.shape
    flat = value.reshape(-1, *shape[2:])
    following = jnp.concatenate([flat[1:], norm[name].denormalize(last_value[name])[None]])
    terminated, truncated = (
        jnp.broadcast_to(x.reshape(*flat.shape[:2], 1), flat.shape)
        for x in (transitions.terminated, transitions.truncated)
    )
    if transitions.final_value:
        final = norm[name].denormalize(transitions.final_value[name]).reshape(flat.shape)
        following = jnp.where(truncated, final, following)
    reward = transitions.reward[name].reshape(flat.shape)
    advantage = gae(reward, flat, following, terminated, truncated, gamma=config.gamma, gae_lambda=config.gae_lambda)
    return advantage.reshape(shape), value


def _valid(transitions: Transition, name: str, like: jax.Array) -> jax.Array:
    rows = transitions.valid.get(name)
    return jnp.ones_like(like) if rows is None else rows.astype(jnp.float32)


def _explained_variance(value: jax.Array, target: jax.Array, valid: jax.Array) -> jax.Array:
    return 1 - moments(target - value, valid)[1] / jnp.maximum(moments(target, valid)[1], 1e-8)
