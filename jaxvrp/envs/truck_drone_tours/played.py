"""A plan of tandems, followed through its legs."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jaxvrp.envs.truck_and_drone.matrices import Matrices
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_and_drone.played import DRONE, TRUCK, Leg, Plan, Wait, aboard, is_wait
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report


def from_operations(instance: Instance, operations: Sequence[Operation], *, allow_revisits: bool = False) -> Plan:
    """Follow a plan through its legs; the operations are those of all tours, one after the other.

    Raises:
        ValueError: `instance` is a batch.
    """
    del allow_revisits
    tours = tours_of(operations)
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
    return Plan(instance, report, legs, waits, tuple(served_by), served_at, served_in, kept, end, is_priced=True)


class _Moves:
    """The legs and waits of one tour with time windows."""

    def __init__(self, instance: Instance, tour: int):
        self.instance, self.tour, self.clock, self.here = instance, tour, float(instance.opens[0]), 0
        self.matrices = Matrices(instance)
        self.legs: list[Leg] = []
        self.waits: list[Wait] = []

    def follow(self, operation: Operation) -> None:
        """Both go on from one place where they are together to the next."""
        fly, end, carries = operation.fly, operation.end, aboard(operation)
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
