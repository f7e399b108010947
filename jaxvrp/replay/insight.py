"""What a policy thought, added to an episode that it played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp.environment import Environment, writes
from jaxvrp.replay.common import as_json, present_rows


def with_insight(
    episode: dict[str, Any],
    env: Environment,
    states: Any,
    *,
    probability: Mapping[str, Any] | None = None,
    value: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The episode with what a policy thought at each step: probabilities to four decimals, and values.

    Args:
        episode: of `export_episode`.
        env, states: as there, one state for each decision; where a decision held for several steps, so does this.
        probability: `{role: f32[T+1, agents, actions]}`, 0 for masked actions.
        value: `{role: f32[T+1, agents]}`.
    """
    rows = present_rows(env, jax.device_get(jax.vmap(env.valid)(states)))
    clock = np.cumsum(np.asarray(jax.vmap(env.duration)(states))) if writes(env, "duration") else None
    last = len(episode["steps"]) - 1
    steps = []
    for at, step in enumerate(episode["steps"]):
        decision = at if clock is None else int(np.searchsorted(clock, at, side="right")) - 1
        told = {"value": {role: as_json(np.asarray(of)[decision][rows[role]]) for role, of in (value or {}).items()}}
        if at < last and probability:
            told["probability"] = {
                role: _shares(np.asarray(of)[decision][rows[role]], len(episode["actions"][role]))
                for role, of in probability.items()
            }
        steps.append({**step, **{name: of for name, of in told.items() if of}})
    return {**episode, "steps": steps}


def _shares(probability: np.ndarray, num_actions: int) -> list[list[float]]:
    """Rows of probabilities, of the actions that the episode names: the others are padding, and masked."""
    return [[round(float(share), 4) for share in row[:num_actions]] for row in probability]
