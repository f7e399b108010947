"""The episode format: one JSON object for one played episode, complete enough to be drawn without the environment.

Times are steps or the problem's own unit, lengths map units (mm for boards). Unknown further keys are allowed. A number
that is not finite (no deadline, no limit) is written as null. Numbers are the shortest that read back as the same
float32. Common to all kinds:

    format      "jaxvrp-episode"
    version     1; a file of another version is refused
    kind        "truck_drone", "darp" or "pcb"
    title       a text for people; `subtitle` may be there too
    config      the parameters of the environment, by name
    agents      [{name, role}] in the order of the roles, without void rows; pcb: also {component}
    actions     {role: [name of action 0, ...]}, or null for a role whose actions are numbers (a box)
    steps       the states 0..T, one object each (below)
    summary     {return, length, and the metrics of the last state}; return is the mean over agents

Every entry of `steps`, the state after `step` steps:

    step        0..T
    reward      {role: [number for each agent]} of the step that led here; 0 in the first
    mask        {role: [text for each agent]}: what it can do now, a digit for each action, 1 if it is allowed
    action      {role: [index, or list of numbers, for each agent]}: what it does now, as it was asked for; null in the
                last, or unknown

Of kind "truck_drone", y points up:

    map         {x: [low, high], y: [low, high]}, what should be seen
    nodes       [{position}], where the truck can drive
    customers   [{position, demand, window: [first, last] in steps, served_at: step or null, served_by: drone or null,
                late: steps after the window}]
    max_battery a full charge
    steps       also: truck {position, velocity}; drones [{position, velocity, battery, status: "onboard" | "flying" |
                "returning" | "crashed", carrying: customer or null, target: point or null, forced_return}];
                served: [customers, so far]

Of kind "darp" (vehicles drive one after the other; node 0 is the depot, request r has its pickup at node 2r - 1 and its
drop-off at 2r; padding is left out of `requests`, but not of `nodes`), y points up:

    nodes       [{position, demand, window: [earliest, deadline or null], service_time, vehicle, begin, late}]: who
                served it, when service began, how much after the deadline; null, null and 0 if nobody did
    requests    [{request, delivered, ride: time or null, too_long}]
    vehicles    [{name, capacity}]
    legs        [{step, vehicle, from, to, leave, begin, load_before, load}]: the drives that step `step` (from that
                state to the next) brings about, with the times of `solution_report`; the last step may also bring a
                vehicle home
    span        [first, last] time that is worth showing
    verdict     "feasible", or what is not
    steps       also: vehicle and node (where the current vehicle is), clock, load, distance (so far)

Of kind "pcb", y points down:

    outline     [width, height]
    components  [{name, size: [width, height] unturned, fixed, side: 0 | 1}]
    pins        [{component, offset: point, unturned, net: index or null}]
    nets        [{rail}]: 0 for a signal, whose wires are drawn
    steps       also: positions [point for each component], orientations [quarter turns, counter-clockwise on screen],
                hpwl, overlap: [share of each component's own area that overlaps or lies outside]
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from jaxvrp import registry
from jaxvrp.io.whole_files import write_text
from jaxvrp.replay import schema
from jaxvrp.replay.common import FORMAT, VERSION

REMEDY = "write it with jaxvrp.replay.save or python -m train.replay"


def check(episode: Any) -> None:
    """Check an episode against the format of this module.

    Raises:
        ValueError: one line with what is wrong, and where.
    """
    if not isinstance(episode, dict) or episode.get("format") != FORMAT:
        raise ValueError(f'this is no episode: it has no "format": "{FORMAT}"; {REMEDY}')
    if episode.get("version") != VERSION:
        found = episode.get("version")
        raise ValueError(f"version is {found!r}; this program draws version {VERSION}: {REMEDY} of this version")
    schema.record(
        kind=schema.text,
        title=schema.text,
        config=schema.mapping(schema.anything),
        agents=schema.many(schema.record(name=schema.text, role=schema.text), least=1),
        actions=schema.mapping(schema.optional(schema.many(schema.text, least=1))),
        steps=schema.many(schema.record(), least=1),
        summary=schema.mapping(schema.anything),
    )(episode, "")
    kind = registry.replay_kind(episode["kind"])
    _check_steps(episode)
    kind.check(episode)


def _check_steps(episode: dict[str, Any]) -> None:
    """What the steps of all kinds have in common."""
    counts: dict[str, int] = {}
    for agent in episode["agents"]:
        counts[agent["role"]] = counts.get(agent["role"], 0) + 1
    roles = schema.record(**dict.fromkeys(counts, schema.anything))
    roles(episode["actions"], "actions")
    names = {role: episode["actions"][role] for role in counts}
    chosen = {
        role: schema.many(
            schema.many(schema.optional(schema.number)) if names[role] is None else schema.index(len(names[role])),
            count,
        )
        for role, count in counts.items()
    }
    masks = {role: schema.many(schema.mask(len(names[role])), counts[role]) for role in counts if names[role]}
    each = schema.record(
        step=schema.index(),
        reward=schema.record(**{role: schema.many(schema.number, count) for role, count in counts.items()}),
        mask=schema.record(**masks),
        action=schema.optional(schema.record(**chosen)),
    )
    schema.many(each)(episode["steps"], "steps")


def read_episode(path: str | os.PathLike) -> dict[str, Any]:
    """Read and check an episode file.

    Raises:
        ValueError: it is no JSON, or no episode of this version; one line that names the file, the place, the remedy.
        OSError: it cannot be read.
    """
    try:
        episode = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({error}); {REMEDY}") from None
    try:
        check(episode)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return episode


def to_json(episode: dict[str, Any]) -> str:
    """The text of an episode file, a line for each step.

    Raises:
        ValueError: the episode does not follow the format.
    """
    check(episode)
    head = {name: value for name, value in episode.items() if name != "steps"}
    lines = [f"{json.dumps(name)}: {_line(value)}" for name, value in head.items()]
    steps = ",\n  ".join(_line(step) for step in episode["steps"])
    return "{\n" + ",\n".join([*lines, f'"steps": [\n  {steps}\n]']) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(", ", ": "), ensure_ascii=False)


def write_episode(episode: dict[str, Any], path: str | os.PathLike) -> None:
    """Write an episode file, completely or not at all.

    Raises:
        ValueError: the episode does not follow the format.
        OSError: the file cannot be written.
    """
    text = to_json(episode)
    write_text(path, text)
