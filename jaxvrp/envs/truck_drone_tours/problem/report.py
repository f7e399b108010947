"""Check of a plan with time windows in plain NumPy and `float64`, and its money. Independent of rules and masks.

A plan is a list of tours, one for each tandem that leaves the depot, and a tour is a list of operations. Everything
happens as early as possible. At a stop, the truck first takes the drone in, if a sortie ends there, waiting for it if
need be (`recovery_time`). Then it waits for the window to open, serves, launches the drone again (`launch_time`), and
drives on. A launch is held back, and the truck with it, until the drone need not wait at its customer. These rules give
all published optima of five customers (Kuo et al. 2022).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import LATENESS
from jaxvrp.envs.truck_and_drone.operations import Operation, with_nodes
from jaxvrp.envs.truck_and_drone.ways import DRONE, TRUCK, Leg, Service, Wait, Ways, is_wait
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.io.problems.violations import PlanReport, violations_of

Tours = Sequence[Sequence[Operation]]

TOUR_CONSTRAINTS = (
    "unserved",  # a customer that neither truck nor drone serves
    # An index that is no node of the instance, or padding; its operation is left out of everything else.
    "unknown_node",
    # An operation that does not start where the one before ended, the first one at the depot; named by its start.
    "chain",
    "open_tour",  # a tour that does not end at the depot; named by its end
    "duplicates",  # a customer that is served again, or the depot as a customer or between two operations
    "idle_truck",  # a tour whose truck serves no customer; named by the first that the drone serves
    "same_stop",  # a sortie that ends where it began, other than at the depot with truck customers between
    "no_fly",  # a customer that the drone may not serve
    "endurance",  # a sortie whose flight and service take longer than `endurance`; named by its customer
    # A tour whose customers, those of the drone included, exceed `truck_capacity`; named by its last customer.
    "capacity",
    "windows",  # a customer whose service would begin after `closes`
    "horizon",  # a tour that ends after `closes` of the depot; named by its last customer
)
"""What is checked, in the order of a report."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ToursReport(PlanReport):
    """What `tours_report` found; `cost` is money."""

    truck_distance: float
    drone_distance: float  # of sorties; on board it is free
    ways: Ways  # services by tour, in the order of operations; in one, the drone's first
    end: np.ndarray  # `f64[tours]`, when truck and drone are back


def tours_report(instance: Instance, tours: Tours, *, strict: bool = False) -> ToursReport:
    """Check a plan for a problem with time windows, see the module.

    Raises:
        ValueError: the instance is a batch or has no time windows, or a node is no whole number; with `strict`, the
            violated constraints.
    """
    if np.ndim(instance.exists) != 1 or not isinstance(instance, Instance):
        raise ValueError("tours are plans for one instance with time windows; give such an instance")
    check = _Check(instance)
    for number, tour in enumerate(tours):
        check.tour(number, with_nodes(tour, f"tours[{number}]"))
    found = check.found
    found["unserved"] = sorted(check.nodes - check.served - {0})
    report = ToursReport(
        cost=float(instance.truck_price) * check.driven + float(instance.drone_price) * check.flown,
        truck_distance=check.driven,
        drone_distance=check.flown,
        ways=Ways(tuple(check.legs), tuple(check.waits), tuple(check.services)),
        end=np.array(check.ends, np.float64),
        violations=violations_of(found),
    )
    return report.checked(strict)


