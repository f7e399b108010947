"""The check of plans of a truck with several drones, in NumPy and `float64`; it uses neither the rules nor the masks.

A plan is a list of tasks of the driver, in their order. Everything happens as early as possible, with one exception:
the last launch before the truck waits for a drone at the same stop, none recovered in between, is held back by as much
of this wait as the drone that is launched would hover otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxvrp.envs.flying_sidekicks.instance import LATENESS, Instance
from jaxvrp.envs.truck_and_drone.ways import TRUCK, Leg, Service, Wait, Ways
from jaxvrp.io.messages import shown
from jaxvrp.io.problems.violations import PlanReport, node_of, violations_of

TASKS = DRIVE, SERVE, LAUNCH, RECOVER = "drive", "serve", "launch", "recover"
WAIT, FLY, HOVER = "wait", "fly", "hover"


def name_of_drone(drone: int) -> str:
    """A drone in words."""
    return f"drone {drone + 1}"


class Task(NamedTuple):
    """What the driver does."""

    kind: str  # `"drive"`, `"serve"`, `"launch"` or `"recover"`
    node: int  # where the truck drives, or serves; the customer that a drone is launched to, or comes from
    drone: int | None = None


CONSTRAINTS = (
    "unserved",  # a customer that neither the truck nor a drone serves
    "unknown_node",  # an index that is no node or drone of the instance, or padding; the task is left out
    "duplicates",  # a customer that is served, or driven to, again
    # Service of a customer where the truck is not; any task but a recovery after the return to the depot.
    "wrong_place",
    "busy_drone",  # a launch of a drone that is away, or the recovery of one that is not at this customer
    "same_stop",  # a recovery at the stop of the launch
    "no_fly",  # a customer that the drone may not serve
    "endurance",  # a flight that takes more than the endurance of its drone; named by its customer
    "open_tour",  # the truck does not return to the depot (0), or a drone is still away, named by its customer
)
"""What is checked, in the order of a report."""


class Event(NamedTuple):
    """What the truck, or a drone, does between two times; of a drone that flies, `node` is where it arrives."""

    who: str  # `"truck"`, or `"drone 1"` and on
    does: str  # drive, serve, launch, recover, wait; fly, hover
    begin: float
    end: float
    node: int
    drone: str | None = None  # that the truck launches, recovers or waits for


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FlightsReport(PlanReport):
    """What `flights_report` found; `cost` is the makespan, when the last task is over."""

    events: tuple[Event, ...]  # by their begin
    ways: Ways  # the same


def flights_report(instance: Instance, tasks: Sequence[Task], *, strict: bool = False) -> FlightsReport:
    """Check a plan, see the module.

    Raises:
        ValueError: the instance is a batch, a task is of no known kind, or a node or drone is no whole number; with
            `strict`, the violated constraints.
    """
    if np.ndim(instance.exists) != 1:
        raise ValueError(f"exists has shape {np.shape(instance.exists)}; give one instance of the batch at a time")
    check = _Check(instance)
    for number, (kind, node, drone) in enumerate(tasks):
        place = f"tasks[{number}]"
        if kind not in TASKS:
            raise ValueError(f"{place}.kind is {shown(kind)}; it must be one of {', '.join(TASKS)}")
        numbered = None if drone is None else node_of(drone, f"{place}.drone")
        check.follow(Task(kind, node_of(node, f"{place}.node"), numbered))
    check.close()
    events = tuple(sorted(check.truck + check.drones, key=lambda event: (event.begin, event.end)))
    report = FlightsReport(
        cost=check.clock,
        events=events,
        ways=_ways(events, [name_of_drone(drone) for drone in range(instance.num_drones)]),
        violations=violations_of(check.found),
    )
    return report.checked(strict)


def _ways(events: Sequence[Event], drones: Sequence[str]) -> Ways:
    """Ways of all vehicles; the truck carries the drones that it has not launched."""
    place: dict[str, int] = {}
    away: set[str] = set()
    legs = []
    for event in events:
        if event.drone is not None and event.does == LAUNCH:
            away.add(event.drone)
            place[event.drone] = event.node
        elif event.drone is not None:
            away.discard(event.drone)
        if event.does in (DRIVE, FLY):
            aboard = tuple(each for each in drones if each not in away) if event.who == TRUCK else ()
            legs.append(Leg(event.who, place.get(event.who, 0), event.node, event.begin, event.end, aboard))
            place[event.who] = event.node
    stands = (event for event in events if event.does in (WAIT, HOVER))
    served = (event for event in events if event.does == SERVE)
    return Ways(
        tuple(legs),
        tuple(Wait(event.who, event.node, event.begin, event.end) for event in stands),
        tuple(Service(0, event.who, event.node, event.begin, event.begin, event.end) for event in served),
    )


@dataclasses.dataclass
class _Flight:
    """A drone that is away."""

    customer: int
    stop: int  # how many stops there were before
    begin: float
    arrive: float  # at its customer
    leave: float
    used: float
    launch: int  # number of the launch among what the truck does
    wait: int = 0  # likewise, of the wait for which it can be held back, if `spared` is not 0
    spared: float = 0.0  # this wait


class _Check:
    """One plan on the way: what was found so far."""

    def __init__(self, instance: Instance):
        self.instance = instance
        self.nodes = set(np.flatnonzero(np.asarray(instance.exists)).tolist())
        self.found: dict[str, list[int]] = {name: [] for name in CONSTRAINTS}
        self.truck: list[Event] = []
        self.drones: list[Event] = []
        self.clock, self.here, self.stops = 0.0, 0, 0
        self.held: _Flight | None = None
        self.is_home = False
        self.visited, self.served = {0}, {0}
        self.flights: dict[int, _Flight] = {}

    def follow(self, task: Task) -> None:
        drones = {None} if task.kind in (DRIVE, SERVE) else set(range(self.instance.num_drones))
        if task.node not in self.nodes or task.drone not in drones:
            self.found["unknown_node"].append(task.node)
            return
        if self.is_home and task.kind != RECOVER:
            self.found["wrong_place"].append(task.node)
        {DRIVE: self._drive, SERVE: self._serve, LAUNCH: self._launch, RECOVER: self._recover}[task.kind](task)

    def _drive(self, task: Task) -> None:
        if task.node in self.visited and task.node != 0:
            self.found["duplicates"].append(task.node)
        self._take("drive", float(self.instance.truck_time[self.here, task.node]), task.node)
        self.here, self.stops, self.is_home, self.held = task.node, self.stops + 1, task.node == 0, None
        self.visited.add(task.node)

    def _serve(self, task: Task) -> None:
        if task.node != self.here or task.node == 0:
            self.found["wrong_place"].append(task.node)
        elif task.node in self.served:
            self.found["duplicates"].append(task.node)
        self.served.add(task.node)
        self._take("serve", float(self.instance.service[task.node]), task.node)

    def _launch(self, task: Task) -> None:
        given, drone, customer = self.instance, task.drone, task.node
        assert drone is not None
        if drone in self.flights:
            self.found["busy_drone"].append(customer)
        if customer in self.visited:
            self.found["duplicates"].append(customer)
        if given.no_fly[drone, customer]:
            self.found["no_fly"].append(customer)
        self.visited.add(customer)
        self.served.add(customer)
        self._take("launch", float(given.launch_time[drone]), self.here, drone)
        arrive = self.clock + float(given.drone_time[drone, self.here, customer])
        leave = arrive + float(given.drone_service[drone])
        used = float(given.drain_out[drone, self.here, customer])
        self.held = _Flight(customer, self.stops, self.clock, arrive, leave, used, len(self.truck) - 1)
        self.flights[drone] = self.held

    def _recover(self, task: Task) -> None:
        given, drone = self.instance, task.drone
        assert drone is not None
        flight = self.flights.get(drone)
        if flight is None or flight.customer != task.node:
            self.found["busy_drone"].append(task.node)
            return
        del self.flights[drone]
        if flight.stop == self.stops:
            self.found["same_stop"].append(task.node)
        arrive = flight.leave + float(given.drone_time[drone, task.node, self.here])
        wait = max(arrive - self.clock, 0.0)
        if self.held is not None:
            self.held.spared, self.held.wait, self.held = wait, len(self.truck), None
        held = min(flight.spared, max(self.clock - arrive, 0.0))
        hover = max(self.clock - arrive - held, 0.0)
        used = flight.used + float(given.drain_back[drone, task.node, self.here]) + hover
        # The rules compute in `float32`, and grant half of this.
        if used > float(given.endurance[drone]) * (1 + 2 * LATENESS):
            self.found["endurance"].append(task.node)
        if held > 0:
            self._hold_back(flight, held)
        self._fly(drone, flight, held, arrive)
        self._take("wait", wait, self.here, drone)
        self._take("recover", float(given.recovery_time[drone]), self.here, drone)

    def _hold_back(self, flight: _Flight, held: float) -> None:
        """The truck waits `held` before a launch instead of after it."""
        for number in range(flight.launch, flight.wait):
            event = self.truck[number]
            self.truck[number] = event._replace(begin=event.begin + held, end=event.end + held)
        self.truck[flight.wait] = self.truck[flight.wait]._replace(begin=self.truck[flight.wait].begin + held)

    def _fly(self, drone: int, flight: _Flight, held: float, arrive: float) -> None:
        """What the drone did, launched `held` later than it could be, until it is back at the truck."""
        name = name_of_drone(drone)
        times = [time + held for time in (flight.begin, flight.arrive, flight.leave, arrive)]
        times.append(max(times[-1], self.clock))
        legs = (("fly", flight.customer), ("serve", flight.customer), ("fly", self.here), ("hover", self.here))
        for (does, node), begin, end in zip(legs, times[:-1], times[1:], strict=True):
            if does == "fly" or end > begin:
                self.drones.append(Event(name, does, begin, end, node))

    def _take(self, does: str, time: float, node: int, drone: int | None = None) -> None:
        """The truck does something for a time."""
        if does != "wait" or time > 0:
            name = None if drone is None else name_of_drone(drone)
            self.truck.append(Event("truck", does, self.clock, self.clock + time, node, name))
        self.clock += time

    def close(self) -> None:
        """What is left open."""
        if not self.is_home and self.nodes != {0}:
            self.found["open_tour"].append(0)
        self.found["open_tour"] += [flight.customer for flight in self.flights.values()]
        self.found["unserved"] = sorted(self.nodes - self.served)
