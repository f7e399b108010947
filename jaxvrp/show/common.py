"""The entries that episodes of all kinds share, made from states, and what a policy thought.

Each environment's `replay.py` adds its own entries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxvrp.environment import Environment
from jaxvrp.episodes import Episode
from jaxvrp.show.reasons import Cause, Groups, Reasons, grouped
from jaxvrp.show.story_format import to_json_values
from jaxvrp.spaces import ByRole, Discrete, agent_names
from jaxvrp.story import Story, Why

FORMAT, VERSION = "jaxvrp-episode", 2


def as_json(values: Any) -> Any:
    """An array, or a tree of dicts, lists and numbers, as JSON values.

    A float becomes the shortest decimal that reads back as the same number in its precision; one that is not finite
    becomes None.
    """
    if isinstance(values, dict):
        return {str(name): as_json(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [as_json(value) for value in values]
    if values is None or isinstance(values, str):
        return values
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        return array.tolist()
    numbers = [float(str(value)) if math.isfinite(value) else None for value in array.ravel()]
    # The extra None keeps NumPy from making an array of floats.
    return np.array([*numbers, None], object)[:-1].reshape(array.shape).tolist()


def as_json_float32(value: float) -> float | None:
    """A number that was computed in `float64` from `float32` data, without the digits that would be noise."""
    return as_json(np.float32(value))


def common_entries(
    env: Environment,
    states: Any,
    actions: Mapping[str, Any] | None,
    *,
    kind: str,
    title: str,
    action_names: Mapping[str, Sequence[str] | None],
    step_entries: Sequence[Mapping[str, Any]],
    reasons: Reasons | None = None,
) -> dict[str, Any]:
    """What episodes of every kind have, as `jaxvrp.show.episode_format` describes it; an environment adds its own.

    Args:
        env: the environment that was played.
        states: leaves `[L, ...]`, up to the end of the episode.
        actions: `{role: [T, agents, ...]}` with T >= L - 1, or None if they are not known.
        kind: the name that the environment is registered under.
        title: a text for people.
        action_names: of the actions of each role; None for a role whose actions are numbers.
        step_entries: L of them, what each entry of `steps` says of the world.
        reasons: why actions are masked; None if no reasons are written.
    """

    @jax.jit
    @jax.vmap
    def observe(state: Any) -> tuple[ByRole, ByRole, dict[str, jax.Array], ByRole, Mapping[str, Cause]]:
        causes = reasons.explain(state) if reasons else {}
        return env.action_mask(state), env.reward(state), env.metrics(state), env.valid(state), causes

    masks, rewards, metrics, valid, causes = jax.device_get(observe(states))
    rows, last_step = present_rows(env, valid), len(step_entries) - 1
    # No step led to the first state.
    is_later = np.arange(last_step + 1)[:, None] > 0
    rewards = {role: np.where(is_later, reward, 0.0)[:, rows[role]] for role, reward in rewards.items()}
    mean_reward = np.concatenate(list(rewards.values()), axis=1).mean(axis=1)
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "title": title,
        "config": as_json(env.parameters),
        "agents": [
            {"name": names[row], "role": role} for role, names in agent_names(env.roles).items() for row in rows[role]
        ],
        "actions": {role: None if (names := action_names[role]) is None else list(names) for role in env.roles},
        "summary": {
            "return": as_json(mean_reward.sum(dtype=np.float64).astype(np.float32)),
            "length": last_step,
            **{name: as_json(value[-1]) for name, value in metrics.items()},
        },
        "steps": [
            {
                "step": step,
                "reward": {role: as_json(reward[step]) for role, reward in rewards.items()},
                "mask": {
                    role: ["".join("01"[int(allowed)] for allowed in mask[step, row]) for row in rows[role]]
                    for role, mask in masks.items()
                },
                "action": None if actions is None or step == last_step else _chosen(env, actions, step, rows),
                **({} if reasons is None else {"why": _why(reasons, causes, masks, step, rows)}),
                **entry,
            }
            for step, entry in enumerate(step_entries)
        ],
    }


def story_entries(episode: Episode, kind: str, story: Story) -> dict[str, Any]:
    """A `whole` episode with its story in the format of `jaxvrp.show.episode_format`.

    `kind` is the name that the environment is registered under.
    """
    parameters, episode = episode.env.parameters, story.episode or episode
    env, seen = episode.env, episode.timesteps
    rows, last = present_rows(env, seen.valid), len(seen.terminated) - 1
    rewards = {role: np.asarray(reward)[:, rows[role]] for role, reward in seen.reward.items()}
    mean_reward = np.concatenate(list(rewards.values()), axis=1).mean(axis=1)
    agents = [(names[row], role) for role, names in agent_names(env.roles).items() for row in rows[role]]
    of_vehicles = {card.agent: card.title for card in story.cards if card.vehicle is not None}

    def step_entry(step: int) -> dict[str, Any]:
        masks = {role: mask[step][rows[role]] for role, mask in seen.action_mask.items()}
        whys = {role: to_json_values(states[step]) for role, states in story.why.items()}
        words = {role: [text or None for text in states[step]] for role, states in story.instead.items()}
        return {
            "step": step,
            "reward": {role: as_json(reward[step]) for role, reward in rewards.items()},
            "mask": {role: ["".join("01"[int(can)] for can in row) for row in mask] for role, mask in masks.items()},
            "action": None if episode.actions is None or step == last else _chosen(env, episode.actions, step, rows),
            **({"why": whys} if whys else {}),
            **({"instead": words} if any(any(texts) for texts in words.values()) else {}),
        }

    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "title": story.title,
        "config": as_json(parameters),
        "agents": [{"name": of_vehicles.get(at, name), "role": role} for at, (name, role) in enumerate(agents)],
        "actions": {role: None if (names := story.actions.get(role)) is None else list(names) for role in env.roles},
        "summary": {
            "return": as_json(mean_reward.sum(dtype=np.float64).astype(np.float32)),
            "length": last,
            **{name: as_json(value[-1]) for name, value in seen.metrics.items()},
        },
        "shortfalls": {
            "title": story.shortfall,
            "entries": [{"name": name, "why": why} for name, why in story.lost],
        },
        "steps": [step_entry(step) for step in range(last + 1)],
        "story": to_json_values(story),
    }


def causes_of(reasons: Reasons, episode: Episode) -> Mapping[str, Cause]:
    """By role, why actions are masked in each state of a `whole` episode, in numbers; leaves `[L, agents, actions]`."""
    return jax.device_get(jax.jit(jax.vmap(reasons.explain))(episode.states))


def whys_of(
    reasons: Reasons, episode: Episode, causes: Mapping[str, Cause] | None = None
) -> dict[str, tuple[tuple[Why, ...], ...]]:
    """By role, for each state of a `whole` episode and each agent that is there, why actions are masked, in words."""
    causes = causes_of(reasons, episode) if causes is None else causes
    masks, rows = episode.timesteps.action_mask, present_rows(episode.env, episode.timesteps.valid)
    whys = [_why(reasons, causes, masks, step, rows) for step in range(len(episode.timesteps.terminated))]
    return {
        role: tuple(tuple(tuple((text, tuple(each)) for text, each in agent) for agent in why[role]) for why in whys)
        for role in causes
    }


def _why(
    reasons: Reasons, causes: Mapping[str, Cause], masks: ByRole, step: int, rows: Mapping[str, np.ndarray]
) -> dict[str, list[Groups]]:
    """By role the reasons of each agent at a step."""

    def of_agent(role: str, row: int) -> Groups:
        cause = jax.tree.map(lambda leaf: leaf[step, row], causes[role])
        return grouped(cause, np.asarray(masks[role])[step, row], reasons)

    return {role: [of_agent(role, row) for row in rows[role]] for role in causes}


def present_rows(env: Environment, valid: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`{role: i64[rows]}`, the agents that are there: rows that are void at the start are so throughout."""
    return {
        name: np.flatnonzero(valid[name][0]) if name in valid else np.arange(role.num_agents)
        for name, role in env.roles.items()
    }


