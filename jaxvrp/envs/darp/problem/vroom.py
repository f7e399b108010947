"""VROOM's shipments as a dial-a-ride problem; each may have to be short, which VROOM has no field for.

What vehicles do comes back with the ids, the places and the clock of the file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from flax import struct

from jaxvrp.envs.darp.problem.instance import SCHEMA, Instance, end_of, make_instance
from jaxvrp.envs.darp.problem.solution import Leg
from jaxvrp.geography.earth import Earth
from jaxvrp.geography.streets import closed
from jaxvrp.io.clock import MINUTES, Clock
from jaxvrp.io.json_files import plain
from jaxvrp.io.problems.problem_files import DamagedFileError
from jaxvrp.io.units import METRES, SECONDS
from jaxvrp.orders.visits import STOPS, Visit, in_json
from jaxvrp.orders.vroom import Task, Tour, parse_tour

MAX_RIDE_TIME = math.inf
"""Seconds on board, from the end of the pickup on: what the file cannot say."""


class Shipments(Instance):
    """A problem, and the file that it is of; `metres` is of the quickest ways, `f64[N+1, N+1]`, if they are known."""

    tour: Tour = struct.field(pytree_node=False, default=None)
    metres: Any = struct.field(pytree_node=False, default=None)

    @property
    def earth(self) -> Earth:
        """The plane on which its places lie."""
        return self.tour.places[1]

    @property
    def clock(self) -> Clock:
        """The clock of its seconds, which begins with the day on which the first vehicle may leave."""
        return Clock(-MINUTES * (self.tour.opens / SECONDS // MINUTES))

    @property
    def bare(self) -> Instance:
        """The problem alone."""
        return Instance(**{name: getattr(self, name) for name in SCHEMA})


def instance_of_vroom(
    content: Mapping[str, Any], path: str | os.PathLike, max_ride_time: float = MAX_RIDE_TIME
) -> Shipments:
    """The problem that the JSON value of a file describes, in seconds of its clock and kilometres.

    Requests have the order of the file. What is shortest is the time of travel.

    Raises:
        DamagedFileError: it is none; one line that names the file and the field.
    """
    try:
        tour = parse_tour(plain(content), "shipments")
        closes = {driver.closes for driver in tour.drivers}
        if len(closes) > 1:
            raise ValueError("vehicles: their time_windows end at different times; all end at once here")
        ways = tour.ways
        amounts = np.array([(task.amount or 1) * (1 if at % 2 == 0 else -1) for at, task in enumerate(tour.tasks)])
        total = int(amounts[::2].sum())
        instance = make_instance(
            tour.places[0],
            [0, *amounts],
            [closes.pop(), *(task.window[1] for task in tour.tasks)],
            capacity=[total if driver.capacity is None else driver.capacity for driver in tour.drivers],
            earliest=[tour.opens, *(task.window[0] for task in tour.tasks)],
            service_time=[0.0, *(task.service for task in tour.tasks)],
            max_ride_time=max_ride_time,
            travel_time=ways.seconds,
        )
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None
    metres = None if ways.metres is None else closed(ways.seconds, ways.metres)[1]
    return Shipments(**vars(instance), tour=tour, metres=metres)


def visits_of(problem: Shipments, legs: Sequence[Leg]) -> Iterator[Visit]:
    """What the drives of vehicles, in their order, come to for drivers."""
    tour, clock = problem.tour, problem.clock
    places, tasks = problem.locs.tolist(), (tour.depot, *tour.tasks)

    def visit(leg: Leg, node: int, arrival: float, begin: float, activity: str, **more: Any) -> Visit:
        task, minute = tasks[node], begin / SECONDS
        return Visit(
            str(tour.drivers[leg.vehicle].id),
            False,
            activity,
            str(task.id) if node else "depot",
            tuple(places[node]),
            minute,
            clock.shown(minute),
            window=_window(task, clock),
            address=task.description,
            degrees=task.place,
            arrival=arrival / SECONDS,
            unit="",
            **more,
        )

    for leg in legs:
        if leg.origin == 0:
            yield visit(leg, 0, leg.leave, leg.leave, "start")
        way = None if problem.metres is None else float(problem.metres[leg.origin, leg.node]) / METRES
        served = {"load": abs(float(problem.demand[leg.node])), "service": tasks[leg.node].service / SECONDS}
        activity = end_of(leg.node) if leg.node else "home"
        yield visit(leg, leg.node, leg.arrival, leg.begin, activity, way=way, **(served if leg.node else {}))


def entries_of(problem: Shipments, legs: Sequence[Leg], not_served: Sequence[int]) -> dict[str, Any]:
    """What a plan has in the words of the file: routes, visits, and both ends of requests (from 1) that are left."""
    visits = list(visits_of(problem, legs))
    nodes = [node for request in not_served for node in (2 * request - 1, 2 * request)]
    ends = [visit for visit in visits if visit.what in STOPS]
    return {
        "routes": {
            name: [f"{visit.what} {visit.name}" for visit in ends if visit.vehicle == name]
            for name in (str(driver.id) for driver in problem.tour.drivers)
        },
        "unserved": [{"what": end_of(node), "name": str(problem.tour.tasks[node - 1].id)} for node in nodes],
        "visits": in_json(visits),
    }


def _window(task: Task, clock: Clock) -> str:
    earliest, latest = (time / SECONDS for time in task.window)
    if math.isinf(latest):
        return f"from {clock.shown(earliest)}" if earliest else ""
    return f"{clock.shown(earliest)} to {clock.shown(latest)}"
