"""One played episode or plan as pictures and replays need it: legs, waits, and which vehicle served which customer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from jaxvrp.envs.tsp_drone.problem.instance import Instance
from jaxvrp.envs.tsp_drone.problem.operations import (
    FIRST_SERVE,
    MEET,
    STAY_WITH_TRUCK,
    Operation,
    actions_to_operations,
)
from jaxvrp.envs.tsp_drone.problem.solution import Matrices, SolutionReport, solution_report
from jaxvrp.envs.tsp_drone.rules import State
from jaxvrp.episodes import until_end
from jaxvrp.io import plan_files

TRUCK, DRONE = "truck", "drone"


@dataclasses.dataclass(frozen=True)
class Leg:
    """A way from node `origin` to `node`, of the truck, or of the drone alone; `carries`: the drone is on board."""

    who: str
    origin: int
    node: int
    leave: float
    arrive: float
    carries: bool


@dataclasses.dataclass(frozen=True)
class Wait:
    """One of the two waits for the other: `who`, at `node`, between two times."""

    who: str
    node: int
    since: float
    until: float


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A plan and what `solution_report` says about it."""

    instance: Instance  # one problem as NumPy arrays
    report: SolutionReport
    legs: tuple[Leg, ...]  # of each of the two in the order of departure
    waits: tuple[Wait, ...]
    served_by: tuple[str | None, ...]  # by node, `"truck"`, `"drone"` or None
    served_at: np.ndarray  # `f64[n]`, nan for never

    @property
    def nodes(self) -> np.ndarray:
        """`i64[nodes]`, those that exist."""
        return np.flatnonzero(self.instance.exists)

    def place(self, who: str, time: float) -> np.ndarray:
        """`f64[2]`, where one of the two is at a time."""
        moves = [leg for leg in self.legs if leg.leave <= time and (leg.who == who or (who == DRONE and leg.carries))]
        if not moves:
            return self.instance.locs[0]
        leg = max(reversed(moves), key=lambda leg: leg.leave)
        share = min(1.0, (time - leg.leave) / max(leg.arrive - leg.leave, 1e-9))
        start, end = self.instance.locs[[leg.origin, leg.node]]
        return start + share * (end - start)

    def serves(self, leg: Leg) -> bool:
        """Whether the customer at the end of a leg is served then."""
        node = leg.node
        return node != 0 and self.served_by[node] == leg.who and bool(np.isclose(self.served_at[node], leg.arrive))

    def waited(self, who: str) -> float:
        """How long one of the two waited, in all."""
        return sum(wait.until - wait.since for wait in self.waits if wait.who == who)


def from_operations(instance: Instance, operations: Sequence[Operation], *, allow_revisits: bool = True) -> Plan:
    """Follow a plan through its legs; arguments as for `solution_report`.

    Raises:
        ValueError: `instance` is a batch.
    """
    report = solution_report(instance, operations, allow_revisits=allow_revisits)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf, leaf.dtype if leaf.dtype == bool else np.float64), instance)
    problem = Matrices(instance)
    legs: list[Leg] = []
    waits: list[Wait] = []
    for number, operation in enumerate(report.operations):
        legs += _legs(problem, operation, float(report.begin[number]))
        arrival = {TRUCK: report.truck_arrival[number], DRONE: report.drone_arrival[number]}
        late = float(max(arrival.values()))
        waits += [Wait(who, operation.end, float(time), late) for who, time in arrival.items() if time < late - 1e-9]
    served_by: list[str | None] = [None] * instance.num_nodes
    served_at = np.full(instance.num_nodes, np.nan)
    flown = {operation.fly for operation in report.operations}
    for leg in legs:
        is_service = leg.who == DRONE if leg.node in flown else leg.who == TRUCK
        if leg.node and served_by[leg.node] is None and is_service:
            served_by[leg.node], served_at[leg.node] = leg.who, leg.arrive
    return Plan(instance, report, tuple(legs), tuple(waits), tuple(served_by), served_at)


def _legs(problem: Matrices, operation: Operation, begin: float) -> Iterator[Leg]:
    start, end, fly, internal = operation
    leave = begin if fly is None else begin + problem.launch_time
    clock, here = leave, start
    for node in (*internal, end):
        if node != here:
            arrive = clock + float(problem.truck[here, node])
            yield Leg(TRUCK, here, node, clock, arrive, fly is None)
            clock, here = arrive, node
    if fly is not None:
        there = leave + float(problem.drone[start, fly])
        yield Leg(DRONE, start, fly, leave, there, False)
        yield Leg(DRONE, fly, end, there, there + float(problem.drone[fly, end]), False)


def name_of(node: int) -> str:
    """A node in words."""
    return "depot" if node == 0 else f"customer {node}"


def verdict(report: SolutionReport) -> str:
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
