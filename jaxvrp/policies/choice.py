"""Choosing from masked logits: the most probable action, samples, and how probable they were."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp

from jaxvrp.policies.networks.layers import computed_once
from jaxvrp.spaces import ByRole

_FORBIDDEN = -1e9
"""Finite, so that a row without a legal action gives a uniform distribution and not NaN."""


def masked_logits(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Logits `f32[..., actions]` whose forbidden entries have probability exactly 0."""
    return jnp.where(mask, logits, _FORBIDDEN)


def sample(uniform: jax.Array, logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Actions, `i32[...]`, by inverting the distribution function, from a uniform number in [0, 1) each, `f32[...]`."""
    # Normalised twice, as distrax does, so that what is sampled stays the same bit for bit.
    probable = jax.nn.softmax(jax.nn.log_softmax(masked_logits(logits, mask), axis=-1), axis=-1)
    # Forbidden entries are struck out, since a parallel prefix sum may grow by one rounding where nothing is added. The
    # largest entry always exceeds the threshold: `uniform` is a multiple of 2^-23 below 1.
    cumulative = jnp.where(probable > 0, jnp.cumsum(probable, axis=-1), 0.0)
    threshold = uniform[..., None] * cumulative.max(axis=-1, keepdims=True)
    return jnp.argmax(cumulative > threshold, axis=-1).astype(jnp.int32)


def log_prob_and_entropy(logits: jax.Array, mask: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probability of `action` (`i32[...]`) and entropy in nats, each `f32[...]`."""
    logits = masked_logits(logits, mask)
    relative = computed_once(logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True)))
    weight = jnp.exp(relative)
    total = weight.sum(axis=-1)
    is_chosen = jnp.arange(logits.shape[-1], dtype=jnp.int32) == action[..., None]
    log_total = jnp.log(total)
    log_prob = jnp.where(is_chosen, relative, 0.0).sum(axis=-1) - log_total
    return log_prob, log_total - (weight * relative).sum(axis=-1) / total


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
    return {
        name: jnp.argmax(masked_logits(logit, mask[name]), axis=-1).astype(jnp.int32) for name, logit in logits.items()
    }


def log_probs(logits: ByRole, mask: ByRole, action: ByRole) -> ByRole:
    """Log-probabilities `{role: f32[E, agents]}` of actions `{role: i32[E, agents]}`.

    Logits and masks are `{role: [E, agents, actions]}`.
    """
    return {name: log_prob_and_entropy(logits[name], mask[name], chosen)[0] for name, chosen in action.items()}
