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
from jaxvrp.envs.tsp_drone.problem.tours_report import ToursReport, tours_report
from jaxvrp.envs.tsp_drone.sidekicks.report import FlightsReport
from jaxvrp.envs.tsp_drone.state import State
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
    report: SolutionReport | ToursReport | FlightsReport
    legs: tuple[Leg, ...]  # of each vehicle, of each tour, in the order of departure
    waits: tuple[Wait, ...]
    served_by: tuple[str | None, ...]  # by node, one of `vehicles` or None
    served_at: np.ndarray  # `f64[n]`, when service begins; nan for never
    served_in: np.ndarray  # `i64[n]`, the tour; -1 for never
    tours: tuple[tuple[Operation, ...], ...]  # one without time windows
    end: float  # when all are back
    vehicles: tuple[str, ...] = (TRUCK, DRONE)  # the truck first

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
        return is_server and (self.instance.has_windows or bool(np.isclose(self.served_at[node], leg.arrive)))

    def waited(self, who: str) -> float:
        """How long the truck, or all drones, waited, in all."""
        return sum(wait.until - wait.since for wait in self.waits if wait.who.startswith(who))


def is_wait(since: float, until: float) -> bool:
    """Whether the time between is more than rounding of the clock."""
    return bool(until - since > 1e-12 * abs(until))


def from_operations(instance: Instance, operations: Sequence[Operation], *, allow_revisits: bool = True) -> Plan:
    """Follow a plan through its legs; arguments as for `solution_report`.

    With time windows `operations` are those of all tours, one after the other.

    Raises:
        ValueError: `instance` is a batch.
    """
    if instance.has_windows:
        return _from_tours(instance, tours_of(operations))
    report = solution_report(instance, operations, allow_revisits=allow_revisits)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf, leaf.dtype if leaf.dtype == bool else np.float64), instance)
    problem = Matrices(instance)
    legs: list[Leg] = []
    waits: list[Wait] = []
    for number, operation in enumerate(report.operations):
        legs += _legs(problem, operation, float(report.begin[number]))
        arrival = {TRUCK: report.truck_arrival[number], DRONE: report.drone_arrival[number]}
        late = float(max(arrival.values()))
        waits += [Wait(who, operation.end, float(time), late) for who, time in arrival.items() if is_wait(time, late)]
    served_by: list[str | None] = [None] * instance.num_nodes
    served_at = np.full(instance.num_nodes, np.nan)
    flown = {operation.fly for operation in report.operations}
    for leg in legs:
        is_service = leg.who == DRONE if leg.node in flown else leg.who == TRUCK
        if leg.node and served_by[leg.node] is None and is_service:
            served_by[leg.node], served_at[leg.node] = leg.who, leg.arrive
    served_in = np.where(np.isnan(served_at), -1, 0)
    tours = (report.operations,)
    return Plan(instance, report, tuple(legs), tuple(waits), tuple(served_by), served_at, served_in, tours, report.cost)


def _from_tours(instance: Instance, tours: Sequence[Sequence[Operation]]) -> Plan:
    report = tours_report(instance, tours)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf, leaf.dtype if leaf.dtype == bool else np.float64), instance)
    moves = [_Moves(instance, number) for number in range(len(tours))]
    for each, tour in zip(moves, tours, strict=True):
        for operation in tour:
            each.follow(operation)
    served_by: list[str | None] = [None] * instance.num_nodes
    served_at, served_in = np.full(instance.num_nodes, np.nan), np.full(instance.num_nodes, -1)
    for service in report.services:
        served_by[service.node] = service.by
        served_at[service.node], served_in[service.node] = service.begin, service.tour
    legs = tuple(leg for each in moves for leg in each.legs)
    waits = tuple(wait for each in moves for wait in each.waits)
    kept = tuple(tuple(tour) for tour in tours)
    end = max(report.end.tolist(), default=0.0)
    return Plan(instance, report, legs, waits, tuple(served_by), served_at, served_in, kept, end)


class _Moves:
    """The legs and waits of one tour with time windows."""

    def __init__(self, instance: Instance, tour: int):
        self.instance, self.tour, self.clock, self.here = instance, tour, float(instance.opens[0]), 0
        self.matrices = Matrices(instance)
        self.legs: list[Leg] = []
        self.waits: list[Wait] = []

    def follow(self, operation: Operation) -> None:
        """Both go on from one place where they are together to the next."""
        fly, end, carries = operation.fly, operation.end, _aboard(operation)
        back = self.clock if fly is None else self._fly(operation.start, fly, end)
        for node in operation.internal:
            self._drive(node, carries)
            self._serve()
        self._drive(end, carries)
        if fly is not None:
            self._wait(DRONE, end, back, self.clock)
            self.clock = self._wait(TRUCK, end, self.clock, back) + float(self.instance.recovery_time)
        self._serve()

    def _fly(self, start: int, fly: int, end: int) -> float:
        """The drone leaves, and so does the truck; when the drone is at the end of its sortie."""
        instance, way, back = self.instance, self.matrices.drone[start, fly], self.matrices.drone[fly, end]
        ready = self.clock + float(instance.launch_time)
        self.clock = self._wait(TRUCK, start, ready, instance.opens[fly] - way)
        there = self.clock + way
        leave = there + instance.service[fly]
        self.legs.append(Leg(DRONE, start, fly, self.clock, float(there), (), self.tour))
        self.legs.append(Leg(DRONE, fly, end, float(leave), float(leave + back), (), self.tour))
        return float(leave + back)

    def _drive(self, node: int, carries: tuple[str, ...]) -> None:
        arrive = self.clock + float(self.matrices.truck[self.here, node])
        self.legs.append(Leg(TRUCK, self.here, node, self.clock, arrive, carries, self.tour))
        self.clock, self.here = arrive, node

    def _serve(self) -> None:
        begin = self._wait(TRUCK, self.here, self.clock, self.instance.opens[self.here])
        self.clock = begin + float(self.instance.service[self.here])

    def _wait(self, who: str, node: int, since: float, until: float) -> float:
        """When the wait is over."""
        if is_wait(since, until):
            self.waits.append(Wait(who, node, float(since), float(until), self.tour))
        return float(max(since, until))


def tours_of(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Operations cut where they come back to the depot."""
    tours: list[list[Operation]] = [[]]
    for operation in operations:
        tours[-1].append(operation)
        if operation.end == 0:
            tours.append([])
    return tours if tours[-1] else tours[:-1]


def _legs(problem: Matrices, operation: Operation, begin: float) -> Iterator[Leg]:
    start, end, fly, internal = operation
    leave = begin if fly is None else begin + problem.launch_time
    clock, here = leave, start
    for node in (*internal, end):
        if node != here:
            arrive = clock + float(problem.truck[here, node])
            yield Leg(TRUCK, here, node, clock, arrive, _aboard(operation))
            clock, here = arrive, node
    if fly is not None:
        there = leave + float(problem.drone[start, fly])
        yield Leg(DRONE, start, fly, leave, there, ())
        yield Leg(DRONE, fly, end, there, there + float(problem.drone[fly, end]), ())


def _aboard(operation: Operation) -> tuple[str, ...]:
    return (DRONE,) if operation.fly is None else ()


def name_of(node: int) -> str:
    """A node in words."""
    return "depot" if node == 0 else f"customer {node}"


def verdict(report: SolutionReport | ToursReport | FlightsReport) -> str:
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
