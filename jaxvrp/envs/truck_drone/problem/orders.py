"""A map made of orders and a fleet, and what its plan comes to for drivers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from jaxvrp.envs.truck_drone.problem.fleet_map import Customer, Drone, FleetMap, Truck
from jaxvrp.geography.earth import Earth
from jaxvrp.orders.orders import Case, Stop
from jaxvrp.orders.visits import Visit

MINUTES = 60.0
"""Minutes of an hour."""

FLY_ALL = "the van is a base for its drones: every parcel is flown the last part, from the depot or a customer's place"


@dataclasses.dataclass(frozen=True)
class CaseMap(FleetMap):
    """A map of orders: kilometres of a plane that touches the `earth`, if places were given in degrees."""

    earth: Earth | None = None
    addresses: Mapping[str, str] = dataclasses.field(default_factory=dict)


def map_of_case(case: Case) -> tuple[CaseMap, list[str]]:
    """The map of orders and a fleet, and lines that say what it says otherwise.

    Raises:
        ValueError: a map cannot say it; one line.
    """
    fleet, notes = case.fleet, [FLY_ALL]
    if fleet.streets is not None:
        raise ValueError(
            f"{fleet.path}: vans.matrix: a van that carries its drones drives straight here; give vans.speed instead, "
            "or let the drones fly from the depot (drones.from: depot)"
        )
    ignored = [f"vans.{name}" for name in ("capacity",) if math.isfinite(getattr(fleet.vans, name))]
    ignored += [f"vans.{name}" for name in ("stop", "turnaround") if getattr(fleet.vans, name)]
    ignored += [f"drones.{name}" for name in ("stop", "turnaround") if getattr(fleet.drones, name)]
    ignored += ["service"] if any(stop.service for stop in case.stops) else []
    if ignored:
        notes.append(f"a map of a van with its drones ignores {', '.join(ignored)}")
    capacity = fleet.drones.capacity if math.isfinite(fleet.drones.capacity) else None
    drone = Drone(fleet.drones.speed / MINUTES, fleet.drones.range, payload_factor=0.0, capacity=capacity)
    problem = CaseMap(
        horizon=fleet.horizon,
        truck=Truck(case.depot, fleet.vans.speed / fleet.vans.detour / MINUTES, "van"),
        customers=tuple(map(_customer, case.stops)),
        drones=tuple(dataclasses.replace(drone, id=f"drone {1 + at}") for at in range(fleet.drones.count)),
        units={"length": "km", "time": "min", "demand": "kg"},
        name=case.title,
        start=fleet.clock.shown(0.0),
        earth=case.earth,
        addresses={stop.name: stop.address for stop in case.stops},
    )
    return problem, notes


def _customer(stop: Stop) -> Customer:
    return Customer(stop.place, stop.load, (stop.earliest, stop.latest), stop.known or None, stop.name)


def visits_of(problem: CaseMap, plan: Mapping[str, Any]) -> Iterator[Visit]:
    """What the events of a plan come to for drivers: the van's has launches and landings, too."""
    customers = dict(zip(problem.names("customers"), problem.customers, strict=True))
    named = {"start", *problem.names("nodes")}
    for event in plan["events"]:
        activity, is_drone = event["what"], event["who"] != problem.truck_name
        if activity == "wait":
            continue
        place = event["x"], event["y"]
        where = event["where"] if event["where"] in named else "on the way"
        common: dict[str, Any] = {
            "place": place,
            "minute": event["end"],
            "time": problem.said(event["end"]),
            "degrees": problem.earth.degrees(place) if problem.earth else None,
        }
        if activity != "deliver":
            yield Visit(event["who"], is_drone, activity, where, **common)
            if activity in ("launch", "board"):
                yield Visit(problem.truck_name, False, f"{activity} {event['who']}", where, **common)
            continue
        name = event["customer"]
        window = " to ".join(map(problem.said, customers[name].window or ()))
        address, load = problem.addresses.get(name, ""), customers[name].demand
        yield Visit(event["who"], is_drone, activity, name, window=window, load=load, address=address, **common)
