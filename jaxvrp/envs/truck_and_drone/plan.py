"""What the plans and files of `tsp_drone` and `truck_drone_tours` share: problems of either kind, routes and ways."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from jaxvrp.envs.truck_and_drone.env import TruckAndDrone
from jaxvrp.envs.truck_and_drone.instance import Instance, from_origin, origins_of
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_and_drone.played import Leg, Plan
from jaxvrp.io import plan_files
from jaxvrp.io.origin import told, told_entries

FORMAT = "jaxvrp-tsp-drone-plan-1"

COLUMNS = ("who", "leave", "arrive", "from", "to", "serves", "with_drone")
"""Of a way, and of the table."""


def parameters_of(instance: Instance, env: TruckAndDrone) -> dict[str, Any]:
    """The size of an environment that plays a problem."""
    del env
    return {"num_nodes": instance.num_nodes}


def instance_of(instance: Instance, env: TruckAndDrone) -> Instance:
    """A problem as the environment plays it, from its origin."""
    del env
    return from_origin(instance)


def label_episode(instance: Instance, episode: dict[str, Any]) -> dict[str, Any]:
    """The episode with the times and places of the problem's file."""
    clock, place = (origin.tolist() for origin in origins_of(instance).values())
    origins = {**dict.fromkeys(("served_at", "leave", "arrive", "since", "until", "clock"), clock), "position": place}
    moved = {name: told_entries(episode[name], origins) for name in ("nodes", "legs", "waits", "steps")}
    return {**episode, **moved, "makespan": told(episode["makespan"], clock)}


def common_entries(plan: Plan) -> dict[str, Any]:
    """What every plan says first."""
    return {
        "format": FORMAT,
        "feasible": plan.report.feasible,
        "violations": plan_files.broken(plan.report.violations),
    }


def routes(operations: Sequence[Operation], number: str = "") -> dict[str, list[int]]:
    """Stops of the truck, and customers of the drone."""
    stops = [node for each in operations for node in (*each.internal, each.end)]
    # A meeting where the truck stayed is no stop.
    driven = [node for before, node in itertools.pairwise((0, *stops)) if node != before]
    flown = [each.fly for each in operations if each.fly is not None]
    return {f"truck{number}": [0, *driven], f"drone{number}": flown}


def as_json(operation: Operation) -> dict[str, Any]:
    """An operation as in a plan."""
    start, end, fly, internal = operation
    return {"start": start, "fly": fly, "internal": list(internal), "end": end}


def way(plan: Plan, leg: Leg) -> dict[str, Any]:
    """A way as in a plan, see `COLUMNS`."""
    return {
        "who": leg.who,
        "leave": leg.leave,
        "arrive": leg.arrive,
        "from": leg.origin,
        "to": leg.node,
        "serves": plan.serves(leg),
        "with_drone": bool(leg.carries),
    }
