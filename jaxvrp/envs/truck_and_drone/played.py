"""One played episode or plan as pictures and replays need it: legs, waits, and which vehicle served which customer."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import (
    FIRST_SERVE,
    MEET,
    STAY_WITH_TRUCK,
    Operation,
    actions_to_operations,
)
from jaxvrp.envs.truck_and_drone.state import State
from jaxvrp.episodes import until_end
from jaxvrp.io import plan_files

TRUCK, DRONE = "truck", "drone"


@dataclasses.dataclass(frozen=True)
class Leg:
    """A way from node `origin` to `node`, of the truck, or of a drone alone; `carries`: the drones on board."""

    who: str
    origin: int
    node: int
    leave: float
    arrive: float
    carries: tuple[str, ...]
    tour: int = 0


@dataclasses.dataclass(frozen=True)
class Wait:
    """`who`, a vehicle, waits at `node` between two times: for another, or for a window to open."""

    who: str
    node: int
    since: float
    until: float
    tour: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A plan and what `solution_report`, `tours_report` or `flights_report` says about it."""

    instance: Instance  # one problem as NumPy arrays
    report: Any
    legs: tuple[Leg, ...]  # of each vehicle, of each tour, in the order of departure
    waits: tuple[Wait, ...]
    served_by: tuple[str | None, ...]  # by node, one of `vehicles` or None
    served_at: np.ndarray  # `f64[n]`, when service begins; nan for never
    served_in: np.ndarray  # `i64[n]`, the tour; -1 for never
    tours: tuple[tuple[Operation, ...], ...]  # one without time windows
    end: float  # when all are back
    vehicles: tuple[str, ...] = (TRUCK, DRONE)  # the truck first
    is_priced: bool = False  # tours of tandems, at a price

    @property
    def nodes(self) -> np.ndarray:
        """`i64[nodes]`, those that exist."""
        return np.flatnonzero(self.instance.exists)

    @property
    def sorties(self) -> int:
        """How many customers the drones serve."""
        return sum(who is not None and who != TRUCK for who in self.served_by)

    def place(self, who: str, time: float, tour: int = 0) -> np.ndarray:
        """`f64[2]`, where a vehicle of a tour is at a time."""
        ours = [leg for leg in self.legs if leg.tour == tour and (leg.who == who or who in leg.carries)]
        moves = [leg for leg in ours if leg.leave <= time]
        if not moves:
            return self.instance.locs[0]
        leg = max(reversed(moves), key=lambda leg: leg.leave)
        share = min(1.0, (time - leg.leave) / (leg.arrive - leg.leave or 1.0))
        start, end = self.instance.locs[[leg.origin, leg.node]]
        return start + share * (end - start)

    def serves(self, leg: Leg) -> bool:
        """Whether the customer at the end of a leg is served then."""
        node = leg.node
        is_server = node != 0 and self.served_by[node] == leg.who
        # With time windows nothing is visited again, and service may begin after the arrival.
        return is_server and (self.is_priced or bool(np.isclose(self.served_at[node], leg.arrive)))

    def waited(self, who: str) -> float:
        """How long the truck, or all drones, waited, in all."""
        return sum(wait.until - wait.since for wait in self.waits if wait.who.startswith(who))


def is_wait(since: float, until: float) -> bool:
    """Whether the time between is more than rounding of the clock."""
    return bool(until - since > 1e-12 * abs(until))


def aboard(operation: Operation) -> tuple[str, ...]:
    """The drones that the truck carries meanwhile."""
    return (DRONE,) if operation.fly is None else ()


def name_of(node: int) -> str:
    """A node in words."""
    return "depot" if node == 0 else f"customer {node}"


def verdict(report: Any) -> str:
    """'feasible', or the first kinds of violations."""
    return plan_files.verdict(report.violations, lambda name, found: f"node {found.first_node}")


def instance_of(states: State) -> Instance:
    """The problem of one episode, whose states have a leading time axis."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)


def operations_of(states: State) -> list[Operation]:
    """The operations of one episode, up to its end; leaves of `states` are `[T+1, ...]`.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    states = until_end(states)
    return actions_to_operations(actions_of(states, len(states.step) - 1))


def actions_of(states: State, last: int) -> dict[str, np.ndarray]:
    """The actions that were executed in the first `last` steps of one episode, `{role: i64[last, 1]}`."""
    is_away, before = np.asarray(states.is_away)[1 : last + 1], np.asarray(states.is_away)[:last]
    customer, node = (np.asarray(leaf)[1 : last + 1] for leaf in (states.drone_customer, states.truck_node))
    launched, met = is_away & ~before, before & ~is_away
    drone = np.where(launched, FIRST_SERVE + customer, np.where(met, MEET, STAY_WITH_TRUCK))
    truck = np.where(np.asarray(states.is_drones_turn)[:last], 0, node)
    return {"drone": drone[:, None], "truck": truck[:, None]}
