"""The plan of an episode on a map: vehicle, action, time and place of each event, in the map's units and names."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_drone.course import NOBODY, Course, course_of, runs, step_by_step
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import ARRIVED
from jaxvrp.envs.truck_drone.planned import PlannedVrpdTw, Price, planned
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap
from jaxvrp.envs.truck_drone.problem.inspection import inspect, why_nobody
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.problem.map_file import read_map
from jaxvrp.envs.truck_drone.problem.orders import CaseMap, map_of_case, visits_of
from jaxvrp.envs.truck_drone.world import CRASHED, ONBOARD
from jaxvrp.episodes import Episode
from jaxvrp.io.problems.plan_files import Sheet, words_of
from jaxvrp.orders.orders import Case
from jaxvrp.orders.visits import in_json, sheets_to_drive_by
from jaxvrp.players import Searched
from jaxvrp.problems import Inspection, Problems

FORMAT = "jaxvrp-truck-drone-plan-1"

COLUMNS = ("start", "end", "who", "what", "where", "x", "y", "customer", "battery", "late")
"""Keys of an event, and columns of the table."""

TURNED = 1e-3
"""Sine of an angle: a truck that turns by more drives to another place."""

Plan = dict[str, Any]


def _further(plan: Mapping[str, Any]) -> list[str]:
    """Keys of events that a scenario of one's own has added, in their order."""
    return [key for key in dict.fromkeys(key for event in plan["events"] for key in event) if key not in COLUMNS]


def sheets_of(fleet_map: FleetMap, plan: Mapping[str, Any]) -> list[Sheet]:
    """A sheet for each vehicle: when it is where, and with what; the truck's has launches and landings, too.

    A scenario's further keys of events are the last columns.
    """
    unit = {kind: f" ({name})" for kind, name in fleet_map.units.items()}.get
    time, further = unit("time", ""), _further(plan)
    package, added = f"package{unit('demand', '')}", (key.replace("_", " ") for key in further)
    columns = (f"from{time}", f"to{time}", "what", "where", package, "battery", f"late{time}", *added)
    packages = (words_of(each.demand) for each in fleet_map.customers)
    demands = dict(zip(fleet_map.names("customers"), packages, strict=True))
    loads = {}
    for sortie in plan["sorties"]:
        names = [each["customer"] for each in sortie["deliveries"]]
        loads[sortie["drone"], sortie["launch"]["time"]] = ", ".join(f"{demands[name]} for {name}" for name in names)

    def row(event: Plan, activity: str) -> tuple[str, ...]:
        package = loads.get((event["who"], event["start"]), "") if event["what"] == "launch" else ""
        if event["what"] == "deliver":
            package = demands[event["customer"]]
        battery = "" if event["battery"] is None else f"{event['battery']:.0%}"
        moments = event["start"], event["end"]
        times = [words_of(each) if fleet_map.start is None else fleet_map.said(each) for each in moments]
        late = words_of(event["late"] or None)
        more = (words_of(value) for value in map(event.get, further))
        return (*times, activity, event["where"], package, battery, late, *more)

    sheets = []
    for name in plan["routes"]:
        shown = [(event, event["what"]) for event in plan["events"] if event["who"] == name]
        if name == fleet_map.truck_name:
            flights = [event for event in plan["events"] if event["what"] in ("launch", "board")]
            shown = [*shown, *((event, f"{event['what']} {event['who']}") for event in flights)]
            shown.sort(key=lambda each: (each[0]["start"], each[0]["end"]))
        rows = tuple(row(*each) for each in shown)
        sheets.append(Sheet(name, plan["totals"][f"distance of {name}"], columns, rows))
    return sheets


