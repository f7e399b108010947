"""Episodes of `pcb` in the format of `jaxvrp.show.episode_format`, played by `replay.js`.

Lengths are mm, y points down. Besides the entries of all episodes:

    agents      each also: {component}, the index of its part
    outline     [width, height]
    components  [{name, size: [width, height] unturned, fixed, side: 0 | 1}]
    pins        [{component, offset: point, unturned, net: index or null}]
    nets        [{rail}]: 0 for a signal, whose wires are drawn
    steps       also: positions [point for each component], orientations [quarter turns, counter-clockwise on screen],
                hpwl, overlap: [share of each component's own area that overlaps or lies outside]

No action is masked; `instead` says which moves ended at the edge of the board.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.pcb import played
from jaxvrp.envs.pcb.env import ROLE, Pcb
from jaxvrp.envs.pcb.geometry import LEGAL_OVERLAP
from jaxvrp.envs.pcb.plan import BoardOfFile
from jaxvrp.envs.pcb.played import Placement
from jaxvrp.episodes import Episode
from jaxvrp.io import messages
from jaxvrp.io.schema import POINT, boolean, list_of, number, object_with, optional, text, whole_number
from jaxvrp.show.common import as_json, common_entries

LEAST_LOSS = 1e-3  # mm; shorter losses of a move are not mentioned


def export_episode(recorded: Episode, problem: BoardOfFile | None = None) -> dict[str, Any]:
    """See `jaxvrp.show.export_episode`."""
    env = recorded.env
    assert isinstance(env, Pcb)
    episode = played.from_states(env, recorded.states)
    board, names = episode.board, [part.name for part in problem.netlist.components] if problem else episode.names
    entries = common_entries(
        recorded,
        kind="pcb",
        title=f"Placement: {len(episode.agents)} movable of {board.num_components} parts, {board.num_nets} nets",
        action_names={ROLE: None},
        step_entries=[
            {
                "positions": as_json(placement.position),
                "orientations": placement.orientation.tolist(),
                "hpwl": as_json(np.float32(placement.hpwl)),
                "overlap": as_json(placement.overlap),
            }
            for placement in map(episode.placement, range(episode.length))
        ],
    )
    component = np.searchsorted(episode.parts, episode.states.instance.wiring.component[0, episode.agents]).tolist()
    agents = [{**agent, "component": part} for agent, part in zip(entries["agents"], component, strict=True)]
    parts = zip(names, as_json(board.size), board.fixed.tolist(), board.side.tolist(), strict=True)
    pins = zip(board.pin_component.tolist(), as_json(board.pin_offset), board.pin_net.tolist(), strict=True)
    return {
        **entries,
        "steps": _with_outcomes(env, entries["steps"], component, board.outline),
        "agents": agents,
        "outline": as_json(board.outline),
        "components": [{"name": name, "size": size, "fixed": fixed, "side": side} for name, size, fixed, side in parts],
        "pins": [{"component": part, "offset": offset, "net": net} for part, offset, net in pins],
        "nets": [{"rail": rail} for rail in board.power_rail.tolist()],
        "shortfalls": _shortfalls(episode.placement(-1), {agent["component"]: agent["name"] for agent in agents}),
    }


def _with_outcomes(
    env: Pcb, steps: list[dict[str, Any]], component: list[int], outline: np.ndarray
) -> list[dict[str, Any]]:
    """The entries of `steps`, with the key `instead` where the result of a move was not the requested one."""
    limits: dict[str, Any] = {"step_fraction": float(env.step_fraction), "clamp": env.boundary == "clamp"}
    changed = list(steps)
    for at, (now, then) in enumerate(itertools.pairwise(steps)):
        moves = [] if now["action"] is None else zip(now["action"][ROLE], component, strict=True)
        start, end = now["positions"], then["positions"]
        words = [move_outcome(action, start[part], end[part], outline=outline, **limits) for action, part in moves]
        if any(words):
            changed[at] = {**now, "instead": {ROLE: words}}
    return changed


def move_outcome(
    action: Sequence[float | None],
    start: ArrayLike,
    end: ArrayLike,
    *,
    outline: ArrayLike,
    step_fraction: float,
    clamp: bool,
) -> str | None:
    """The result of a part's move, in words, where it is not the requested one; None where it is.

    `action`: the three requested numbers, None for one that is not finite. `start`, `end`: `[2]`, the part's centre
    before and after the step. `outline`: `[2]`. `step_fraction`: longest step, as a share of the board's shorter side.
    `clamp`: centres are kept on the board; else a part stays only where it had no turn.
    """
    if None in action:
        return "no move: the action is not finite"
    asked = np.asarray(action, float)
    share, angle = 0.5 * (np.clip(asked[:2], -1, 1) + 1) * (1, 2 * np.pi)
    step = step_fraction * float(np.min(outline)) * share * np.array([np.cos(angle), -np.sin(angle)])
    words = ["action clipped to its box"] if (np.abs(asked) > 1).any() else []
    lost = float(np.linalg.norm(np.asarray(start, float) + step - np.asarray(end, float)))
    if lost > LEAST_LOSS:
        edge = f"stopped at the board's edge, {messages.number(lost)} mm short of where it was to go"
        words.append(edge if clamp else "no turn: a part had left the board")
    return "; ".join(words) or None


def _shortfalls(placement: Placement, agents: Mapping[int, str]) -> dict[str, Any]:
    """The movable parts that do not lie legally at the end, what they overlap, and how far they are off the board.

    `agents`: names of the agents by index of their parts.
    """
    bodies, side, outline = placement.boxes, placement.board.side, np.array([0.0, 0.0, *placement.board.outline])
    entries = []
    for part in (part for part in agents if placement.wrong[part]):
        shared = [_common_area(bodies[part], other) for other in bodies]
        words = [
            f"{messages.number(area)} mm² on {agents.get(other, f'fixed part {other}')}"
            for other, area in enumerate(shared)
            if other != part and side[other] == side[part] and area > 0
        ]
        outside = shared[part] - _common_area(bodies[part], outline)
        if outside > LEGAL_OVERLAP * shared[part]:
            words.append(f"{messages.number(outside)} mm² off the board")
        entries.append({"name": agents[part], "why": ", ".join(words)})
    return {"title": "Not legal in the end", "entries": entries}


def _common_area(a: np.ndarray, b: np.ndarray) -> float:
    span = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    return float(np.prod(np.maximum(span, 0.0)))


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
