"""Episodes of `pcb` in the format of `jaxvrp.replay.episode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.pcb.env import ROLE, Pcb
from jaxvrp.envs.pcb.pictures import played_episode as episodes
from jaxvrp.envs.pcb.pictures.played_episode import Episode
from jaxvrp.envs.pcb.rules import State
from jaxvrp.replay.common import common_parts, plain
from jaxvrp.replay.schema import POINT, flag, index, many, number, optional, record, text


def export_episode(env: Pcb, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.replay.export_episode`."""
    episode = episodes.from_states(env, states)
    board = episode.board
    title = f"Placement: {len(episode.agents)} movable of {board.num_components} parts, {board.num_nets} nets"
    told = common_parts(env, episode.states, actions, kind="pcb", title=title, names={ROLE: None})
    steps, agents = told.pop("steps"), told.pop("agents")
    kept = np.flatnonzero(episode.states.instance.board.exists[0])
    component = np.searchsorted(kept, episode.states.instance.wiring.component[0, episode.agents])
    return {
        **told,
        "agents": [{**agent, "component": int(part)} for agent, part in zip(agents, component, strict=True)],
        "outline": plain(board.outline),
        "components": [_component(episode, part) for part in range(board.num_components)],
        "pins": [
            {"component": int(part), "offset": plain(offset), "net": int(net)}
            for part, offset, net in zip(board.pin_component, board.pin_offset, board.pin_net, strict=True)
        ],
        "nets": [{"rail": rail} for rail in board.power_rail.tolist()],
        "steps": [{**step, **_frame(episode, at)} for at, step in enumerate(steps)],
    }


def _component(episode: Episode, part: int) -> dict[str, Any]:
    board = episode.board
    return {
        "name": episode.names[part],
        "size": plain(board.size[part]),
        "fixed": bool(board.fixed[part]),
        "side": int(board.side[part]),
    }


def _frame(episode: Episode, at: int) -> dict[str, Any]:
    placement = episode.placement(at)
    return {
        "positions": plain(placement.position),
        "orientations": placement.orientation.tolist(),
        "hpwl": plain(np.float32(placement.hpwl)),
        "overlap": plain(placement.overlap),
    }


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    record(components=many(record(), least=1), nets=many(record(rail=index())))(episode, "")
    count = len(episode["components"])
    record(
        outline=POINT,
        components=many(record(name=text, size=POINT, fixed=flag, side=index(2))),
        pins=many(record(component=index(count), offset=POINT, net=optional(index(len(episode["nets"]))))),
        agents=many(record(component=index(count))),
        steps=many(
            record(
                positions=many(POINT, count),
                orientations=many(index(4), count),
                hpwl=number,
                overlap=many(number, count),
            )
        ),
    )(episode, "")
