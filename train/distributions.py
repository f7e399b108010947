"""Log-probabilities of masked categorical policies, and squashed Gaussian ones."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxvrp.policies.choice import masked_logits
from jaxvrp.spaces import ByRole

_LOG_DEVIATIONS = (-20.0, 2.0)
"""Bounds of the logarithm of a Gaussian's standard deviation (Haarnoja et al. 2018)."""


def log_prob_and_entropy(logits: jax.Array, mask: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probability of `action` (`i32[...]`) and entropy in nats, each `f32[...]`."""
    logits = masked_logits(logits, mask)
    relative = logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
    weight = jnp.exp(relative)
    total = weight.sum(axis=-1)
    is_chosen = jnp.arange(logits.shape[-1], dtype=jnp.int32) == action[..., None]
    log_total = jnp.log(total)
    log_prob = jnp.where(is_chosen, relative, 0.0).sum(axis=-1) - log_total
    return log_prob, log_total - (weight * relative).sum(axis=-1) / total


def sample_squashed(noise: jax.Array, mean: jax.Array, log_deviation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `f32[..., A]` from a Gaussian that tanh squashes into [-1, 1], and their log-probabilities `f32[...]`.

    From standard normal `noise` `f32[..., A]`; the logarithm of the deviation is clipped to [-20, 2] (Haarnoja et al.
    2018). The density is computed before the squashing, so it stays finite where tanh is 1 in float32.
    """
    log_deviation = jnp.clip(log_deviation, *_LOG_DEVIATIONS)
    # From the numbers drawn: the difference to the mean would lose them where the deviation is small.
    log_density = -0.5 * jnp.square(noise) - 0.5 * math.log(2 * math.pi) - log_deviation
    drawn = mean + jnp.exp(log_deviation) * noise
    log_stretch = 2 * (jnp.log(2) - drawn - jax.nn.softplus(-2 * drawn))  # log of the slope 1 - tanh(drawn)^2
    return jnp.tanh(drawn), (log_density - log_stretch).sum(axis=-1)


def log_probs(logits: ByRole, mask: ByRole, action: ByRole) -> ByRole:
    """Log-probabilities `{role: f32[E, agents]}` of actions `{role: i32[E, agents]}`.

    Logits and masks are `{role: [E, agents, actions]}`.
    """
    return {name: log_prob_and_entropy(logits[name], mask[name], chosen)[0] for name, chosen in action.items()}
