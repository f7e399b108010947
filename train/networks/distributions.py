"""Policies, masked categorical and squashed Gaussian: sampling, log-probability. The only file that imports distrax."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp

_FORBIDDEN = -1e9
"""Finite, so that a row without a legal action gives a uniform distribution and not NaN."""

_LOG_DEVIATIONS = (-20.0, 2.0)
"""Bounds of the logarithm of a Gaussian's standard deviation (Haarnoja et al. 2018)."""


def masked_logits(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Logits `f32[..., actions]` whose forbidden entries have probability exactly 0."""
    return jnp.where(mask, logits, _FORBIDDEN)


def probabilities(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """`f32[..., actions]`, 0 where an action is forbidden."""
    probs: jax.Array = distrax.Categorical(masked_logits(logits, mask)).probs
    return probs


def sample(uniform: jax.Array, logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Actions, `i32[...]`, by inverting the distribution function, from a uniform number in [0, 1) each, `f32[...]`."""
    probable = probabilities(logits, mask)
    # Forbidden entries are struck out, since a parallel prefix sum may grow by one rounding where nothing is added. The
    # largest entry always exceeds the threshold: `uniform` is a multiple of 2^-23 below 1.
    cumulative = jnp.where(probable > 0, jnp.cumsum(probable, axis=-1), 0.0)
    threshold = uniform[..., None] * cumulative.max(axis=-1, keepdims=True)
    return jnp.argmax(cumulative > threshold, axis=-1).astype(jnp.int32)


def mode(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """The most probable legal action, `i32[...]`."""
    return jnp.argmax(masked_logits(logits, mask), axis=-1).astype(jnp.int32)


def log_prob_and_entropy(logits: jax.Array, mask: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probability of `action` (`i32[...]`) and entropy in nats, each `f32[...]`."""
    policy = distrax.Categorical(masked_logits(logits, mask))
    return policy.log_prob(action), policy.entropy()


def sample_squashed(noise: jax.Array, mean: jax.Array, log_deviation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `f32[..., A]` from a Gaussian that tanh squashes into [-1, 1], and their log-probabilities `f32[...]`.

    From standard normal `noise` `f32[..., A]`; the logarithm of the deviation is clipped to [-20, 2] (Haarnoja et al.
    2018). The density is computed before the squashing, so it stays finite where tanh is 1 in float32.
    """
    log_deviation = jnp.clip(log_deviation, *_LOG_DEVIATIONS)
    # From the numbers drawn: the difference to the mean would lose them where the deviation is small.
    log_density = distrax.Normal(0.0, 1.0).log_prob(noise) - log_deviation
    squashed, log_stretch = distrax.Tanh().forward_and_log_det(mean + jnp.exp(log_deviation) * noise)
    return squashed, (log_density - log_stretch).sum(axis=-1)
