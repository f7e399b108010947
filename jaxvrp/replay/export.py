"""From the states of an episode to the episode format; what all environments share, and who exports which."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp.environment import Environment
from jaxvrp.replay.episode import FORMAT, VERSION, plain, write_episode
from jaxvrp.replay.pages import write_page
from jaxvrp.spaces import Discrete

EXPORTERS = {
    "jaxvrp.envs.darp.env:Darp": "jaxvrp.envs.darp.export",
    "jaxvrp.envs.pcb.env:Pcb": "jaxvrp.envs.pcb.export",
    "jaxvrp.envs.truck_drone.env:TruckDrone": "jaxvrp.envs.truck_drone.export",
}
"""Class of an environment to the module whose `export_episode` tells its episodes; imported on first use."""


def export_episode(env: Environment, states: Any, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One played episode in the format of `jaxvrp.replay.episode`.

    Args:
        env: the environment that was played; or one of your own with a method `export_episode(states, actions)`.
        states: of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        actions: `{role: [T, agents, ...]}`, what the agents did; None if that is not known.

    Raises:
        ValueError: an environment without an export, or states of no or of several episodes.
    """
    return exporter(env)(states, actions)


def exporter(env: Environment) -> Callable[[Any, Mapping[str, Any] | None], dict[str, Any]]:
    """The function from states and actions to an episode that belongs to `env`.

    Raises:
        ValueError: there is none.
    """
    if hasattr(env, "export_episode"):
        return env.export_episode
    for known in type(env).__mro__:
        if module := EXPORTERS.get(f"{known.__module__}:{known.__qualname__}"):
            export = importlib.import_module(module).export_episode
            return lambda states, actions: export(env, states, actions)
    raise ValueError(
        f"{type(env).__name__} has no episode export; write a method export_episode(states, actions) that returns "
        "an episode as jaxvrp.replay.episode describes it"
    )


def save(env: Environment, states: Any, path: str | os.PathLike, actions: Mapping[str, Any] | None = None) -> None:
    """Write one episode to a file, by the ending of its name.

    Args:
        env, states, actions: as for `export_episode`.
        path: `.json` the episode, `.html` a page that plays it; `.gif` an animation, `.png`, `.svg` or `.pdf` a still,
            by the environment's own renderer.

    Raises:
        ValueError: another ending, or what `export_episode` and the renderer refuse.
        OSError: the file cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        write_episode(export_episode(env, states, actions), path)
    elif suffix == ".html":
        write_page(export_episode(env, states, actions), path)
    elif env.renderer is None:
        raise ValueError(
            f"cannot draw to '{Path(path).name}': {type(env).__name__} has no renderer; use .json or .html"
        )
    else:
        env.renderer(states, path)


def common(
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
