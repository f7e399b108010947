"""The checker of plans, in NumPy and `float64`; it uses neither the rules of the environment nor its masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import LATENESS, Instance
from jaxvrp.envs.truck_and_drone.matrices import Matrices
from jaxvrp.envs.truck_and_drone.operations import Operation, with_nodes
from jaxvrp.envs.truck_and_drone.ways import DRONE, TRUCK, Leg, Service, Wait, Ways, is_wait
from jaxvrp.io.problems.violations import PlanReport, violations_of

CONSTRAINTS = (
    "unserved",  # a customer that neither truck nor drone serves; counts nodes
    "unknown_node",  # an index that is no node of the instance, or padding; it is left out of everything else
    # An operation that does not start where the one before ended, the first one at the depot; named by its start.
    "chain",
    "open_tour",  # the last operation does not end at the depot; named by its end
    "duplicates",  # a drone's customer that was served before, or the depot
    "meeting",  # a meeting at the customer that the drone serves
    # The truck drives to a node that is served already, other than to meet the drone there, or to the depot once all
    # are served; without `allow_revisits` also to meet the drone. A truck that waits where it is stands there once.
    "revisits",
    "no_fly",  # a customer that the drone may not serve
    "range",  # a sortie longer than `max_flight`; named by its customer
    "endurance",  # a sortie, with waiting and recovery, longer than `max_sortie`; named by its customer
)
"""What is checked, in the order of a report."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SolutionReport(PlanReport):
    """What `solution_report` found; `cost` is the makespan, when both are back."""

    operations: tuple[Operation, ...]  # those between known nodes, without those in which nothing happens
    begin: np.ndarray  # `f64[operations]`, the clock at the start of each
    end: np.ndarray  # `f64[operations]`, the clock when both go on
    truck_arrival: np.ndarray  # `f64[operations]`, when the truck has reached the end
    drone_arrival: np.ndarray  # `f64[operations]`, when the drone has; the same where it rides
    ways: Ways

    @property
    def counts(self) -> dict[str, int]:
        """See `PlanReport`."""
        return {"sorties": sum(operation.fly is not None for operation in self.operations)}


def solution_report(
    instance: Instance,
    operations: Sequence[Operation],
    *,
    allow_revisits: bool = True,
    strict: bool = False,
) -> SolutionReport:
    """Check a plan: truck and drone leave together, meet at the end of each operation; the first to arrive waits.

    Args:
        instance: one problem, NumPy or JAX. Padding need not be served, and may not be visited.
        operations: in their order.
        allow_revisits: whether truck and drone may meet at nodes that are served already.
        strict: raise instead of reporting violations.

    Raises:
        ValueError: `instance` is a batch, or a node is no whole number; with `strict`, the violated constraints.
    """
    if np.ndim(instance.exists) != 1:
        raise ValueError(f"exists has shape {np.shape(instance.exists)}; give one instance of the batch at a time")
    problem = Matrices(instance)
    longest, most = problem.max_flight * (1 + LATENESS), problem.max_sortie * (1 + LATENESS)
    found: dict[str, list[int]] = {name: [] for name in CONSTRAINTS}
    known = tuple(_known(with_nodes(operations), problem, found))
    _check_tour(known, problem, allow_revisits, found)
    sorties = [(each.start, each.fly, each.end) for each in known if each.fly is not None]
    found["no_fly"] = [fly for _, fly, _ in sorties if problem.no_fly[fly]]
    found["range"] = [
        fly for start, fly, end in sorties if problem.flight[start, fly] + problem.flight[fly, end] > longest
    ]
    times = np.array([problem.times(operation) for operation in known], np.float64).reshape(-1, 3)
    found["endurance"] = [
        each.fly
        for each, (_, _, whole) in zip(known, times.tolist(), strict=True)
        if each.fly is not None and whole - problem.launch_time[each.start] > most
    ]
    end = np.cumsum(times[:, 2])
    begin = end - times[:, 2]
    arrivals = begin[:, None] + times[:, :2]
    report = SolutionReport(
        cost=float(end[-1]) if len(end) else 0.0,
        operations=known,
        begin=begin,
        end=end,
        truck_arrival=arrivals[:, 0],
        drone_arrival=arrivals[:, 1],
        ways=_ways(problem, known, begin, arrivals),
        violations=violations_of(found),
    )
    return report.checked(strict)