class _Planner:
    """Describes one episode in the units and names of its map; moments are indices of its states."""

    def __init__(self, fleet_map: FleetMap, course: Course):
        self.map, self.env = fleet_map, course.env
        self.course = course.until_the_last_work()
        self.scale, self.world, self.truck_name = fleet_map.whole_scale, self.course.world, fleet_map.truck_name
        self.customers, self.nodes, self.drones = (fleet_map.names(name) for name in ("customers", "nodes", "drones"))

    def plan(self) -> Plan:
        sorties = [sortie for drone in range(len(self.drones)) for sortie in self._sorties(drone)]
        truck, summary = list(self._truck_events()), self._summary()
        customers = [self._customer(index) for index in range(len(self.customers))]
        reasons = self._reasons(customers)
        events = [*truck, *(event for sortie in sorties for event in _events_of(sortie))]
        events.sort(key=lambda event: (event["start"], event["end"]))
        stops = [self._where(index) for index in range(self.course.length) if self._node(index) is not None]
        routes = {self.truck_name: [name for name, _ in itertools.groupby(stops)]}
        for drone in self.drones:
            deliveries = [each for sortie in sorties if sortie["drone"] == drone for each in sortie["deliveries"]]
            routes[drone] = [delivery["customer"] for delivery in deliveries]
        length = self.map.amount("length")
        distances = {f"distance of {name}": length(far) for name, far in summary["distance"].items()}
        return {
            "format": FORMAT,
            "name": self.map.name,
            "units": self.map.units,
            "summary": summary,
            "totals": {**_late_words(self.map, customers), "end": self.map.said(summary["end"]), **distances},
            "feasible": not reasons,
            "reasons": reasons,
            "routes": routes,
            "truck": truck,
            "sorties": sorties,
            "customers": customers,
            "events": events,
        }

    def _reasons(self, customers: list[Plan]) -> list[str]:
        """What keeps the plan from being feasible, a line each; loads are kept by every map that can be read."""
        time, status = self.map.amount("time"), self.world.drones.status[-1]
        unserved = [each["customer"] for each in customers if each["time"] is None]
        found = {
            "late": [f"{each['customer']} by {time(each['late'])}" for each in customers if each["late"]],
            "not served": unserved,
            "crashed": [self.drones[drone] for drone in np.flatnonzero(status == CRASHED)],
            "in the air at the end": [
                self.drones[i] for i in np.flatnonzero((status != CRASHED) & (status != ONBOARD))
            ],
        }
        lines = [f"{len(names)} {fault} ({', '.join(names)})" for fault, names in found.items() if names]
        why = why_nobody(self.map, self.env) if len(unserved) == len(customers) else ""
        return [*lines, *([why] if why else [])]

    def _summary(self) -> Plan:
        """Totals, in the units of the map; batteries in full charges."""
        totals, status, served = self.world.totals, self.world.drones.status[-1], self.course.served_at >= 0
        flown = self.world.drones.flown[1:].sum(axis=0, dtype=np.float64)
        driven = self.scale.distance(totals.truck_distance[-1])
        return {
            "end": self._moment(-1),
            "customers": len(self.customers),
            "served": int(served.sum()),
            "on_time": int((served & (self.course.steps_late == 0)).sum()),
            "drones_crashed": int((status == CRASHED).sum()),
            "drones_in_the_air": int(((status != CRASHED) & (status != ONBOARD)).sum()),
            "truck_distance": driven,
            "drone_distance": self.scale.distance(totals.drone_distance[-1]),
            "distance": {
                self.truck_name: driven,
                **dict(zip(self.drones, map(self.scale.distance, flown), strict=True)),
            },
            "battery_used": _rounded(totals.battery_used[-1] / np.asarray(self.env.max_battery)),
        }

    def _moment(self, index: int) -> float:
        return self.scale.moment(self.world.step[index])

    def _node(self, index: int) -> int | None:
        """The node that the truck is at."""
        gaps = np.linalg.norm(self.course.instance.node_position - self.world.truck.position[index], axis=1)
        return int(gaps.argmin()) if gaps.min() < ARRIVED else None

    def _where(self, index: int) -> str:
        """The node that the truck is at; "start" if it is still there, its coordinates on the way."""
        node = self._node(index)
        if node is not None:
            return self.nodes[node]
        place = self.world.truck.position[index]
        return "start" if (place == self.world.truck.position[0]).all() else self._coordinates(place)

    def _coordinates(self, place: ArrayLike) -> str:
        """A place to a thousandth of a map unit."""
        digits = 3 - math.ceil(math.log10(self.scale.length))
        x, y = (round(number, digits) + 0.0 for number in self.scale.place(place))
        return f"({x:.12g}, {y:.12g})"

    def _truck_events(self) -> Iterator[Plan]:
        """Every drive and every wait of the truck; a new one begins where it starts, stops, turns, or leaves a node."""
        place = np.asarray(self.world.truck.position, np.float64)
        step = np.diff(place, axis=0)
        # A truck that is told to drive to the node where it is moves by rounding errors.
        length = np.linalg.norm(step, axis=1)
        moves = length > ARRIVED
        before, after = step[:-1], step[1:]
        cross = np.abs(after[:, 0] * before[:, 1] - after[:, 1] * before[:, 0])
        # The steps are differences of places in `float32`, so that short ones have no exact direction.
        turns = cross > TURNED * length[1:] * length[:-1] + ARRIVED * (length[1:] + length[:-1])
        turns |= (before * after).sum(axis=1) < 0
        leaves = np.array([self._node(index) is not None for index in range(1, len(place) - 1)], bool)
        begins = np.append(True, (moves[1:] != moves[:-1]) | (moves[1:] & (turns | leaves)))
        for start, stop, _ in runs(np.cumsum(begins)) if len(step) else []:
            activity = "drive" if moves[start] else "wait"
            point = self.scale.place(place[stop])
            yield _event(self._moment(start), self._moment(stop), self.truck_name, activity, self._where(stop), point)

    def _sorties(self, drone: int) -> Iterator[Plan]:
        """Every flight of a drone, from the truck and back to it, or to where it ended."""
        status, served_at = self.world.drones.status[:, drone], self.course.served_at
        for start, stop, is_onboard in runs(status == ONBOARD):
            if is_onboard:
                continue
            crashed = np.flatnonzero(status[start:stop] == CRASHED)
            is_back = stop < self.course.length
            outcome = "crashed" if crashed.size else "recovered" if is_back else "in the air"
            last = start + int(crashed[0]) if crashed.size else min(stop, self.course.length - 1)
            served = np.flatnonzero((self.course.server == drone) & (start <= served_at) & (served_at <= last))
            yield {
                "drone": self.drones[drone],
                "launch": {**self._drone_at(drone, start - 1), "where": self._where(start - 1)},
                "deliveries": [self._delivery(int(index)) for index in sorted(served, key=lambda i: served_at[i])],
                "outcome": outcome,
                "end": {**self._drone_at(drone, last), "where": self._landing(drone, last, outcome)},
            }

    def _landing(self, drone: int, index: int, outcome: str) -> str:
        """Where a flight ends: at the truck, or somewhere."""
        if outcome == "recovered":
            return self._where(index)
        return self._coordinates(self.world.drones.position[index, drone])

    def _drone_at(self, drone: int, index: int) -> Plan:
        """When, where, and with which charge a drone is."""
        drones = self.world.drones
        return {
            "time": self._moment(index),
            "position": self.scale.place(drones.position[index, drone]),
            "battery": _rounded(drones.battery[index, drone] / np.asarray(self.env.max_battery)),
        }

    def _delivery(self, index: int) -> Plan:
        """When a customer was served, after how long a wait there, how late, and with which charge left."""
        entry = self._customer(index)
        battery = self._drone_at(int(self.course.server[index]), int(self.course.served_at[index]))["battery"]
        return {name: entry[name] for name in ("customer", "time", "position", "waited", "late")} | {"battery": battery}

    def _customer(self, index: int) -> Plan:
        """What became of a customer; null where it was not served."""
        customer, served_at = self.map.customers[index], self.course.served_at[index]
        entry: Plan = {
            "customer": self.customers[index],
            "position": list(customer.position),
            "demand": customer.demand,
            "window": list(customer.window or (self.map.clock, self.map.horizon)),
        }
        if served_at < 0:
            return {**entry, **dict.fromkeys(("drone", "time", "waited", "late"))}
        time = self._moment(served_at)
        # A window ends with the last whole step in it, so that only a delivery that is late in steps is late.
        late = time - entry["window"][1] if self.course.steps_late[index] else 0.0
        waited = time - self._moment(served_at - self.course.steps_waited[index])
        server = self.course.server[index]
        drone = None if server == NOBODY else self.drones[server]
        return {**entry, "drone": drone, "time": time, "waited": _rounded(waited), "late": _rounded(late)}


