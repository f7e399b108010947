"""A day made of orders and a fleet, and what its plan comes to for drivers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxvrp.envs.dispatch.problem.day_file import FORMAT, METRES, SECONDS, NamedDay, parse_day
from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR
from jaxvrp.envs.dispatch.problem.solution import Leg
from jaxvrp.orders.orders import Case, Fleet, Kind, Point
from jaxvrp.orders.visits import Visit

SCALES = (1, 10, 100, 1000)
"""Units of load of a kilogram: the fewest that say all loads in whole numbers."""


def day_of(case: Case) -> tuple[NamedDay, list[str]]:
    """The day of orders and a fleet, and lines that say what was changed.

    Raises:
        ValueError: a day cannot say it; one line.
    """
    fleet, notes = case.fleet, []
    scale = _scale([stop.load for stop in case.stops])
    total = max(1, _units_of(scale, sum(stop.load for stop in case.stops), math.ceil))
    vehicles = []
    for name, kind in (("van", fleet.vans), ("drone", fleet.drones)):
        times = sorted({kind.stop if stop.service is None else stop.service for stop in case.stops})
        longest = times[-1]
        if kind.count and longest > times[0]:
            notes.append(
                f"{name}s: stops of {times[0]:g} to {longest:g} minutes are asked for, and a vehicle has one time for "
                f"all stops and for loading; the longest, {longest:g}, is taken"
            )
        of_kind = {"is_drone": True} if name == "drone" else {}
        vehicles += [
            {**_vehicle(f"{name} {1 + at}", kind, longest, scale, total), **of_kind} for at in range(kind.count)
        ]
    rows = sorted(range(len(case.stops)), key=lambda row: case.stops[row].known)
    stops = [case.stops[row] for row in rows]
    requests = [
        {
            "id": stop.name,
            "arrival": stop.known,
            "dropoff": list(stop.place),
            "dropoff_earliest": stop.earliest,
            "dropoff_deadline": stop.latest,
            "load": max(1, _units_of(scale, stop.load, math.ceil)),
        }
        for stop in stops
    ]
    content = {"format": FORMAT, "name": case.title, "horizon": fleet.horizon, "depot": list(case.depot)}
    streets = _streets(fleet, [0, *(1 + row for row in rows)])
    day = parse_day({**content, "vehicles": vehicles, "requests": requests, **streets})
    addresses = tuple(stop.address for stop in stops)
    return dataclasses.replace(day, start=fleet.clock, earth=case.earth, scale=scale, addresses=addresses), notes


def _streets(fleet: Fleet, rows: Sequence[int]) -> dict[str, Any]:
    """The matrices of a day whose places have these rows in the table of the fleet; {} without one."""
    if fleet.streets is None:
        return {}
    table = fleet.streets.at(rows)
    found = {"travel_time": table.seconds / SECONDS}
    return found if table.metres is None else {**found, "travel_distance": table.metres / METRES}


def _scale(loads: Sequence[float]) -> int:
    """The first of `SCALES` in which all loads are whole, or the finest."""

    def is_whole(scale: int, load: float) -> bool:
        return _units_of(scale, load, math.floor) == _units_of(scale, load, math.ceil)

    return next((scale for scale in SCALES if all(is_whole(scale, load) for load in loads)), SCALES[-1])


def _units_of(scale: int, kilograms: float, rounded: Callable[[float], int]) -> int:
    """Whole units, up or down; what is next to a whole number is one: 100 times 2.3 is a little less than 230."""
    return rounded(round(scale * kilograms, ndigits=6))


def _vehicle(name: str, kind: Kind, stop_time: float, scale: int, total: int) -> dict[str, Any]:
    vehicle: dict[str, Any] = {
        "id": name,
        "speed": kind.speed,
        "capacity": total if math.isinf(kind.capacity) else _units_of(scale, kind.capacity, math.floor),
        "detour": kind.detour,
        "stop_time": stop_time,
        "turnaround": kind.turnaround,
    }
    if vehicle["capacity"] < 1:
        raise ValueError(f"{name}: a capacity of {kind.capacity:g} kg is none; give more")
    if math.isfinite(kind.range):
        vehicle["max_trip"] = MINUTES_PER_HOUR * kind.range / kind.speed + stop_time
    return vehicle


def visits_of(named: NamedDay, legs: Iterable[Leg]) -> Iterator[Visit]:
    """What the driven legs of a day with a depot come to for drivers, trip by trip."""
    for (vehicle, _), group in itertools.groupby(_with_trips(legs), key=lambda each: each[:2]):
        yield from _trip(named, vehicle, [leg for _, _, leg in group])


def _trip(named: NamedDay, vehicle: int, legs: Sequence[Leg]) -> Iterator[Visit]:
    """Loading at the depot, the stops, and the way home."""
    first, day = legs[0], named.instance
    is_drone, name = bool(day.is_drone[vehicle]), named.vehicles[vehicle]
    depot = (float(day.depot[0]), float(day.depot[1]))

    def visit(activity: str, stop: str, place: Point, minute: float, **more: Any) -> Visit:
        at = (place[0] + named.place[0], place[1] + named.place[1])
        degrees = named.earth.degrees(at) if named.earth else None
        moment = float(minute) + named.clock
        return Visit(
            name, is_drone, activity, stop, at, moment, named.words(minute), degrees=degrees, unit=named.unit, **more
        )

    assert first.stop is not None
    loads = first.stop.departs
    times = {"arrival": loads + named.clock, "service": first.leaves - loads}
    yield visit("load", "depot", depot, loads, load=first.load_before / named.scale, **times)
    places = [1 + leg.stop.request if leg.stop else 0 for leg in legs]
    for leg, (origin, target) in zip(legs, itertools.pairwise([0, *places]), strict=True):
        way = None if day.travel_distance is None or is_drone else float(day.travel_distance[origin, target])
        if leg.stop is None:
            yield visit("home", "depot", depot, leg.arrival, way=way, arrival=leg.arrival + named.clock)
            continue
        request = leg.stop.request
        x, y = day.dropoff[request]
        yield visit(
            "deliver",
            named.requests[request],
            (float(x), float(y)),
            leg.stop.start,
            window=_window(named, request),
            load=float(day.load[request]) / named.scale,
            address=named.addresses[request] if named.addresses else "",
            way=way,
            arrival=leg.arrival + named.clock,
            service=leg.ended - leg.stop.start,
        )


def _with_trips(legs: Iterable[Leg]) -> Iterator[tuple[int, int, Leg]]:
    """Vehicle, trip and leg; the way home is of the trip before it."""
    trip = 0
    for leg in legs:
        trip = leg.stop.trip if leg.stop else trip
        yield leg.vehicle, trip, leg


def _window(named: NamedDay, request: int) -> str:
    """When a request can be served, if that is not all day."""
    day = named.instance
    earliest, latest = float(day.dropoff_earliest[request]), float(day.dropoff_deadline[request])
    end = float(np.max(day.latest_return))
    if earliest <= 0 and latest >= end:
        return ""
    return f"{named.words(max(earliest, 0.0))} to {named.words(min(latest, end))}"
