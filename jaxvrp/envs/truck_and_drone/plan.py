"""What the plans and files of `tsp_drone` and `truck_drone_tours` share: problems of either kind, routes and ways."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from jaxvrp.envs.truck_and_drone.env import TruckAndDrone
from jaxvrp.envs.truck_and_drone.instance import Instance, from_origin
from jaxvrp.envs.truck_and_drone.operations import (
    FIRST_SERVE,
    MEET,
    STAY_WITH_TRUCK,
    Operation,
    actions_to_operations,
)
from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.envs.truck_and_drone.ways import Leg
from jaxvrp.episodes import Episode, until_end
from jaxvrp.io.problems.violations import PlanReport
from jaxvrp.plausible import nearest
from jaxvrp.problems import Problems

AnyInstance = TypeVar("AnyInstance", bound=Instance)

COLUMNS = ("who", "leave", "arrive", "from", "to", "serves", "with_drone")
"""Keys of a way, and columns of the table."""

LOOKED_AT = 200
"""Customers, the first of them, whose least flights are worked out."""


class TruckAndDroneProblems(Problems[AnyInstance]):
    """What problems of either kind share."""

    table, vehicle = "ways", "who"
    columns: tuple[str, ...] = COLUMNS

    def parameters(self, problem: AnyInstance, env: TruckAndDrone) -> dict[str, Any]:
        """The size of an environment that plays a problem."""
        return {"num_nodes": problem.num_nodes}

    def instance(self, problem: AnyInstance, env: TruckAndDrone) -> Instance:
        """A problem as the environment plays it, from its origin."""
        return from_origin(problem)


def problem_of(states: Any) -> Any:
    """The problem of one episode, whose states have a leading time axis."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)


def operations_of(states: State) -> list[Operation]:
    """The operations of one episode, up to its end; leaves of `states` are `[T+1, ...]`.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    states = until_end(states)
    return actions_to_operations(_actions_of(states, len(states.step) - 1))


def _actions_of(states: State, last: int) -> dict[str, np.ndarray]:
    """The actions that were executed in the first `last` steps of one episode, `{role: i64[last, 1]}`."""
    is_away, before = np.asarray(states.is_away)[1 : last + 1], np.asarray(states.is_away)[:last]
    customer, node = (np.asarray(leaf)[1 : last + 1] for leaf in (states.drone_customer, states.truck_node))
    launched, met = is_away & ~before, before & ~is_away
    drone = np.where(launched, FIRST_SERVE + customer, np.where(met, MEET, STAY_WITH_TRUCK))
    truck = np.where(np.asarray(states.is_drones_turn)[:last], 0, node)
    return {"drone": drone[:, None], "truck": truck[:, None]}


def common_entries(file_format: str, report: PlanReport) -> dict[str, Any]:
    """What every plan says first, by the report of its checker."""
    return {"format": file_format, **report.cost_entry, "feasible": report.feasible, "violations": report.broken}


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


def way(leg: Leg) -> dict[str, Any]:
    """A way as in a plan, see `COLUMNS`."""
    return {
        "who": leg.vehicle,
        "leave": leg.leave,
        "arrive": leg.arrive,
        "from": leg.origin,
        "to": leg.node,
        "serves": leg.serves,
        "with_drone": bool(leg.carries),
    }


def with_actions(episode: Episode) -> Episode:
    """A whole episode with its actions, those that were executed if they are not known."""
    if episode.actions is not None:
        return episode
    return episode.replace(actions=_actions_of(episode.states, len(episode.states.step) - 1))


def flown_customers(instance: Instance) -> np.ndarray:
    """`i64[C]`, those that the drone may serve, at most `LOOKED_AT`."""
    return (np.flatnonzero(instance.exists & ~instance.no_fly)[1:])[:LOOKED_AT]


def least_legs(instance: Instance, customers: np.ndarray) -> np.ndarray:
    """`f64[C]`, from each customer to the nearest other place, as it counts against the limit of flights."""
    if instance.drone_time is not None:
        there = np.where(np.eye(instance.num_nodes, dtype=bool), np.inf, instance.drone_time)[customers]
        return there.min(axis=1)
    places = np.asarray(instance.locs, np.float64)
    return np.array([nearest(places[[each]], np.delete(places, each, axis=0))[0] for each in customers])
