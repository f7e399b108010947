"""The entries that episodes of all kinds have, those of a story, and what a policy thought."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxvrp.environment import Environment
from jaxvrp.episodes import Episode
from jaxvrp.show.reasons import Cause, Reasons, grouped
from jaxvrp.show.story_format import to_json_values
from jaxvrp.spaces import Discrete, agent_names
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


def common_entries(
    episode: Episode,
    *,
    kind: str,
    title: str,
    action_names: Mapping[str, Sequence[str] | None],
    step_entries: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What episodes of every kind have, as `jaxvrp.show.episode_format` describes it.

    Args:
        episode: a `whole` one.
        kind: the name that the environment is registered under.
        title: a text for people.
        action_names: of the actions of each role; None, or nothing, for a role whose actions are numbers.
        step_entries: what the entry of `steps` of each state says besides.
    """
    env, seen = episode.env, episode.timesteps
    rows, last = present_rows(env, seen.valid), len(seen.terminated) - 1
    rewards = {role: np.asarray(reward)[:, rows[role]] for role, reward in seen.reward.items()}

    def step_entry(step: int, more: Mapping[str, Any]) -> dict[str, Any]:
        masks = {role: mask[step][rows[role]] for role, mask in seen.action_mask.items()}
        return {
            "step": step,
            "reward": {role: as_json(reward[step]) for role, reward in rewards.items()},
            "mask": {role: ["".join("01"[int(can)] for can in row) for row in mask] for role, mask in masks.items()},
            "action": None if episode.actions is None or step == last else _chosen(env, episode.actions, step, rows),
            **more,
        }

    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "title": title,
        "config": as_json(env.parameters),
        "agents": [
            {"name": names[row], "role": role} for role, names in agent_names(env.roles).items() for row in rows[role]
        ],
        "actions": {role: None if (names := action_names.get(role)) is None else list(names) for role in env.roles},
        "summary": {
            "return": as_json(np.float32(mean_return(rewards))),
            "length": last,
            **{name: as_json(value[-1]) for name, value in seen.metrics.items()},
        },
        "steps": [step_entry(step, more) for step, more in zip(range(last + 1), step_entries, strict=True)],
    }


def mean_return(rewards: Mapping[str, Any]) -> float:
    """The sum of rewards `{role: f32[L, agents]}` of all states, of each the mean over all agents."""
    paid = np.concatenate([np.asarray(reward) for reward in rewards.values()], axis=1)
    return float(paid.mean(axis=1).sum(dtype=np.float64))


def story_entries(episode: Episode, kind: str, story: Story) -> dict[str, Any]:
    """A `whole` episode with its story in the format of `jaxvrp.show.episode_format`; `kind` as of `common_entries`."""

    def step_entry(step: int) -> dict[str, Any]:
        whys = {role: to_json_values(states[step]) for role, states in story.why.items()}
        words = {role: list(states[step]) for role, states in story.instead.items()}
        return {**({"why": whys} if whys else {}), **({"instead": words} if any(map(any, words.values())) else {})}

    entries = common_entries(
        story.episode or episode,
        kind=kind,
        title=story.title,
        action_names=story.actions,
        step_entries=[step_entry(step) for step in range(len(story.clocks))],
    )
    of_vehicles = {card.agent: card.title for card in story.cards if card.vehicle is not None}
    shortfalls = [{"name": name, "why": why} for name, why in story.lost]
    return {
        **entries,
        "config": as_json(episode.env.parameters),
        "agents": [{**agent, "name": of_vehicles.get(at, agent["name"])} for at, agent in enumerate(entries["agents"])],
        "shortfalls": {"title": story.shortfall, "entries": shortfalls},
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

    def of_agent(role: str, step: int, row: int) -> Why:
        cause = jax.tree.map(lambda leaf: leaf[step, row], causes[role])
        return grouped(cause, np.asarray(masks[role])[step, row], reasons)

    steps = range(len(episode.timesteps.terminated))
    return {role: tuple(tuple(of_agent(role, step, row) for row in rows[role]) for step in steps) for role in causes}


def present_rows(env: Environment, valid: Mapping[str, Any]) -> dict[str, np.ndarray]:
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