def _chosen(env: Environment, actions: Mapping[str, Any], step: int, rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The actions of one step, by role; an index out of range is clipped, since the format has only names."""
    chosen = {}
    for name, role in env.roles.items():
        values = np.asarray(actions[name])[step][rows[name]]
        if isinstance(role.action, Discrete):
            values = np.clip(values, 0, role.action.num_actions - 1)
        chosen[name] = as_json(values)
    return chosen


def with_insight(
    exported: dict[str, Any],
    episode: Episode,
    *,
    probability: Mapping[str, Any] | None = None,
    value: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The episode with what a policy thought at each step: probabilities to four decimals, and values.

    Args:
        exported: of `export_episode`.
        episode: as there; where a decision held for several steps, so do these.
        probability: `{role: f32[T+1, agents, actions]}`, 0 for masked actions.
        value: `{role: f32[T+1, agents]}`.
    """
    rows = present_rows(episode.env, jax.device_get(episode.timesteps.valid))
    clock = np.cumsum(np.asarray(episode.timesteps.duration))
    last = len(exported["steps"]) - 1
    steps = []
    for at, step in enumerate(exported["steps"]):
        decision = int(np.searchsorted(clock, at, side="right")) - 1
        thought = {"value": {role: as_json(np.asarray(of)[decision][rows[role]]) for role, of in (value or {}).items()}}
        if at < last and probability:
            # Actions that the episode does not name are padding, and masked.
            thought["probability"] = {
                role: [
                    [round(float(share), 4) for share in row[: len(exported["actions"][role])]]
                    for row in np.asarray(of)[decision][rows[role]]
                ]
                for role, of in probability.items()
            }
        steps.append({**step, **{name: of for name, of in thought.items() if of}})
    return {**exported, "steps": steps}
