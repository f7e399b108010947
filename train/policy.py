"""Masked categorical policies: sampling, mode, log-probability, entropy. The only file that imports distrax."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp

_FORBIDDEN = -1e9
"""Finite, so that a row without a legal action gives a uniform distribution and not NaN."""


def masked_logits(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Logits `f32[..., actions]` whose forbidden entries have probability exactly 0."""
    return jnp.where(mask, logits, _FORBIDDEN)


def sample(uniform: jax.Array, logits: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draw actions by inverting the distribution function, from one uniform number each.

    Args:
        uniform: `f32[...]` in [0, 1).
        logits: `f32[..., actions]`.
        mask: `bool[..., actions]`.

    Returns:
        Actions `i32[...]` and their log-probabilities `f32[...]`.
    """
    policy = distrax.Categorical(masked_logits(logits, mask))
    # Forbidden entries are struck out, since a parallel prefix sum may grow by one rounding where nothing is added. The
    # largest entry always exceeds the threshold: `uniform` is a multiple of 2^-23 below 1.
    cumulative = jnp.where(policy.probs > 0, jnp.cumsum(policy.probs, axis=-1), 0.0)
    threshold = uniform[..., None] * cumulative.max(axis=-1, keepdims=True)
    action = jnp.argmax(cumulative > threshold, axis=-1).astype(jnp.int32)
    return action, policy.log_prob(action)


def mode(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """The most probable legal action, `i32[...]`."""
    return jnp.argmax(masked_logits(logits, mask), axis=-1).astype(jnp.int32)


def log_prob_and_entropy(logits: jax.Array, mask: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probability of `action` (`i32[...]`) and entropy in nats, each `f32[...]`."""
    policy = distrax.Categorical(masked_logits(logits, mask))
    return policy.log_prob(action), policy.entropy()
