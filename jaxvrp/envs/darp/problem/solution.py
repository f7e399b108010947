"""Checks a whole dial-a-ride plan, in NumPy and `float64`, without the environment and without its mask."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.problem.figures import SLACK, all_served
from jaxvrp.envs.darp.problem.instance import SCHEMA, Instance, name_of, street_lengths
from jaxvrp.io.arrays import schema_of
from jaxvrp.io.problems.violations import PlanReport, node_of, violations_of

CONSTRAINTS = (
    "unserved",  # a real node that no tour visits; counts nodes
    "unknown_node",  # an index that is no node of the instance, or padding; it is left out of everything else
    "duplicates",  # a visit after the first: it is driven and takes its time, but no passenger gets in or out
    # A request whose pickup and drop-off are not in the same tour, if either is visited; counts requests, named by the
    # node that comes first in the plan.
    "pairing",
    "precedence",  # a drop-off before its pickup, in the same tour
    "capacity",  # a pickup after which the vehicle holds more than its capacity
    "load_at_depot",  # a tour that returns with passengers, named by the first of them that was picked up
    "windows",  # service that starts, or a return that comes (node 0), after the deadline
    "ride_time",  # a drop-off whose passenger rode longer than `max_ride_time`
    "route_duration",  # a tour longer than `max_route_duration`, named by its first node
    "open_tour",  # the last tour does not return although something is unserved, named by its last node
    "vehicles",  # a tour of a vehicle that does not exist or is padding, named by its first node
)
"""What is checked, in the order of a report."""

TOLERANCE = 2e-7
"""Share of the time that the depot is open, or that serving everybody takes at most, by which limits may be exceeded:
published coordinates are rounded."""


@dataclasses.dataclass(frozen=True)
class Leg:
    """A drive from one node to the next; 0 is the depot."""

    vehicle: int  # by number
    origin: int
    node: int
    leave: float  # when the vehicle left `origin`
    arrival: float  # when it was at `node`
    begin: float  # when service began there; at the depot the arrival
    load_before: int  # passengers on the way
    load: int  # passengers after the service; 0 at the depot
    wrong: bool  # whether the vehicle comes home with passengers, or after the depot's deadline


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SolutionReport(PlanReport):
    """What `solution_report` found; `cost` is the total distance, with all legs home.

    Request r has its pickup at node 2r - 1 and its drop-off at 2r.
    """

    routes: tuple[tuple[int, ...], ...]  # known nodes in the order of driving, without the depot; one per vehicle
    service_start: np.ndarray  # `f64[N+1]`, of the first visit; nan for the depot and for unvisited nodes
    legs: tuple[Leg, ...]  # all drives, vehicle after vehicle, with the legs home
    served_by: np.ndarray  # `i64[N+1]`, the vehicle that visited a node first; -1 for none, and for the depot
    late: np.ndarray  # `f64[N+1]`, time after the deadline; 0 within the tolerance, and where `service_start` is nan
    delivered: np.ndarray  # `bool[N/2+1]`, by request: brought by the vehicle that had picked it up
    ride: np.ndarray  # `f64[N/2+1]`, ride times by request; nan unless delivered
    too_long: np.ndarray  # `bool[N/2+1]`, whether these exceed the limit

    @property
    def counts(self) -> dict[str, int]:
        """See `PlanReport`."""
        return {"tours": sum(map(bool, self.routes))}

    def first_place(self, name: str, node: int) -> str:
        """See `PlanReport`."""
        return f"node {node}" if name == "unknown_node" else name_of(node)


def actions_to_routes(actions: ArrayLike) -> list[list[int]]:
    """Split a plan, whole numbers `[T]`, at its returns to the depot (0): one list of nodes per vehicle.

    It is empty for a vehicle left unused; those at the end have none. Anything but a sequence of whole numbers is a
    ValueError.
    """
    nodes = np.asarray(actions)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise ValueError(f"actions are {nodes.dtype} of shape {nodes.shape}; give one sequence of whole node indices")
    routes: list[list[int]] = [[]]
    for node in nodes.tolist():
        if node == 0:
            routes.append([])
        else:
            routes[-1].append(node)
    while routes and not routes[-1]:
        routes.pop()
    return routes


def routes_to_actions(routes: Sequence[Iterable[int]], num_agents: int) -> np.ndarray:
    """The plan in which vehicle v drives `routes[v]`: each route and a 0, and a 0 for every vehicle that is left.

    `routes` hold nodes without the depot. The environment's mask lets a vehicle stay unused only when it can serve
    no customer: put empty routes last. The plan is `i64[nodes + V]`; N + V for a whole solution, the longest episode.

    Raises:
        ValueError: more routes than vehicles, or a node is no whole number; one line.
    """
    if len(routes) > num_agents:
        raise ValueError(f"{len(routes)} routes for {num_agents} vehicles; give at most one route per vehicle")
    actions: list[int] = []
    for vehicle, route in enumerate(routes):
        actions += [node_of(node, f"routes[{vehicle}][{at}]") for at, node in enumerate(route)] + [0]
    return np.array(actions + [0] * (num_agents - len(routes)), np.int64)


def solution_report(
    instance: Instance, actions: ArrayLike, *, strict: bool = False, tolerance: float | None = None
) -> SolutionReport:
    """Check a plan: the vehicles drive one after the other, tour number v is driven by vehicle v.

    Service may start later than the vehicle could: times come from the eight-step forward-slack procedure of Cordeau &
    Laporte (2003), which finds a schedule that keeps windows, ride times and route durations whenever there is one. A
    plan that serves everything and ends away from the depot is closed by the leg home, as the environment does.

    Args:
        instance: one problem, NumPy or JAX. Padding need not be served, and may not be visited.
        actions: whole numbers `[T]`, node indices as an agent plays them; 0 returns to the depot, and the next vehicle
            takes over; at the depot it leaves a vehicle unused. A vehicle of capacity 0 before others needs a 0 of its
            own here, while agents never play it.
        strict: raise instead of reporting violations.
        tolerance: by how much deadlines, ride times and durations may be exceeded, in time units; by default
            `tolerance_of` the instance.

    Raises:
        ValueError: `actions` are no whole numbers, `instance` is a batch; with `strict`, the violated constraints.
    """
    if np.ndim(instance.demand) != 1:
        raise ValueError(f"demand has shape {np.shape(instance.demand)}; give one instance of the batch at a time")
    tolerance = tolerance_of(instance) if tolerance is None else tolerance
    instance = _in_float64(instance)
    found: dict[str, list[int]] = {name: [] for name in CONSTRAINTS}
    routes, place = _visits(instance, actions_to_routes(actions), found)
    if found["unserved"] and routes and routes[-1] and np.asarray(actions)[-1] != 0:
        found["open_tour"].append(routes[-1][-1])
    service_start, served_by = np.full(instance.demand.size, np.nan), np.full(instance.demand.size, -1)
    legs: list[Leg] = []
    for tour, route in enumerate(routes):
        loads = _check_loads(instance, tour, route, place, found)
        stops = _stops(instance, tour, route, place)
        begin = _schedule(stops)
        legs += _legs_of(tour, route, stops, begin, loads, tolerance) if route else []
        nodes = np.array([0, *route, 0])
        found["windows"] += nodes[begin > stops.deadline + tolerance].tolist()
        found["ride_time"] += nodes[stops.rides(begin) > stops.max_ride_time + tolerance].tolist()
        if begin[-1] - begin[0] > instance.max_route_duration + tolerance:
            found["route_duration"].append(route[0])
        first = [place[node] == (tour, position) for position, node in enumerate(route)]
        service_start[np.array(route, int)[first]] = begin[1:-1][first]
        served_by[np.array(route, int)[first]] = tour
    late = np.nan_to_num(service_start - instance.deadline, nan=0.0, neginf=0.0)
    ride = _rides(instance, service_start, place)
    report = SolutionReport(
        cost=float(sum(_lengths(instance, route).sum() for route in routes)),
        routes=routes,
        service_start=service_start,
        violations=violations_of(found),
        legs=tuple(legs),
        served_by=served_by,
        late=np.where(late > tolerance, late, 0.0),
        delivered=~np.isnan(ride),
        ride=ride,
        too_long=ride > instance.max_ride_time + tolerance,
    )
    return report.checked(strict)


def tolerance_of(instance: Instance) -> float:
    """By how much plans for one problem may exceed limits, in its time units: more if its times are `float32`."""
    share = SLACK if np.asarray(instance.locs).dtype == np.float32 else TOLERANCE
    instance = _in_float64(instance)
    opening = instance.earliest[0]
    busy = all_served(instance.replace(earliest=instance.earliest - opening))
    return float(share * min(instance.deadline[0] - opening, busy))


def _in_float64(instance: Instance) -> Instance:
    fields = {name: np.asarray(getattr(instance, name)) for name in schema_of(SCHEMA, instance)}
    return Instance(**{name: value.astype(np.float64) for name, value in fields.items()})


Place = dict[int, tuple[int, int]]
"""Tour and position of each node's first visit, in the plan's order."""


def _visits(
    instance: Instance, tours: list[list[int]], found: dict[str, list[int]]
) -> tuple[tuple[tuple[int, ...], ...], Place]:
    """The routes without unknown nodes, and where nodes are visited, having checked what can be said without times."""
    real = [node for node in range(1, instance.demand.size) if instance.demand[node - 1 + node % 2] > 0]
    known = set(real)
    found["unknown_node"] += [node for tour in tours for node in tour if node not in known]
    routes = tuple(tuple(node for node in tour if node in known) for tour in tours)
    place: Place = {}
    for node, here in ((node, (tour, at)) for tour, route in enumerate(routes) for at, node in enumerate(route)):
        if place.setdefault(node, here) != here:
            found["duplicates"].append(node)
    found["unserved"] += [node for node in real if node not in place]
    for node, here in place.items():
        there = place.get(node + 1 if node % 2 else node - 1)
        if there is not None and there < here:
            continue
        if there is None or there[0] != here[0]:
            found["pairing"].append(node)
        elif node % 2 == 0:
            found["precedence"].append(node)
    return routes, place


def _check_loads(
    instance: Instance, tour: int, route: Sequence[int], place: Place, found: dict[str, list[int]]
) -> list[int]:
    """Passengers on board after each stop of a route, having checked them."""
    exists = tour < instance.num_agents and instance.capacity[tour] > 0
    if route and not exists:
        found["vehicles"].append(route[0])
    capacity = instance.capacity[tour] if exists else np.inf
    aboard: list[int] = []
    loads: list[int] = []
    for position, node in enumerate(route):
        boards = node % 2 == 1 and place[node] == (tour, position)
        if boards:
            aboard.append(node)
        elif node - 1 in aboard:
            aboard.remove(node - 1)
        loads.append(int(instance.demand[aboard].sum()))
        if boards and loads[-1] > capacity:
            found["capacity"].append(node)
    found["load_at_depot"] += aboard[:1]
    return loads


def _rides(instance: Instance, service_start: np.ndarray, place: Place) -> np.ndarray:
    """`f64[N/2+1]`, ride times of the requests that the vehicle brought which had picked them up; else nan."""
    ride = np.full(instance.demand.size // 2 + 1, np.nan)
    for drop_off, (tour, position) in place.items():
        vehicle, got_in = place.get(drop_off - 1, (-1, 0))
        if drop_off % 2 == 0 and vehicle == tour and got_in < position:
            pickup = drop_off - 1
            ride[drop_off // 2] = service_start[drop_off] - service_start[pickup] - instance.service_time[pickup]
    return ride


@dataclasses.dataclass(frozen=True)
class _Stops:
    """A tour from depot to depot."""

    travel: np.ndarray  # `f64[S]`, time from the stop before
    earliest: np.ndarray  # `f64[S]`
    deadline: np.ndarray  # `f64[S]`
    service: np.ndarray  # `f64[S]`
    pickup: np.ndarray  # `i[S]`, where a drop-off's passenger got in, else -1
    max_ride_time: float

    def rides(self, begin: np.ndarray) -> np.ndarray:
        """`f64[S]`, ride time of the passenger who gets out at a stop; -inf where no passenger gets out."""
        return np.where(self.pickup >= 0, begin - begin[self.pickup] - self.service[self.pickup], -np.inf)


def _lengths(instance: Instance, route: Sequence[int]) -> np.ndarray:
    """`f64[len(route) + 1]`, distances from the depot through the route and back."""
    if instance.travel_time is not None:
        return street_lengths(instance)[[0, *route], [*route, 0]]
    return np.linalg.norm(np.diff(instance.locs[[0, *route, 0]], axis=0), axis=1)


def _stops(instance: Instance, tour: int, route: Sequence[int], place: Place) -> _Stops:
    if instance.travel_time is None:
        travel = _lengths(instance, route) / instance.vehicle_speed
    else:
        travel = instance.travel_time[[0, *route], [*route, 0]]
    if instance.round_travel_time:
        travel = np.round(travel)
    pickup = np.full(len(route) + 2, -1)
    for position, node in enumerate(route):
        vehicle, got_in = place.get(node - 1, (-1, 0))
        if node % 2 == 0 and place[node] == (tour, position) and vehicle == tour:
            pickup[position + 1] = got_in + 1
    nodes = [0, *route, 0]
    return _Stops(
        travel=np.concatenate([[0.0], travel]),
        earliest=instance.earliest[nodes],
        deadline=instance.deadline[nodes],
        service=instance.service_time[nodes],
        pickup=pickup,
        max_ride_time=float(instance.max_ride_time),
    )


def _legs_of(
    tour: int, route: Sequence[int], stops: _Stops, begin: np.ndarray, loads: Sequence[int], tolerance: float
) -> list[Leg]:
    """The drives of a tour; it leaves the depot as late as its first stop allows."""
    nodes, aboard = [0, *route, 0], [0, *loads, 0]
    leaves = begin[:-1] + stops.service[:-1]
    leaves[0] = begin[1] - stops.travel[1]
    return [
        Leg(
            vehicle=tour,
            origin=nodes[at - 1],
            node=node,
            leave=float(leaves[at - 1]),
            arrival=float(min(leaves[at - 1] + stops.travel[at], begin[at])),
            begin=float(begin[at]),
            load_before=aboard[at - 1],
            load=aboard[at],
            wrong=bool(node == 0 and (aboard[at - 1] > 0 or begin[at] > stops.deadline[at] + tolerance)),
        )
        for at, node in enumerate(nodes)
        if at
    ]


def _schedule(stops: _Stops) -> np.ndarray:
    """Start of service at each stop, `f64[S]`, by the eight-step procedure.

    Delaying a pickup to its latest never costs another passenger a feasible ride: those who got in before limit the
    delay, and those who get in later wait less. So the ride limits hold here if they can hold at all.
    """
    begin, wait = np.full_like(stops.travel, np.nan), np.zeros_like(stops.travel)
    begin[0] = stops.earliest[0]
    _serve(stops, begin, wait, 0)
    _delay(stops, begin, wait, 0)
    for at in np.unique(stops.pickup[stops.pickup >= 0]):
        if (stops.rides(begin) <= stops.max_ride_time).all():
            break
        _delay(stops, begin, wait, at)
    return begin


def _serve(stops: _Stops, begin: np.ndarray, wait: np.ndarray, after: int) -> None:
    """Serve everything behind stop `after` as early as possible, given when that one begins; the rest stays."""
    for at in range(after + 1, begin.size):
        arrival = begin[at - 1] + stops.service[at - 1] + stops.travel[at]
        start = max(arrival, stops.earliest[at])
        wait[at] = start - arrival
        if start == begin[at]:
            break
        begin[at] = start


def _delay(stops: _Stops, begin: np.ndarray, wait: np.ndarray, at: int) -> None:
    """Begin at stop `at` as late as its forward slack allows without a later end of the tour."""
    absorbed = np.cumsum(wait[at:]) - wait[at]
    boarded_before = (stops.pickup[at:] >= 0) & (stops.pickup[at:] < at)
    rest = np.where(boarded_before, stops.max_ride_time - stops.rides(begin)[at:], np.inf)
    slack = np.minimum(stops.deadline[at:] - begin[at:], rest)
    begin[at] += min((absorbed + np.maximum(slack, 0.0)).min(), absorbed[-1])
    _serve(stops, begin, wait, at)
