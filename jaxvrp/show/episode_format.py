"""The episode format: one JSON object for one played episode, complete enough to be drawn without the environment.

Unknown further keys are allowed. A number that is not finite (no deadline, no limit) is written as null. Numbers are
the shortest that read back as the same float32. Common to all kinds:

    format      "jaxvrp-episode"
    version     2; a file of another version is refused
    kind        the name that the environment is registered under
    title       a text for people; `subtitle` may be there too
    config      the parameters of the environment, by name
    agents      [{name, role}] in the order of the roles, without void rows
    actions     {role: [name of action 0, ...]}, or null for a role whose actions are numbers (a box)
    steps       the states 0..T, one object each (below)
    summary     {return, length, and the metrics of the last state}; return is the mean over agents

Every entry of `steps`, the state after `step` steps:

    step        0..T
    reward      {role: [number for each agent]} of the step that led here; 0 in the first
    mask        {role: [text for each agent]}: what it can do now, a digit for each action, 1 if it is allowed
    action      {role: [index, or list of numbers, for each agent]}: what it does now, as it was asked for; null in the
                last, or unknown

What may be there too, of the episode:

    player      "policy", or the name of a baseline
    shortfalls  {title, entries: [{name, why}]}: customers not served (or other faults) in the end, and why

And of every entry of `steps`, by role with an entry for each agent:

    why         {role: [[[text, [actions]], ...]]}: why its masked actions are so, each reason with what it forbids
    instead     {role: [text or null]}: what became of its action, where that is not what it asked for
    probability {role: [[number for each action]]} that the policy gave to them
    value       {role: [number]}: the return from here on that the critic expects, discounted

What was where when stands under `story`: a `jaxvrp.story.Story` as `jaxvrp.show.story_format` writes it. An episode
without one is drawn by the `replay.js` of its environment, whose `replay.py` describes and checks what it has instead,
in further keys and in every entry of `steps`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from jaxvrp import registry
from jaxvrp.io import schema
from jaxvrp.io.json_files import as_read, read_json
from jaxvrp.io.messages import shown
from jaxvrp.io.whole_files import write_text
from jaxvrp.show.common import FORMAT, VERSION
from jaxvrp.show.story_format import check_story
from jaxvrp.toolbox import View

REMEDY = "write it with jaxvrp.show.save or python -m train.replay"


def check(episode: Any) -> None:
    """Check an episode against the format of this module and of its kind.

    Raises:
        ValueError: one line with what is wrong, and where; also if its kind is no registered environment with a replay.
    """
    if not isinstance(episode, dict) or episode.get("format") != FORMAT:
        raise ValueError(f'this is no episode: it has no "format": "{FORMAT}"; {REMEDY}')
    if episode.get("version") != VERSION:
        found = shown(episode.get("version"))
        raise ValueError(f"version is {found}; this program draws version {VERSION}: {REMEDY} of this version")
    schema.object_with(
        kind=schema.text,
        title=schema.text,
        config=schema.object_of(schema.anything),
        agents=schema.list_of(schema.object_with(name=schema.text, role=schema.text), least=1),
        actions=schema.object_of(schema.optional(schema.list_of(schema.text, least=1))),
        steps=schema.list_of(schema.object_with(), least=1),
        summary=schema.object_of(schema.anything),
    )(episode, "")
    shortfall = schema.object_with(name=schema.text, why=schema.text)
    schema.optional_keys(
        player=schema.text, shortfalls=schema.object_with(title=schema.text, entries=schema.list_of(shortfall))
    )(episode, "")
    check_rest = check_story if "story" in episode else view_of(episode).check
    _check_steps(episode)
    check_rest(episode)


def view_of(episode: Mapping[str, Any]) -> View:
    """How an episode without a story is checked and drawn.

    Raises:
        ValueError: its kind is no registered environment that has this.
    """
    try:
        return registry.view_of_kind(episode["kind"])
    except ValueError as error:
        remedy = "one of your own: import what registers it, and call jaxvrp.show.write_page"
        raise ValueError(f"{error}; {remedy}") from None


def _check_steps(episode: dict[str, Any]) -> None:
    """Check the entries of `steps` as far as all kinds share them: numbers of agents and of actions must agree."""
    counts: dict[str, int] = {}
    for agent in episode["agents"]:
        counts[agent["role"]] = counts.get(agent["role"], 0) + 1
    schema.object_with(**dict.fromkeys(counts, schema.anything))(episode["actions"], "actions")
    numbers = schema.list_of(schema.optional(schema.number))
    # 0 for a role whose actions are numbers.
    num_actions = {role: len(episode["actions"][role] or ()) for role in counts}

    def by_role(inner: Callable[[int], schema.Check]) -> dict[str, schema.Check]:
        return {role: schema.list_of(inner(num_actions[role]), count) for role, count in counts.items()}

    chosen = by_role(lambda num: schema.whole_number(num) if num else numbers)
    masks = by_role(schema.mask)
    required = schema.object_with(
        step=schema.whole_number(),
        reward=schema.object_with(**by_role(lambda num: schema.number)),
        mask=schema.object_with(**{role: check for role, check in masks.items() if num_actions[role]}),
        action=schema.optional(schema.object_with(**chosen)),
    )
    optional = schema.optional_keys(
        why=schema.optional_keys(**by_role(lambda num: schema.list_of(_reason(num)))),
        instead=schema.optional_keys(**by_role(lambda num: schema.optional(schema.text))),
        probability=schema.optional_keys(**by_role(lambda num: schema.list_of(schema.number, num))),
        value=schema.optional_keys(**by_role(lambda num: schema.number)),
    )
    schema.list_of(schema.all_of(required, optional))(episode["steps"], "steps")


def _reason(num_actions: int) -> schema.Check:
    """A check for a reason with the actions that it forbids."""
    return schema.list_of_each(schema.text, schema.list_of(schema.whole_number(num_actions), least=1))


def read_episode(path: str | os.PathLike) -> dict[str, Any]:
    """Read and check an episode file.

    Raises:
        ValueError: it is no JSON, or no episode of this version; one line that names the file, the place, the remedy.
        OSError: it cannot be read.
    """
    episode = read_json(path, REMEDY)
    try:
        check(episode)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return episode


def to_json(episode: dict[str, Any]) -> str:
    """The text of an episode file, a line for each step; the same for an episode that was read from one.

    Raises:
        ValueError: the episode does not follow the format.
    """
    check(episode)
    episode = as_read(episode)
    head = {name: value for name, value in episode.items() if name != "steps"}
    line = functools.partial(json.dumps, allow_nan=False, ensure_ascii=False)
    lines = [f"{json.dumps(name)}: {line(value)}" for name, value in head.items()]
    steps = ",\n  ".join(map(line, episode["steps"]))
    return "{\n" + ",\n".join([*lines, f'"steps": [\n  {steps}\n]']) + "\n}\n"


def write_episode(episode: dict[str, Any], path: str | os.PathLike) -> None:
    """Write an episode file, completely or not at all.

    Raises:
        ValueError: the episode does not follow the format.
        OSError: the file cannot be written.
    """
    write_text(path, to_json(episode))
