"""Plans in VROOM's output format, for what reads that: a route for each trip, in seconds and metres."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxvrp.io.units import METRES, SECONDS
from jaxvrp.io.whole_files import write_json
from jaxvrp.orders.visits import STOPS, Visit, by_vehicle, of_plan

ENDING = ".vroom.json"
"""Of a plan in this format."""

KINDS = {
    "load": "start",
    "start": "start",
    "deliver": "job",
    "pickup": "pickup",
    "drop-off": "delivery",
    "home": "end",
}
"""What VROOM calls a visit."""

LOADED = {"pickup": 1, "job": -1, "delivery": -1}
"""What becomes of what is on board."""


def write_vroom(path: str | os.PathLike, plan: Mapping[str, Any]) -> None:
    """Write a plan with visits as VROOM's output: a route for each trip; whole or not at all.

    Customers and vehicles whose names are whole numbers have these as ids; others are numbered from 1, and described.

    Raises:
        ValueError: its vehicles do something else than load, pick up, deliver and come home.
        OSError: the file cannot be written.
    """
    visits = of_plan(plan)
    if not visits or any(visit.what in KINDS and visit.arrival is None for visit in visits):
        raise ValueError("the plan has no visits of customers with names and arrivals; write it to .json or .csv")
    if other := next((visit.what for visit in visits if visit.what not in KINDS), None):
        raise ValueError(f"VROOM's plans have no words for '{other}'; write it to .json, .csv or .geojson")
    left = [(KINDS["deliver"], name) for name in plan.get("rejected", ())]
    left += [(KINDS[each["what"]], each["name"]) for each in plan.get("unserved", ())]
    jobs = _ids([*(visit.name for visit in visits if visit.what in STOPS), *(name for _, name in left)])
    tours = by_vehicle(plan)
    vehicles = _ids(list(tours))
    routes = [_route(vehicles[name], trip, jobs) for name, tour in tours.items() for trip in _trips(tour)]
    sums = {name: sum(route[name] for route in routes) for name in ("cost", "setup", "service", "duration")}
    waiting = sum(route["waiting_time"] for route in routes)
    amounts = {name: [_whole(sum(route[name][0] for route in routes))] for name in ("delivery", "pickup")}
    unassigned = [{"type": kind, **jobs[name]} for kind, name in left]
    summary = {"routes": len(routes), "unassigned": len(unassigned), **amounts, "waiting_time": waiting}
    write_json(
        path,
        {"code": 0, "summary": {**sums, **summary, "violations": []}, "unassigned": unassigned, "routes": routes},
    )


def _ids(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By name, `id`, and `description` where that is not the name."""
    if all(name.isdecimal() for name in names):
        return {name: {"id": int(name)} for name in names}
    return {name: {"id": number, "description": name} for number, name in enumerate(dict.fromkeys(names), 1)}


def _trips(tour: Sequence[Visit]) -> Iterator[list[Visit]]:
    """The visits of each trip, which begins where the vehicle loads or starts."""
    numbers = itertools.accumulate(KINDS[visit.what] == "start" for visit in tour)
    for _, group in itertools.groupby(zip(numbers, tour, strict=True), key=lambda each: each[0]):
        yield [visit for _, visit in group]


def _route(vehicle: Mapping[str, Any], trip: Sequence[Visit], jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    steps, driven, load, kilometres = [], 0.0, trip[0].load, 0.0
    known = all(visit.way is not None or visit.is_drone for visit in trip[1:])
    for before, visit in itertools.pairwise([trip[0], *trip]):
        if visit is not trip[0]:
            driven += _arrival(visit) - before.minute - before.service
            kilometres += math.dist(before.place, visit.place) if visit.way is None else visit.way
        load += LOADED.get(KINDS[visit.what], 0) * visit.load
        step = _step(visit, jobs, driven, load)
        steps.append({**step, "distance": round(METRES * kilometres)} if known else step)
    total = {name: sum(step[name] for step in steps) for name in ("setup", "service", "waiting_time")}
    return {
        "vehicle": vehicle["id"],
        **{name: words for name, words in vehicle.items() if name == "description"},
        "cost": steps[-1]["duration"],
        **total,
        "duration": steps[-1]["duration"],
        **({"distance": steps[-1]["distance"]} if known else {}),
        "delivery": [_whole(sum(visit.load for visit in trip if visit.what in ("deliver", "drop-off")))],
        "pickup": [_whole(sum(visit.load for visit in trip if visit.what == "pickup"))],
        "steps": steps,
        "violations": [],
    }


def _step(visit: Visit, jobs: Mapping[str, Mapping[str, Any]], driven: float, load: float) -> dict[str, Any]:
    """A step, in seconds; the time that a vehicle takes to load is the service of its start."""
    kind = KINDS[visit.what]
    location = {"location": [*reversed(visit.degrees)]} if visit.degrees else {}
    described = {"description": visit.address} if visit.address else {}
    return {
        "type": kind,
        **({**described, **jobs[visit.name]} if visit.what in STOPS else {}),
        **location,
        "arrival": round(SECONDS * _arrival(visit)),
        "duration": round(SECONDS * driven),
        "setup": 0,
        "service": round(SECONDS * visit.service),
        "waiting_time": round(SECONDS * (visit.minute - _arrival(visit))),
        "load": [_whole(load)],
        "violations": [],
    }


def _arrival(visit: Visit) -> float:
    assert visit.arrival is not None  # `write_vroom` has refused others
    return visit.arrival


def _whole(load: float) -> float:
    return round(load) if abs(load - round(load)) < 1e-6 else round(load, 3)
