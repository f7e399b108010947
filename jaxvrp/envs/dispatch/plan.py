"""Days from files, and plans for them: what was asked, what was answered, and the stops of each vehicle."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.played import PlayedDay, day_of
from jaxvrp.envs.dispatch.problem.day_file import NamedDay, unservable
from jaxvrp.envs.dispatch.problem.solution import Stop
from jaxvrp.envs.dispatch.rules import State

FORMAT = "jaxvrp-dispatch-plan-1"

COLUMNS = ("vehicle", "trip", "stop", "what", "request", "departs", "begin", "load")
"""The keys of a stop, and the columns of the table."""


def parameters_of(day: NamedDay, env: Dispatch) -> dict[str, Any]:
    """The scenario and the sizes of an environment that plays a day."""
    del env
    instance, requests = day.instance, max(day.instance.max_requests, 1)
    if instance.depot is None:
        return {"scenario": "ride_pooling", "max_requests": requests, "num_vehicles": instance.num_vehicles}
    vehicles = max(int(np.count_nonzero(~np.asarray(instance.is_drone))), 1)
    sizes = {"num_vehicles": vehicles, "num_drones": instance.num_vehicles - vehicles}
    return {"scenario": "same_day", "max_requests": requests, **sizes}


def plan_of(named: NamedDay, env: Dispatch, states: State) -> dict[str, Any]:
    """The plan of one episode, states `[T + 1]`, a JSON object; times in the user's unit, names of the user's."""
    day = day_of(env, states)
    stops = _stops(named, day)
    routes: dict[str, list[str]] = {named.vehicles[v]: [] for v in day.vehicles}
    for stop in stops:
        routes[stop["vehicle"]].append(f"{stop['what']} {stop['request']}")
    rejected = day.rejected()
    late = (
        {"late": [named.requests[request] for request in np.flatnonzero(day.report.late)]} if env.travel_noise else {}
    )
    violations = {name: {"count": found.count, "first": found.where} for name, found in day.report.violations.items()}
    return {
        "format": FORMAT,
        "feasible": day.report.feasible and not rejected,
        "violations": {name: found for name, found in violations.items() if found["count"]},
        "value": day.report.value,
        "travel": named.moment(day.report.travel.sum()),
        "rejected": [named.requests[request] for request in rejected],
        "unservable": [named.requests[request] for request in unservable(named.instance)],
        **late,
        "routes": routes,
        "answers": [_answer(named, day, request) for request in day.requests],
        "stops": stops,
    }


def _answer(named: NamedDay, day: PlayedDay, request: int) -> dict[str, Any]:
    """What was asked of all vehicles when a request arrived, and what came of it."""
    found = day.served.get(request)
    feasible, added = (np.asarray(getattr(day.states.offers, name)[request]) for name in ("feasible", "added"))
    return {
        "request": named.requests[request],
        "arrival": named.moment(day.arrival(request)),
        "offers": {named.vehicles[v]: named.moment(added[v]) for v in day.vehicles if feasible[v]},
        "vehicle": named.vehicles[found.vehicle] if found else None,
        "pickup": named.moment(found.pickup) if found else None,
        "dropoff": named.moment(found.dropoff) if found else None,
    }


def _stops(named: NamedDay, day: PlayedDay) -> list[dict[str, Any]]:
    """The stops of vehicle after vehicle; `departs` is when it leaves for it, or begins to load for the trip."""
    rows = []
    for v in day.vehicles:
        mine = [stop for stop in day.stops if stop.vehicle == v]
        for number, stop in enumerate(mine, 1):
            rows.append(
                {
                    "vehicle": named.vehicles[v],
                    "trip": stop.trip if day.instance.depot is not None else None,
                    "stop": number,
                    "what": what(stop),
                    "request": named.requests[stop.request],
                    "departs": named.moment(stop.departs),
                    "begin": named.moment(stop.start),
                    "load": [load for time, load in day.tracks[v].loads if time <= stop.start][-1],
                }
            )
    return rows


def what(stop: Stop) -> str:
    """Pickup or drop-off, in words."""
    return "pickup" if stop.is_pickup else "drop-off"