def _late_words(fleet_map: FleetMap, customers: list[Plan]) -> Plan:
    """How many customers are late, and by how much in all; nothing if none is."""
    late = [each["late"] for each in customers if each["late"]]
    return {"late": f"{len(late)} of {len(customers)}, {fleet_map.amount('time')(sum(late))} in all"} if late else {}


def _event(start: float, end: float, vehicle: str, activity: str, where: str, at: list[float], **further: Any) -> Plan:
    event = {"start": start, "end": end, "who": vehicle, "what": activity, "where": where, "x": at[0], "y": at[1]}
    return {**dict.fromkeys(COLUMNS), **event, **further}


def _events_of(sortie: Plan) -> Iterator[Plan]:
    """The events of a flight, in order."""
    drone, launch, end = sortie["drone"], sortie["launch"], sortie["end"]
    time = launch["time"]
    yield _event(time, time, drone, "launch", launch["where"], launch["position"], battery=launch["battery"])
    for delivery in sortie["deliveries"]:
        time, customer, place = delivery["time"], delivery["customer"], delivery["position"]
        if delivery["waited"]:
            yield _event(time - delivery["waited"], time, drone, "wait", customer, place, customer=customer)
        charge = {"battery": delivery["battery"], "late": delivery["late"]}
        yield _event(time, time, drone, "deliver", customer, place, customer=customer, **charge)
    time, activity = end["time"], {"recovered": "board", "crashed": "crash"}.get(sortie["outcome"])
    if activity:
        yield _event(time, time, drone, activity, end["where"], end["position"], battery=end["battery"])


