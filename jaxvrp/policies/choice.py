"""Choosing from masked logits: probabilities, the most probable action, samples."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp

from jaxvrp.spaces import ByRole

_FORBIDDEN = -1e9
"""Finite, so that a row without a legal action gives a uniform distribution and not NaN."""


def masked_logits(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Logits `f32[..., actions]` whose forbidden entries have probability exactly 0."""
    return jnp.where(mask, logits, _FORBIDDEN)


def probabilities(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """`f32[..., actions]`, 0 where an action is forbidden."""
    # Normalised twice, as distrax does, so that what is sampled stays the same bit for bit.
    return jax.nn.softmax(jax.nn.log_softmax(masked_logits(logits, mask), axis=-1), axis=-1)


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


def sample_actions(key: jax.Array, logits: ByRole, mask: ByRole) -> ByRole:
    """Actions `{role: i32[E, agents]}` by logits and masks `{role: [E, agents, actions]}`, from one batched draw."""
    num_agents = [logit.shape[-2] for logit in logits.values()]
    batch = next(iter(logits.values())).shape[:-2]
    uniform = jax.random.uniform(key, (*batch, sum(num_agents)), jnp.float32)
    ends = list(itertools.accumulate(num_agents))
    parts = jnp.split(uniform, ends[:-1], axis=-1)
    return {name: sample(part, logits[name], mask[name]) for name, part in zip(logits, parts, strict=True)}


def likeliest_actions(logits: ByRole, mask: ByRole) -> ByRole:
    """The most probable legal actions, `{role: i32[..., agents]}`; otherwise as `sample_actions`."""
    return {name: mode(logits[name], mask[name]) for name in logits}
