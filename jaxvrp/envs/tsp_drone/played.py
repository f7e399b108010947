"""A plan of a truck and its drone, followed through its legs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.matrices import Matrices
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_and_drone.played import DRONE, TRUCK, Leg, Plan, Wait, aboard, is_wait
from jaxvrp.envs.tsp_drone.problem.solution import solution_report


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


def _legs(problem: Matrices, operation: Operation, begin: float) -> Iterator[Leg]:
    start, end, fly, internal = operation
    leave = begin if fly is None else begin + problem.launch_time
    clock, here = leave, start
    for node in (*internal, end):
        if node != here:
            arrive = clock + float(problem.truck[here, node])
            yield Leg(TRUCK, here, node, clock, arrive, aboard(operation))
            clock, here = arrive, node
    if fly is not None:
        there = leave + float(problem.drone[start, fly])
        yield Leg(DRONE, start, fly, leave, there, ())
        yield Leg(DRONE, fly, end, there, there + float(problem.drone[fly, end]), ())
