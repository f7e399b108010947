"""Episodes of `flying_sidekicks` in the form of `jaxvrp.envs.tsp_drone.replay`, with several drones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.tsp_drone.sidekicks import rules
from jaxvrp.envs.tsp_drone.sidekicks.env import TRUCK, FlyingSidekicks
from jaxvrp.envs.tsp_drone.sidekicks.plan import steps_of, tasks_of
from jaxvrp.envs.tsp_drone.sidekicks.report import DRIVE, LAUNCH, RECOVER, SERVE, Event, FlightsReport, flights_report
from jaxvrp.envs.tsp_drone.sidekicks.rules import State
from jaxvrp.episodes import until_end
from jaxvrp.io import plan_files
from jaxvrp.replay.common import as_json, as_json_float32, common_entries

KINDS = {DRIVE: rules.DRIVE, SERVE: rules.SERVE, LAUNCH: rules.LAUNCH, RECOVER: rules.RECOVER}


def export_episode(env: FlyingSidekicks, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.replay.export_episode`; actions that are not given are read off the states."""
    states = until_end(states)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    steps = steps_of(states)
    if actions is None:
        kind, node, drone = np.array([(KINDS[step.kind], step.node, step.drone or 0) for step in steps], np.int32).T
        actions = {TRUCK: rules.action_of(kind, node, drone, env.num_nodes, env.num_drones)[:, None]}
    report = flights_report(instance, tasks_of(states))
    nodes = np.flatnonzero(instance.exists).tolist()
    drones = [f"drone {number + 1}" for number in range(env.num_drones)]
    entries = common_entries(
        env,
        states,
        actions,
        kind="tsp_drone",
        title=f"Truck and {len(drones)} drones: {len(nodes) - 1} customers",
        action_names={TRUCK: _names(env.num_nodes, drones)},
        step_entries=[
            {
                "step": index,
                "clock": as_json(states.walk.clock[index]),
                "node": int(states.walk.stop[index]),
                "turn": TRUCK if not index or steps[index - 1].drone is None else drones[steps[index - 1].drone],
                "customer": None,
                "served": int((states.served[index] & instance.exists)[1:].sum()),
            }
            for index in range(len(steps) + 1)
        ],
    )
    unserved = [node for node in nodes if not states.served[-1, node]]
    why = f"no vehicle had come, or set out, when the episode stops after {len(steps)} tasks"
    return {
        **entries,
        "vehicles": [TRUCK, *drones],
        **_drawn(instance, nodes, report, drones),
        "tours": 1,
        "makespan": as_json_float32(report.cost),
        "cost": None,
        "verdict": plan_files.verdict(report.violations, lambda name, found: f"node {found.first_node}"),
        "shortfalls": {
            "title": "Not served",
            "entries": [{"name": f"customer {node}", "why": why} for node in unserved],
        },
    }


def _names(num_nodes: int, drones: list[str]) -> list[str]:
    places = ["depot", *(f"customer {node}" for node in range(1, num_nodes))]
    at_nodes = [name for place in places for name in (f"drive: {place}", *(f"{each}: {place}" for each in drones))]
    return [*at_nodes, *(f"recover {each}" for each in drones), "serve"]


def _drawn(instance: Any, nodes: list[int], report: FlightsReport, drones: list[str]) -> dict[str, Any]:
    """What the map and the chart over time show."""
    served = {event.node: event for event in report.events if event.does == "serve"}
    return {
        "nodes": [
            {
                "position": as_json(np.asarray(instance.locs[node], np.float32)),
                "served_by": served[node].who if node in served else None,
                "served_at": as_json_float32(served[node].begin) if node in served else None,
                "no_fly": bool(instance.no_fly[:, node].all()),
                "tour": 0 if node in served else None,
            }
            for node in nodes
        ],
        "legs": _legs(report.events, drones),
        "waits": [
            {
                "who": event.who,
                "node": event.node,
                "since": as_json_float32(event.begin),
                "until": as_json_float32(event.end),
                "tour": 0,
            }
            for event in report.events
            if event.does in ("wait", "hover")
        ],
    }


def _legs(events: tuple[Event, ...], drones: list[str]) -> list[dict[str, Any]]:
    """Ways of all vehicles; the truck carries the drones that it has not launched."""
    place: dict[str, int] = {}
    away: set[str] = set()
    legs = []
    for event in events:
        if event.who == TRUCK and event.drone is not None:
            (away.add if event.does == LAUNCH else away.discard)(event.drone)
            if event.does == LAUNCH:
                place[event.drone] = event.node
        if event.does in (DRIVE, "fly"):
            legs.append(
                {
                    "who": event.who,
                    "from": place.get(event.who, 0),
                    "to": event.node,
                    "leave": as_json_float32(event.begin),
                    "arrive": as_json_float32(event.end),
                    "carries": [each for each in drones if each not in away] if event.who == TRUCK else [],
                    "tour": 0,
                }
            )
            place[event.who] = event.node
    return legs
