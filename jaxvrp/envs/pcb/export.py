"""Episodes of `pcb` in the format of `jaxvrp.replay.episode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.pcb import episode as episodes
from jaxvrp.envs.pcb.env import ROLE, Pcb
from jaxvrp.envs.pcb.episode import Episode
from jaxvrp.envs.pcb.rules import State
from jaxvrp.replay.episode import plain
from jaxvrp.replay.export import common


def export_episode(env: Pcb, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.replay.export_episode`."""
    episode = episodes.from_states(env, states)
    board = episode.board
    title = f"Placement: {len(episode.agents)} movable of {board.num_components} parts, {board.num_nets} nets"
    told = common(env, episode.states, actions, kind="pcb", title=title, names={ROLE: None})
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
