"""What the episodes of all environments have in common, from their states; used by every environment's `replay.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxvrp.environment import Environment
from jaxvrp.spaces import Discrete

FORMAT, VERSION = "jaxvrp-episode", 1


def plain(values: Any) -> Any:
    """An array, or a tree of dicts, lists and numbers, as JSON has it; see the module for the numbers."""
    if isinstance(values, dict):
        return {str(name): plain(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    if values is None or isinstance(values, str):
        return values
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        return array.tolist()
    numbers = [float(str(value)) if math.isfinite(value) else None for value in array.ravel()]
    return np.array([*numbers, None], object)[:-1].reshape(array.shape).tolist()


def common_parts(
    env: Environment,
    states: Any,
    actions: Mapping[str, Any] | None,
    *,
    kind: str,
    title: str,
    names: Mapping[str, Sequence[str] | None],
) -> dict[str, Any]:
    """What the episodes of all kinds have: everything but the world itself, which goes into the entries of `steps`.

    Args:
        env: the environment.
        states: leaves `[L, ...]`, up to the end.
        actions: `{role: [T, agents, ...]}` with T >= L - 1, or None.
        kind, title: see the format.
        names: of the actions of each role.
    """
    look = jax.jit(jax.vmap(lambda at: (env.action_mask(at), env.reward(at), env.metrics(at), env.valid(at))))
    masks, rewards, metrics, valid = jax.device_get(look(states))
    # Rows that are void at the start are so throughout: nobody is there.
    here = {
        name: np.flatnonzero(valid[name][0]) if name in valid else np.arange(role.num_agents)
        for name, role in env.roles.items()
    }
    length = len(next(iter(rewards.values())))
    earned = np.arange(length)[:, None] > 0
    rewards = {role: np.where(earned, reward, 0.0)[:, here[role]] for role, reward in rewards.items()}
    steps = [
        {
            "step": at,
            "reward": {role: plain(reward[at]) for role, reward in rewards.items()},
            "mask": {role: [_digits(row) for row in mask[at][here[role]]] for role, mask in masks.items()},
            "action": None if actions is None or at + 1 == length else _at(env, actions, at, here),
        }
        for at in range(length)
    ]
    gained = np.concatenate(list(rewards.values()), axis=1).mean(axis=1)
    last = {name: plain(value[-1]) for name, value in metrics.items()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "title": title,
        "config": plain(env.parameters),
        "agents": [{"name": own[agent], "role": role} for role, own in env.agent_names.items() for agent in here[role]],
        "actions": {role: None if (own := names[role]) is None else list(own) for role in env.roles},
        "summary": {"return": plain(gained.sum(dtype=np.float64).astype(np.float32)), "length": length - 1, **last},
        "steps": steps,
    }


def _digits(row: np.ndarray) -> str:
    return "".join("01"[int(allowed)] for allowed in row)


def _at(env: Environment, actions: Mapping[str, Any], at: int, here: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The actions of one step; an index out of range does not get into the file, since nothing is done by that name."""
    chosen = {}
    for role, space in ((name, role.action) for name, role in env.roles.items()):
        values = np.asarray(actions[role])[at][here[role]]
        chosen[role] = plain(np.clip(values, 0, space.num_actions - 1) if isinstance(space, Discrete) else values)
    return chosen
