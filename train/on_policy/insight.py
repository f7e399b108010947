"""Probabilities and values of the states of one episode, from the networks that play it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp import Environment
from train.networks import distributions
from train.on_policy.actor_critic import Actors, Critics, Seen
from train.running.loop.insight import Insight


def insight(
    env: Environment, actors: Actors, critics: Critics, params: Any, critic: Any, states: Any, temperature: float
) -> Insight:
    """What actors and critics make of the states of one episode; pure.

    Args:
        env: the environment that was played.
        actors, critics: the networks.
        params: of the actors, by role.
        critic: `{"params": by critic, "value_norm": by role}`; None if there is none.
        states: leaves `[L, ...]`, from the beginning of an episode on, so that memories are as they were.
        temperature: what logits are divided by.
    """
    seen = jax.tree.map(lambda leaf: leaf[:, None], jax.vmap(lambda state: _seen(env, state))(states))
    mask = jax.vmap(env.action_mask)(states)
    reset = jnp.zeros(jax.tree.leaves(seen)[0].shape[:2], bool)
    logits, _ = actors.apply(params, actors.encode(params, seen), actors.initial_carry(1), reset)
    probability = {
        role: jax.nn.softmax(distributions.masked_logits(logits[role][:, 0] / temperature, mask[role]), axis=-1)
        for role in logits
    }
    if critic is None or not critics.networks:
        return Insight(probability, {})
    # As in the rollout: critics read what the actors' encoder made of entities only if it reads static ones alone.
    static = actors.encode_static(params, jax.tree.map(lambda leaf: leaf[:, 0], seen.static))
    seen = seen.replace(encoded=None if static is None else static[:, None])
    values, _ = critics.apply(critic["params"], critics.inputs(seen), critics.initial_carry(1), reset)
    return Insight(
        probability, {role: critic["value_norm"][role].denormalize(value[:, 0]) for role, value in values.items()}
    )


def _seen(env: Environment, state: Any) -> Seen:
    """What the agents see in one state."""
    return Seen(
        env.observation(state),
        env.global_observation(state),
        env.static_entities(state),
        env.entities(state),
        env.valid(state),
    )
