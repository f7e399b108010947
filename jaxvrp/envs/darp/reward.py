"""What a plan costs: the distance, and a penalty for each node that is left unvisited."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp import rules
from jaxvrp.envs.darp.rules import State

REWARDS = ("sparse", "dense")
"""When it is paid: all on the last step, or the distance as it is driven; the sums are the same."""


def step_reward(
    state: State, *, kind: str, penalty_unvisited: jax.Array | float, orphan_factor: jax.Array | float
) -> jax.Array:
    """`f32[]`, of the step that led to `state`: minus what it costs, as the fields of `Darp` say."""
    stranded = rules.stranded(state).astype(jnp.float32)
    penalty = penalty_unvisited * (unvisited_nodes(state) + (orphan_factor - 1.0) * stranded)
    ending = jnp.where(state.done, penalty, 0.0)
    if kind == "dense":
        return -(state.step_distance + ending)
    return jnp.where(state.done, -(state.total_distance + ending), 0.0)


def unvisited_nodes(state: State) -> jax.Array:
    """`f32[]`, pickups and drop-offs."""
    return jnp.sum(~state.visited[1:], dtype=jnp.float32)