class _Check:
    """One plan on the way: what was found so far, tour by tour."""

    def __init__(self, instance: Instance):
        locs = np.asarray(instance.locs, np.float64)
        self.distance = np.linalg.norm(locs[:, None] - locs, axis=2)
        self.instance = instance
        self.nodes = set(np.flatnonzero(np.asarray(instance.exists)).tolist())
        self.opens, self.closes, self.service, self.demand = (
            np.asarray(getattr(instance, name), np.float64) for name in ("opens", "closes", "service", "demand")
        )
        self.truck_pace, self.drone_pace = float(instance.truck_pace), float(instance.drone_pace)
        self.launch, self.recovery = float(instance.launch_time), float(instance.recovery_time)
        self.found: dict[str, list[int]] = {name: [] for name in TOUR_CONSTRAINTS}
        self.served: set[int] = set()
        self.legs: list[Leg] = []
        self.waits: list[Wait] = []
        self.services: list[Service] = []
        self.ends: list[float] = []
        self.driven = self.flown = 0.0

    def tour(self, number: int, operations: Sequence[Operation]) -> None:
        """One tour, from the depot on."""
        here, clock, first = 0, float(self.opens[0]), len(self.services)
        known = [each for each in operations if self._is_known(each)]
        for index, operation in enumerate(known):
            if operation.start != here:
                self.found["chain"].append(operation.start)
            if operation.end == 0 and index < len(known) - 1:
                self.found["duplicates"].append(0)
            clock, here = self._operation(number, operation, clock), operation.end
        if here != 0:
            self.found["open_tour"].append(here)
        self.ends.append(clock)
        services = self.services[first:]
        if services and not any(each.by == TRUCK for each in services):
            self.found["idle_truck"].append(services[0].node)
        customers = [each.node for each in services]
        if self.demand[customers].sum() > float(self.instance.truck_capacity) * (1 + LATENESS):
            self.found["capacity"].append(customers[-1])
        if self._is_late(clock, 0):
            self.found["horizon"].append(customers[-1] if customers else 0)

    def _is_late(self, begin: float, node: int) -> bool:
        return bool(begin - self.opens[0] > (self.closes[node] - self.opens[0]) * (1 + LATENESS))

    def _is_known(self, operation: Operation) -> bool:
        start, end, fly, internal = operation
        named = [start, *([] if fly is None else [fly]), *internal, end]
        unknown = [node for node in named if node not in self.nodes]
        self.found["unknown_node"] += unknown
        return not unknown

    def _operation(self, number: int, operation: Operation, clock: float) -> float:
        """When the truck has served at its end."""
        start, end, fly, internal = operation
        back, here, aboard = None, start, (DRONE,) if fly is None else ()
        if fly is not None:
            ready = self.opens[fly] - self.drone_pace * self.distance[start, fly]
            clock = self._wait(number, TRUCK, start, clock + self.launch, ready)
            back = self._sortie(number, operation, clock)
        for node in internal:
            clock = self._serve(number, node, self._driven(number, (here, node), clock, aboard))
            here = node
        clock = self._driven(number, (here, end), clock, aboard)
        if back is not None:
            self._wait(number, DRONE, end, back, clock)
            clock = self._wait(number, TRUCK, end, clock, back) + self.recovery
        return clock if end == 0 else self._serve(number, end, clock)

    def _wait(self, number: int, vehicle: str, node: int, since: float, until: float) -> float:
        """When the wait is over."""
        if is_wait(since, until):
            self.waits.append(Wait(vehicle, node, float(since), float(until), number))
        return float(max(since, until))

    def _driven(self, number: int, way: tuple[int, int], clock: float, aboard: tuple[str, ...]) -> float:
        """When the truck arrives."""
        self.driven += self.distance[way]
        arrive = float(clock + self.truck_pace * self.distance[way])
        self.legs.append(Leg(TRUCK, *way, clock, arrive, aboard, serves=way[1] != 0, tour=number))
        return arrive

    def _sortie(self, number: int, operation: Operation, clock: float) -> float:
        """When the drone is at the end of a sortie that it begins at `clock`."""
        start, end, fly, internal = operation
        assert fly is not None
        if start == end and not (start == 0 and internal):
            self.found["same_stop"].append(start)
        if self.instance.no_fly[fly]:
            self.found["no_fly"].append(fly)
        legs = self.distance[start, fly], self.distance[fly, end]
        self.flown += sum(legs)
        if self.drone_pace * sum(legs) + self.service[fly] > float(self.instance.endurance) * (1 + LATENESS):
            self.found["endurance"].append(fly)
        arrive = float(clock + self.drone_pace * legs[0])
        leave = float(arrive + self.service[fly])
        back = float(leave + self.drone_pace * legs[1])
        self._note_service(number, DRONE, fly, arrive)
        self.legs.append(Leg(DRONE, start, fly, clock, arrive, serves=True, tour=number))
        self.legs.append(Leg(DRONE, fly, end, leave, back, tour=number))
        return back

    def _serve(self, number: int, node: int, arrive: float) -> float:
        """When the truck has served a customer."""
        self._wait(number, TRUCK, node, arrive, self.opens[node])
        return self._note_service(number, TRUCK, node, arrive)

    def _note_service(self, number: int, by: str, node: int, arrive: float) -> float:
        """When service of a customer is over."""
        begin = max(arrive, self.opens[node])
        if node in self.served or node == 0:
            self.found["duplicates"].append(node)
        self.served.add(node)
        if self._is_late(begin, node):
            self.found["windows"].append(node)
        leave = begin + self.service[node]
        self.services.append(Service(number, by, node, float(arrive), float(begin), float(leave)))
        return float(leave)
