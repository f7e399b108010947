"""Plans as lists of operations: checked in NumPy and `float64`, without the environment and its mask; as actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.tsp_drone.problem.instance import Instance

STAY_WITH_TRUCK, MEET, FIRST_SERVE = 0, 1, 2
"""Actions of the drone: ride along, or fly on; meet the truck; from here on, fly to serve node 0, 1, ..."""


class Operation(NamedTuple):
    """What happens from one place where truck and drone are together to the next.

    Attributes:
        start, end: nodes; the same one where the truck waits for the drone, or comes back for it.
        fly: the customer that the drone serves; None if it rides along.
        internal: nodes that the truck visits between.
    """

    start: int
    end: int
    fly: int | None = None
    internal: tuple[int, ...] = ()


CONSTRAINTS = ("unserved", "unknown_node", "chain", "open_tour", "duplicates", "meeting", "revisits", "no_fly", "range")
"""What is checked, in the order of a report:

- unserved: a customer whom nobody serves; counts nodes.
- unknown_node: an index that is no node of the instance, or padding. It is left out of everything else.
- chain: an operation that does not start where the one before ended, the first one at the depot; named by its start.
- open_tour: the last operation does not end at the depot; named by its end.
- duplicates: a drone's customer who was served before, or the depot.
- meeting: a meeting at the very customer whom the drone serves.
- revisits: the truck drives to a node that is served already, other than to meet the drone there, or to the depot once
  all are served; without `allow_revisits` also to meet the drone.
- no_fly: a customer whom the drone may not serve.
- range: a sortie longer than `max_flight`; named by its customer.
"""


@dataclasses.dataclass(frozen=True)
class Violation:
    """How often a constraint is broken, and the first node at which, in the plan's order; None for never."""

    count: int = 0
    first_node: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class SolutionReport:
    """What `solution_report` found.

    Attributes:
        feasible: nothing is violated.
        cost: the makespan, when both are back.
        operations: those between known nodes, without those in which nothing happens.
        begin, end: `f64[operations]`, the clock at both ends of each.
        truck_arrival, drone_arrival: `f64[operations]`, when each has reached the end; equal where the drone rides.
        violations: one for each of `CONSTRAINTS`.
    """

    feasible: bool
    cost: float
    operations: tuple[Operation, ...]
    begin: np.ndarray
    end: np.ndarray
    truck_arrival: np.ndarray
    drone_arrival: np.ndarray
    violations: dict[str, Violation]

    def summary(self) -> str:
        """The violated constraints with count and first node, on one line; empty if there are none."""
        broken = ((name, found) for name, found in self.violations.items() if found.count)
        return ", ".join(f"{name} {found.count} (first node {found.first_node})" for name, found in broken)

    def __str__(self) -> str:
        sorties = sum(operation.fly is not None for operation in self.operations)
        rows = [("feasible", "yes" if self.feasible else "no", ""), ("cost", f"{self.cost:.4f}", "")]
        rows += [("sorties", str(sorties), "")]
        for name, found in self.violations.items():
            rows.append((name, str(found.count), f"first node {found.first_node}" if found.count else ""))
        return "\n".join(f"{name:<14}  {value:>12}  {where}".rstrip() for name, value, where in rows)


def operations_to_actions(operations: Sequence[Operation]) -> dict[str, np.ndarray]:
    """A plan as the agents play it, whose turn it is not choosing 0.

    Returns:
        `{"drone": i32[T, 1], "truck": i32[T, 1]}`.
    """
    turns: list[tuple[int, int]] = []
    for start, end, fly, internal in operations:
        driven = [*internal, end]
        if fly is None and not internal and start == end:
            continue
        first = STAY_WITH_TRUCK if fly is None else FIRST_SERVE + fly
        for node, drone in zip(driven, [first] + [STAY_WITH_TRUCK] * len(internal), strict=True):
            turns += [(drone, 0), (0, node)]
        if fly is not None:
            turns.append((MEET, 0))
    table = np.array(turns, np.int32).reshape(-1, 2)
    return {"drone": table[:, :1], "truck": table[:, 1:]}


def actions_to_operations(actions: Mapping[str, ArrayLike]) -> list[Operation]:
    """The plan that legal actions make, `{"drone": [T, 1], "truck": [T, 1]}`, up to the last meeting or ride."""
    drone, truck = (np.ravel(np.asarray(actions[role])) for role in ("drone", "truck"))
    operations: list[Operation] = []
    start, fly, driven, is_drones_turn = 0, None, [0], True
    for choice, node in zip(drone.tolist(), truck.tolist(), strict=True):
        if not is_drones_turn:
            driven.append(node)
        elif choice >= FIRST_SERVE:
            fly = choice - FIRST_SERVE
        meets = is_drones_turn and choice == MEET
        if meets or (fly is None and not is_drones_turn):
            operations.append(Operation(start, driven[-1], fly, tuple(driven[1:-1])))
            start, fly, driven = driven[-1], None, driven[-1:]
        is_drones_turn = meets or not is_drones_turn
    return operations


