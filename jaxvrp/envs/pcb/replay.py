"""Episodes of `pcb` as `jaxvrp.replay.episode_format` has them, played by `replay.js`.

Lengths are mm, y points down. Besides what all episodes have:

    agents      each also: {component}, the index of its part
    outline     [width, height]
    components  [{name, size: [width, height] unturned, fixed, side: 0 | 1}]
    pins        [{component, offset: point, unturned, net: index or null}]
    nets        [{rail}]: 0 for a signal, whose wires are drawn
    steps       also: positions [point for each component], orientations [quarter turns, counter-clockwise on screen],
                hpwl, overlap: [share of each component's own area that overlaps or lies outside]

No action is masked; `instead` tells of moves that ended at the edge of the board.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.pcb.env import ROLE, Pcb
from jaxvrp.envs.pcb.pictures import played_episode
from jaxvrp.envs.pcb.pictures.played_episode import PlayedEpisode
from jaxvrp.envs.pcb.reasons import move_outcome, shortfalls
from jaxvrp.envs.pcb.rules import State
from jaxvrp.replay.common import as_json, common_entries
from jaxvrp.replay.schema import POINT, boolean, list_of, number, object_with, optional, text, whole_number


def export_episode(env: Pcb, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.replay.export_episode`."""
    episode = played_episode.from_states(env, states)
    board = episode.board
    title = f"Placement: {len(episode.agents)} movable of {board.num_components} parts, {board.num_nets} nets"
    entries = common_entries(
        env,
        episode.states,
        actions,
        kind="pcb",
        title=title,
        action_names={ROLE: None},
        step_entries=[_step_entry(episode, index) for index in range(episode.length)],
    )
    kept = np.flatnonzero(episode.states.instance.board.exists[0])
    component = np.searchsorted(kept, episode.states.instance.wiring.component[0, episode.agents])
    names = {int(part): agent["name"] for agent, part in zip(entries["agents"], component, strict=True)}
    return {
        **entries,
        "steps": _with_outcomes(env, entries["steps"], component, board.outline),
        "agents": [{**agent, "component": int(part)} for agent, part in zip(entries["agents"], component, strict=True)],
        "outline": as_json(board.outline),
        "components": [_component(episode, part) for part in range(board.num_components)],
        "pins": [
            {"component": int(part), "offset": as_json(offset), "net": int(net)}
            for part, offset, net in zip(board.pin_component, board.pin_offset, board.pin_net, strict=True)
        ],
        "nets": [{"rail": rail} for rail in board.power_rail.tolist()],
        "shortfalls": shortfalls(episode.placement(-1), names),
    }


def _with_outcomes(
    env: Pcb, steps: list[dict[str, Any]], component: np.ndarray, outline: np.ndarray
) -> list[dict[str, Any]]:
    """The entries of `steps`, with the key `instead` where a move was not what was asked for."""
    told = list(steps)
    for at, (now, then) in enumerate(itertools.pairwise(steps)):
        if now["action"] is None:
            continue
        words = [
            move_outcome(
                action,
                now["positions"][part],
                then["positions"][part],
                outline=outline,
                step_fraction=float(env.step_fraction),
                clamp=env.boundary == "clamp",
            )
            for action, part in zip(now["action"][ROLE], component, strict=True)
        ]
        if any(words):
            told[at] = {**now, "instead": {ROLE: words}}
    return told


def _component(episode: PlayedEpisode, part: int) -> dict[str, Any]:
    board = episode.board
    return {
        "name": episode.names[part],
        "size": as_json(board.size[part]),
        "fixed": bool(board.fixed[part]),
        "side": int(board.side[part]),
    }


def _step_entry(episode: PlayedEpisode, index: int) -> dict[str, Any]:
    """What the entry of the state with this index says of the world."""
    placement = episode.placement(index)
    return {
        "positions": as_json(placement.position),
        "orientations": placement.orientation.tolist(),
        "hpwl": as_json(np.float32(placement.hpwl)),
        "overlap": as_json(placement.overlap),
    }


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    object_with(components=list_of(object_with(), least=1), nets=list_of(object_with(rail=whole_number())))(episode, "")
    count = len(episode["components"])
    object_with(
        outline=POINT,
        components=list_of(object_with(name=text, size=POINT, fixed=boolean, side=whole_number(2))),
        pins=list_of(
            object_with(component=whole_number(count), offset=POINT, net=optional(whole_number(len(episode["nets"]))))
        ),
        agents=list_of(object_with(component=whole_number(count))),
        steps=list_of(
            object_with(
                positions=list_of(POINT, count),
                orientations=list_of(whole_number(4), count),
                hpwl=number,
                overlap=list_of(number, count),
            )
        ),
    )(episode, "")
