"""Problems in VROOM's JSON, as its API says it: jobs or shipments of vehicles from one depot, with a matrix.

Times are seconds, of any clock; distances metres; places longitude and latitude. What no problem here can say is
refused by its field.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.geography.earth import Earth
from jaxvrp.geography.street_files import StreetTable, streets_of
from jaxvrp.io.limits import LARGEST
from jaxvrp.io.schema import Check, all_of, anything, list_of, number_from, object_of_only, text, whole_number
from jaxvrp.orders.orders import Point

TIME, AMOUNT, PLACE = number_from(0), list_of(whole_number(), least=1), list_of(number_from(-LARGEST), length=2)
WINDOW = list_of(TIME, length=2)
NAMELESS = ("VROOM",)
"""In the place of names of formats: a file of VROOM names none, so one that does is not parsed as such."""


def unsaid(value: Any, where: str) -> None:
    """Refuse a field of VROOM that problems here have no words for, unless it says nothing."""
    if value not in (0, [], {}):
        raise ValueError(f"{where}: plans here know nothing of it; leave it out")


STEP: dict[str, Check] = {
    "description": text,
    "location": PLACE,
    "location_index": whole_number(),
    "service": TIME,
    "time_windows": list_of(WINDOW, least=1),
    **dict.fromkeys(("setup", "setup_per_type", "service_per_type"), unsaid),
}
PRIORITY = whole_number(below=101)
OF_JOBS = {"delivery": AMOUNT, "priority": PRIORITY, **dict.fromkeys(("skills", "pickup", "amount"), unsaid)}
JOB = object_of_only({"id": whole_number()}, STEP | OF_JOBS)
SHIPMENT_STEP = object_of_only({"id": whole_number()}, STEP)
SHIPMENT = object_of_only(
    {"pickup": SHIPMENT_STEP, "delivery": SHIPMENT_STEP},
    {"skills": unsaid, "priority": all_of(PRIORITY, unsaid), "amount": AMOUNT},
)
VEHICLE = object_of_only(
    {"id": whole_number()},
    {
        **dict.fromkeys(("profile", "description", "type"), text),
        **dict.fromkeys(("start", "end"), PLACE),
        **dict.fromkeys(("start_index", "end_index"), whole_number()),
        "capacity": AMOUNT,
        "time_window": WINDOW,
        "speed_factor": number_from(0, with_least=False),
        **dict.fromkeys(("costs", "skills", "breaks", "steps"), unsaid),
        **dict.fromkeys(("max_tasks", "max_travel_time", "max_distance"), unsaid),
    },
)
CONTENT = object_of_only(
    {"vehicles": list_of(VEHICLE, least=1)},
    {"jobs": list_of(JOB), "shipments": list_of(SHIPMENT), "matrices": anything},
)


@dataclasses.dataclass(frozen=True)
class Task:
    """A stop of a job or of a shipment, or the depot.

    Attributes:
        where: it stands in its file, for messages.
        id: its number; that of a shipment is its pickup's.
        description: what else is said of it.
        place: latitude and longitude.
        row: of the matrices.
        service: seconds.
        window: seconds, from when to when service may begin.
        amount: that is brought, or picked up; None if it is not said.
        priority: from 0.
    """

    where: str
    id: int
    description: str
    place: Point
    row: int
    service: float = 0.0
    window: tuple[float, float] = (0.0, math.inf)
    amount: int | None = None
    priority: int = 0


@dataclasses.dataclass(frozen=True)
class Driver:
    """A vehicle: its number, what it holds, None for all, and until when it is home, in seconds; inf for no limit."""

    where: str
    id: int
    capacity: int | None
    closes: float


@dataclasses.dataclass(frozen=True)
class Tour:
    """A file of VROOM: vehicles that leave one depot from `opens` on, in seconds, and `streets` of all its rows.

    `tasks` are jobs, or pickups and their deliveries in turn.
    """

    drivers: tuple[Driver, ...]
    depot: Task
    opens: float
    tasks: tuple[Task, ...]
    streets: StreetTable

    @property
    def places(self) -> tuple[np.ndarray, Earth]:
        """Kilometres of the depot and the tasks, `f64[n + 1, 2]`, on a plane that touches the earth.

        Raises:
            ValueError: they span too much.
        """
        degrees = np.array([self.depot.place, *(task.place for task in self.tasks)])
        earth = Earth.around(degrees)
        return earth.flat(degrees), earth

    @property
    def ways(self) -> StreetTable:
        """From the depot and each task to each."""
        return self.streets.at([self.depot.row, *(task.row for task in self.tasks)])


def is_vroom(content: Any) -> bool:
    """Whether a JSON value looks like a problem of VROOM."""
    return isinstance(content, dict) and "format" not in content and bool(content.keys() & {"jobs", "shipments"})


def parse_tour(content: Mapping[str, Any], kind: str) -> Tour:
    """What a JSON value says, of which `kind`: "jobs" or "shipments".

    Raises:
        ValueError: it is no problem of VROOM, or says what no problem here can; one line that names the field.
    """
    CONTENT(content, "")
    other = "jobs" if kind == "shipments" else "shipments"
    if content.get(other):
        raise ValueError(f"{other}: jobs and shipments are not planned together here; plan one after the other")
    if not content.get(kind):
        raise ValueError(f"{kind} is empty; give at least one")
    vehicles = content["vehicles"]
    drivers = tuple(_driver(vehicle, f"vehicles[{index}]", vehicles[0]) for index, vehicle in enumerate(vehicles))
    depot = Task("vehicles[0]", 0, "", _degrees(vehicles[0], "start", "vehicles[0]"), vehicles[0].get("start_index", 0))
    tour = Tour(
        drivers,
        depot,
        float(vehicles[0].get("time_window", (0, 0))[0]),
        tuple(_tasks(content[kind], kind)),
        _streets(content, vehicles[0].get("profile", "car")),
    )
    _refuse_wrong(tour, vehicles)
    return tour


def _streets(content: Mapping[str, Any], profile: str) -> StreetTable:
    if "matrices" not in content:
        raise ValueError(f"matrices is missing: no router is asked here; give matrices.{profile}.durations")
    table = streets_of(content["matrices"], profile)
    if "costs" in content["matrices"][profile]:
        raise ValueError(f"matrices.{profile}.costs: plans here take the least time; leave it out")
    return table


def _driver(vehicle: Mapping[str, Any], where: str, first: Mapping[str, Any]) -> Driver:
    for end in ("start", "end"):
        if end not in vehicle:
            raise ValueError(f"{where}.{end} is missing: routes begin and end at a depot here; give it as [lon, lat]")
        if (vehicle[end], vehicle.get(f"{end}_index")) != (first["start"], first.get("start_index")):
            raise ValueError(f"{where}.{end} is not vehicles[0].start; all begin and end at one depot here")
    if vehicle.get("speed_factor", 1) != 1:
        raise ValueError(f"{where}.speed_factor: all take the times of the matrix here; leave it out")
    if vehicle.get("profile", "car") != first.get("profile", "car"):
        raise ValueError(f"{where}.profile is not that of vehicles[0]; all drive along one matrix here")
    opens, closes = vehicle.get("time_window", (0.0, math.inf))
    if opens != first.get("time_window", (0,))[0]:
        raise ValueError(f"{where}.time_window begins at another time than that of vehicles[0]; all begin at once here")
    return Driver(where, vehicle["id"], _amount(vehicle, "capacity", where), float(closes))


def _tasks(entries: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Task]:
    for index, entry in enumerate(entries):
        where = f"{kind}[{index}]"
        if kind == "jobs":
            yield _task(entry, where, _amount(entry, "delivery", where))
        else:
            amount = _amount(entry, "amount", where)
            yield from (_task(entry[end], f"{where}.{end}", amount) for end in ("pickup", "delivery"))


def _task(step: Mapping[str, Any], where: str, amount: int | None) -> Task:
    windows = step.get("time_windows", [(0.0, math.inf)])
    if len(windows) > 1:
        raise ValueError(f"{where}.time_windows has {len(windows)} windows; a stop has one here")
    (earliest, latest), index = windows[0], step.get("location_index")
    if latest < earliest:
        raise ValueError(f"{where}.time_windows[0] ends at {latest:g}, before it begins at {earliest:g}; correct it")
    if index is None:
        raise ValueError(f"{where}.location_index is missing; give its row of the matrix")
    place = _degrees(step, "location", where)
    service, said, priority = float(step.get("service", 0.0)), step.get("description", ""), step.get("priority", 0)
    return Task(where, step["id"], said, place, index, service, (float(earliest), float(latest)), amount, priority)


def _degrees(entry: Mapping[str, Any], name: str, where: str) -> Point:
    """Latitude and longitude."""
    if name not in entry:
        raise ValueError(f"{where}.{name} is missing: places are drawn, also with a matrix; give [lon, lat]")
    longitude, latitude = entry[name]
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        raise ValueError(f"{where}.{name} is [{longitude:g}, {latitude:g}]; give longitude, then latitude")
    return float(latitude), float(longitude)


def _amount(entry: Mapping[str, Any], name: str, where: str) -> int | None:
    amounts = entry.get(name)
    if amounts is not None and len(amounts) > 1:
        raise ValueError(f"{where}.{name} has {len(amounts)} amounts; one is counted here")
    if amounts == [0]:
        raise ValueError(f"{where}.{name} is 0; give at least 1")
    return amounts[0] if amounts else None


def _refuse_wrong(tour: Tour, vehicles: Sequence[Mapping[str, Any]]) -> None:
    """Refuse rows beyond the matrix, ids that stand twice, and windows that are over when vehicles begin."""
    if "start_index" not in vehicles[0]:
        raise ValueError("vehicles[0].start_index is missing; give its row of the matrix")
    size, seen = len(tour.streets.seconds), dict[tuple[str, int], str]()
    for task in (tour.depot, *tour.tasks):
        if task.row >= size:
            field = "start_index" if task is tour.depot else "location_index"
            raise ValueError(f"{task.where}.{field} is {task.row}; the matrix has {size} rows, 0 to {size - 1}")
        if task.window[1] < tour.opens:
            raise ValueError(f"{task.where}.time_windows ends at {task.window[1]:g}, before vehicles begin; correct it")
    numbered: list[Task | Driver] = [*tour.tasks, *tour.drivers]
    for each in numbered:
        kind = "".join(letter for letter in each.where if not letter.isdigit())
        if (first := seen.setdefault((kind, each.id), each.where)) != each.where:
            raise ValueError(f"{each.where}.id is {each.id}, as that of {first}; rename one")