def solution_report(
    instance: Instance,
    operations: Sequence[Operation],
    *,
    allow_revisits: bool = True,
    strict: bool = False,
    tolerance: float = 1e-5,
) -> SolutionReport:
    """Check a plan: truck and drone leave together, meet at the end of each operation, whoever comes first waits.

    Args:
        instance: one problem, NumPy or JAX. Padding need not be served, and may not be visited.
        operations: in their order.
        allow_revisits: whether truck and drone may meet at nodes that are served already.
        strict: raise instead of reporting violations.
        tolerance: share by which flights may exceed `max_flight`, for instances that were stored in `float32`.

    Raises:
        ValueError: `instance` is a batch; with `strict`, the violated constraints.
    """
    if np.ndim(instance.exists) != 1:
        raise ValueError(f"exists has shape {np.shape(instance.exists)}; give one instance of the batch at a time")
    problem = _Problem(instance)
    found: dict[str, list[int]] = {name: [] for name in CONSTRAINTS}
    known = tuple(_known(operations, problem, found))
    _check_chain(known, found)
    _check_coverage(known, problem, allow_revisits, found)
    for operation in known:
        _check_sortie(operation, problem, tolerance, found)
    times = np.array([problem.times(operation) for operation in known], np.float64).reshape(-1, 3)
    end = np.cumsum(times[:, 2])
    begin = end - times[:, 2]
    report = SolutionReport(
        feasible=not any(found.values()),
        cost=float(end[-1]) if len(end) else 0.0,
        operations=known,
        begin=begin,
        end=end,
        truck_arrival=begin + times[:, 0],
        drone_arrival=begin + times[:, 1],
        violations={name: Violation(len(nodes), nodes[0] if nodes else None) for name, nodes in found.items()},
    )
    if strict and not report.feasible:
        raise ValueError(f"the plan is not feasible: {report.summary()}")
    return report


class _Problem:
    """An instance in `float64`, with its times as matrices."""

    def __init__(self, instance: Instance):
        locs = np.asarray(instance.locs, np.float64)
        between = np.linalg.norm(locs[:, None] - locs, axis=2)
        self.nodes = set(np.flatnonzero(np.asarray(instance.exists)).tolist())
        self.no_fly = np.asarray(instance.no_fly)
        self.max_flight = float(instance.max_flight)
        self.launch_time, self.recovery_time = float(instance.launch_time), float(instance.recovery_time)
        if instance.truck_time is None:
            self.truck, self.drone = float(instance.truck_pace) * between, float(instance.drone_pace) * between
            self.flight = between
        else:
            self.truck = np.asarray(instance.truck_time, np.float64)
            self.drone = self.flight = np.asarray(instance.drone_time, np.float64)

    def times(self, operation: Operation) -> tuple[float, float, float]:
        """Time of an operation until the truck, and the drone, are at its end; and of the whole."""
        start, end, fly, internal = operation
        way = [start, *internal, end]
        truck = float(self.truck[way[:-1], way[1:]].sum())
        if fly is None:
            return truck, truck, truck
        truck += self.launch_time
        drone = self.launch_time + float(self.drone[start, fly] + self.drone[fly, end])
        return truck, drone, max(truck, drone) + self.recovery_time


def _known(operations: Sequence[Operation], problem: _Problem, found: dict[str, list[int]]) -> list[Operation]:
    """The operations without nodes that are unknown; those without a start or an end are left out."""
    known = []
    for start, end, fly, internal in operations:
        named = [start, *([] if fly is None else [fly]), *internal, end]
        found["unknown_node"] += [node for node in named if node not in problem.nodes]
        if start in problem.nodes and end in problem.nodes:
            kept = tuple(node for node in internal if node in problem.nodes)
            known.append(Operation(start, end, fly if fly in problem.nodes else None, kept))
    return [each for each in known if each.fly is not None or each.internal or each.start != each.end]


def _check_chain(operations: Sequence[Operation], found: dict[str, list[int]]) -> None:
    place = 0
    for operation in operations:
        if operation.start != place:
            found["chain"].append(operation.start)
        place = operation.end
    if place != 0:
        found["open_tour"].append(place)


def _check_coverage(
    operations: Sequence[Operation], problem: _Problem, allow_revisits: bool, found: dict[str, list[int]]
) -> None:
    served = {0}
    for _, end, fly, internal in operations:
        if fly is not None:
            if fly in served:
                found["duplicates"].append(fly)
            served.add(fly)
        for node in internal:
            if node in served:
                found["revisits"].append(node)
            served.add(node)
        goes_home = end == 0 and served == problem.nodes
        if end == fly:
            found["meeting"].append(end)
        elif end in served and not goes_home and not (allow_revisits and fly is not None):
            found["revisits"].append(end)
        served.add(end)
    found["unserved"] += sorted(problem.nodes - served)


def _check_sortie(operation: Operation, problem: _Problem, tolerance: float, found: dict[str, list[int]]) -> None:
    start, end, fly, _ = operation
    if fly is None:
        return
    if problem.no_fly[fly]:
        found["no_fly"].append(fly)
    if problem.flight[start, fly] + problem.flight[fly, end] > problem.max_flight * (1 + tolerance):
        found["range"].append(fly)
