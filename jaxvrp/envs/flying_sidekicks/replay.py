"""Episodes of `flying_sidekicks` in the form of `jaxvrp.envs.tsp_drone.replay`, with several drones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.envs.flying_sidekicks import rules
from jaxvrp.envs.flying_sidekicks.env import TRUCK, FlyingSidekicks
from jaxvrp.envs.flying_sidekicks.plan import steps_of
from jaxvrp.envs.flying_sidekicks.played import plan_of_states
from jaxvrp.envs.flying_sidekicks.report import DRIVE, LAUNCH, RECOVER, SERVE
from jaxvrp.envs.flying_sidekicks.rules import State
from jaxvrp.envs.truck_and_drone.played import name_of, verdict
from jaxvrp.envs.truck_and_drone.replay import drawn
from jaxvrp.episodes import until_end
from jaxvrp.show.common import as_json, as_json_float32, common_entries

KINDS = {DRIVE: rules.DRIVE, SERVE: rules.SERVE, LAUNCH: rules.LAUNCH, RECOVER: rules.RECOVER}


def export_episode(env: FlyingSidekicks, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.show.export_episode`; actions that are not given are read off the states."""
    states = until_end(states)
    plan, steps = plan_of_states(states), steps_of(states)
    drones = plan.vehicles[1:]
    if actions is None:
        kind, node, drone = np.array([(KINDS[step.kind], step.node, step.drone or 0) for step in steps], np.int32).T
        actions = {TRUCK: rules.action_of(kind, node, drone, env.num_nodes, env.num_drones)[:, None]}
    turns = [TRUCK, *(TRUCK if step.drone is None else drones[step.drone] for step in steps)]
    entries = common_entries(
        env,
        states,
        actions,
        kind="tsp_drone",
        title=f"Truck and {len(drones)} drone{'s' * (len(drones) > 1)}: {len(plan.nodes) - 1} customers",
        action_names={TRUCK: _names(env.num_nodes, drones)},
        step_entries=[
            {
                "step": index,
                "clock": as_json(states.walk.clock[index]),
                "node": int(states.walk.stop[index]),
                "turn": turns[index],
                "customer": None,
                "served": int((states.served[index] & plan.instance.exists)[1:].sum()),
            }
            for index in range(len(steps) + 1)
        ],
    )
    unserved = [node for node in plan.nodes.tolist() if not states.served[-1, node]]
    why = f"no vehicle had come, or set out, when the episode stops after {len(steps)} tasks"
    return {
        **entries,
        **drawn(plan),
        "tours": 1,
        "makespan": as_json_float32(plan.end),
        "cost": None,
        "verdict": verdict(plan.report),
        "shortfalls": {
            "title": "Not served",
            "entries": [{"name": name_of(node), "why": why} for node in unserved],
        },
    }


def _names(num_nodes: int, drones: Sequence[str]) -> list[str]:
    places = map(name_of, range(num_nodes))
    at_nodes = [name for place in places for name in (f"drive: {place}", *(f"{each}: {place}" for each in drones))]
    return [*at_nodes, *(f"recover {each}" for each in drones), "serve"]