def _ways(problem: Matrices, operations: Sequence[Operation], begin: np.ndarray, arrivals: np.ndarray) -> Ways:
    """Legs, waits and services; `begin` is `f64[operations]`, `arrivals` of truck and drone `f64[operations, 2]`."""
    legs: list[Leg] = []
    waits: list[Wait] = []
    served: dict[int, Service] = {}
    flown = {operation.fly for operation in operations}
    for operation, start, times in zip(operations, begin.tolist(), arrivals.tolist(), strict=True):
        for leg in _legs(problem, operation, start):
            by_drone = leg.node in flown
            serves = leg.node != 0 and leg.node not in served and leg.vehicle == (DRONE if by_drone else TRUCK)
            if serves:
                served[leg.node] = Service(0, leg.vehicle, leg.node, leg.arrive, leg.arrive, leg.arrive)
            legs.append(leg._replace(serves=serves))
        both = zip((TRUCK, DRONE), times, strict=True)
        waits += [Wait(vehicle, operation.end, time, max(times)) for vehicle, time in both if is_wait(time, max(times))]
    return Ways(tuple(legs), tuple(waits), tuple(served.values()))


def _legs(problem: Matrices, operation: Operation, begin: float) -> Iterator[Leg]:
    start, end, fly, internal = operation
    leave = begin if fly is None else begin + float(problem.launch_time[start])
    clock, here, aboard = leave, start, (DRONE,) if fly is None else ()
    for node in (*internal, end):
        if node != here:
            arrive = clock + float(problem.truck[here, node])
            yield Leg(TRUCK, here, node, clock, arrive, aboard)
            clock, here = arrive, node
    if fly is not None:
        there = leave + float(problem.drone[start, fly])
        yield Leg(DRONE, start, fly, leave, there)
        yield Leg(DRONE, fly, end, there, there + float(problem.drone[fly, end]))


def _known(operations: Sequence[Operation], problem: Matrices, found: dict[str, list[int]]) -> list[Operation]:
    """The operations without nodes that are unknown; those without a start or an end are left out."""
    known = []
    for start, end, fly, internal in operations:
        named = [start, *([] if fly is None else [fly]), *internal, end]
        found["unknown_node"] += [node for node in named if node not in problem.nodes]
        if start in problem.nodes and end in problem.nodes:
            kept = tuple(node for node in internal if node in problem.nodes)
            known.append(Operation(start, end, fly if fly in problem.nodes else None, kept))
    return [each for each in known if each.fly is not None or each.internal or each.start != each.end]


def _check_tour(
    operations: Sequence[Operation], problem: Matrices, allow_revisits: bool, found: dict[str, list[int]]
) -> None:
    """Whether operations follow on each other, and every customer is served once."""
    place, served = 0, {0}
    for start, end, fly, internal in operations:
        if start != place:
            found["chain"].append(start)
        place = end
        flown = [] if fly is None else [fly]
        found["duplicates"] += served.intersection(flown)
        served.update(flown)
        for node in internal:
            if node in served:
                found["revisits"].append(node)
            served.add(node)
        goes_home = end == 0 and served == problem.nodes
        if end == fly:
            found["meeting"].append(end)
        elif internal[-1:] == (end,) or (end in served and not goes_home and not (allow_revisits and fly is not None)):
            found["revisits"].append(end)
        served.add(end)
    if place != 0:
        found["open_tour"].append(place)
    found["unserved"] += sorted(problem.nodes - served)