def _rounded(number: Any) -> float:
    """To the digits that `float32` has."""
    return float(f"{float(number):.6g}")


MOMENTS = ("start", "end", "time")
"""Keys of a plan whose numbers are moments."""


def _on_the_clock(fleet_map: FleetMap, value: Any) -> Any:
    """A part of a plan with times of the clock, `"08:05"`, where it has moments."""
    if isinstance(value, list):
        return [_on_the_clock(fleet_map, each) for each in value]
    if not isinstance(value, Mapping):
        return value
    found = {name: _on_the_clock(fleet_map, each) for name, each in value.items()}
    found |= {name: fleet_map.said(found[name]) for name in MOMENTS if isinstance(found.get(name), float)}
    if isinstance(window := found.get("window"), list):
        found["window"] = [fleet_map.said(each) for each in window]
    return found


class TruckDroneProblems(Problems[FleetMap]):
    """Maps of a user's own."""

    table, columns, vehicle = "events", COLUMNS, "who"
    environment = "vrpd_tw"

    def read(self, path: str | os.PathLike, **given: Any) -> list[FleetMap]:
        """The map of a file; errors as of `read_map`."""
        return [read_map(path, **given)]

    def of_case(self, case: Case) -> tuple[FleetMap, list[str]]:
        """The map of orders and a fleet; see `map_of_case`."""
        return map_of_case(case)

    def parameters(self, problem: FleetMap, env: TruckDrone) -> dict[str, Any]:
        """As `FleetMap.parameters`."""
        return problem.parameters(env)

    def instance(self, problem: FleetMap, env: TruckDrone) -> Instance:
        """As `FleetMap.instance`."""
        return problem.instance()

    def weighed(self, problem: FleetMap, env: TruckDrone) -> TruckDrone:
        """The environment that pays by the price of plans."""
        return planned(env)

    def cost_words(self, problem: FleetMap, env: TruckDrone, found: Searched) -> str:
        """Who is not served or late, the end, and the way of all vehicles; of another reward, the number."""
        if not isinstance(env, PlannedVrpdTw):
            return super().cost_words(problem, env, found)
        price, scale = Price(*map(float, found.figures["price"])), problem.whole_scale
        first = [f"{count:g} {fault}" for count, fault in ((price.undone, "undone"), (price.late, "late")) if count]
        way = problem.amount("length")(scale.distance(price.way))
        return ", ".join([*first, f"end {problem.said(scale.moment(price.end))}", f"{way} driven and flown"])

    def inspect(self, problem: FleetMap, env: TruckDrone) -> Inspection:
        """Figures and warnings of a map."""
        return inspect(problem, env)

    def plan(self, problem: FleetMap, episode: Episode) -> Plan:
        """The plan of an episode, a JSON object; its keys are described in `docs/your_map.md`.

        Args:
            problem: the map.
            episode: from its `instance()`; what follows the end is cut.

        Raises:
            ValueError: the states are of no or of several episodes.
        """
        course = course_of(episode)
        plan = _Planner(problem, course).plan()
        if isinstance(problem, CaseMap):
            plan["visits"] = in_json(visits_of(problem, plan))
        return course.env.extend_plan(plan, step_by_step(episode))

    def written(self, problem: FleetMap, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """A plan of a map with a start has times of the clock in the place of numbers."""
        return plan if problem.start is None else _on_the_clock(problem, plan)

    def columns_of(self, plan: Mapping[str, Any]) -> list[str]:
        """Those of events, and further keys that a scenario has added."""
        return [*COLUMNS, *_further(plan)]

    def sheets(self, problem: FleetMap, plan: Mapping[str, Any]) -> list[Sheet]:
        """A sheet for each vehicle: to drive by, or see `sheets_of`."""
        return sheets_to_drive_by(plan) if plan.get("visits") else sheets_of(problem, plan)


PROBLEMS = TruckDroneProblems()
