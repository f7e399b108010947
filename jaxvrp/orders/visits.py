"""What a plan comes to for those who drive it: visits in their order, and sheets of these to drive by."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxvrp.geography.earth import link
from jaxvrp.io.problems.plan_files import Link, Sheet
from jaxvrp.io.whole_files import write_csv
from jaxvrp.orders.orders import Point

TABLE = ("vehicle", "time", "what", "name", "address", "window", "load")
"""Of a visit, in a table for other programs; the place comes after them."""

STOPS = ("deliver", "pickup", "drop-off")
"""What is done at customers'."""

COLUMNS = ("time", "stop", "address", "window", "load", "next stop")


@dataclasses.dataclass(frozen=True)
class Visit:
    """A vehicle at a place.

    Attributes:
        vehicle: its name.
        is_drone: what it is.
        what: "load", "start", "home", one of `STOPS`, or what else is done there.
        name: of the customer, or of the place.
        place: kilometres.
        minute: of the day, since its start.
        time: the same in words.
        window: in words; "" for any time.
        load: that is delivered, or loaded, in its unit.
        address: what else is said of the place.
        degrees: its latitude and longitude, if they are known.
        way: kilometres of street to it from the visit before; None for a straight way.
        arrival: minutes, when the vehicle is there; None if that is not known.
        service: minutes that it stays from `minute` on.
        unit: of the load.
    """

    vehicle: str
    is_drone: bool
    what: str
    name: str
    place: Point
    minute: float
    time: str
    window: str = ""
    load: float = 0.0
    address: str = ""
    degrees: Point | None = None
    way: float | None = None
    arrival: float | None = None
    service: float = 0.0
    unit: str = "kg"


def in_json(visits: Iterable[Visit]) -> list[dict[str, Any]]:
    """Visits as part of a plan, see `Problems.plan`, under the key `visits`."""
    return [dataclasses.asdict(visit) for visit in visits]


def of_plan(plan: Mapping[str, Any]) -> list[Visit]:
    """The visits of a plan that has them."""
    return [Visit(**entry) for entry in plan.get("visits", ())]


def write_table(path: str | os.PathLike, plan: Mapping[str, Any]) -> None:
    """Write the visits of a plan as `.csv`, a line each, with latitude and longitude where they are known.

    Raises:
        OSError: the file cannot be written.
    """
    visits = of_plan(plan)
    rows = [[*(getattr(visit, name) for name in TABLE), *(visit.degrees or visit.place)] for visit in visits]
    names = ("lat", "lon") if any(visit.degrees for visit in visits) else ("x", "y")
    load = next((visit.unit for visit in visits if visit.unit), TABLE[-1])
    write_csv(path, [(*TABLE[:-1], load, *names), *rows])


def by_vehicle(plan: Mapping[str, Any]) -> dict[str, list[Visit]]:
    """The visits of each vehicle of a plan, also of those that have none."""
    visits = of_plan(plan)
    return {name: [visit for visit in visits if visit.vehicle == name] for name in plan["routes"]}


def sheets_to_drive_by(plan: Mapping[str, Any]) -> list[Sheet]:
    """A sheet for each vehicle of a plan with visits."""
    return [_sheet(name, visits) for name, visits in by_vehicle(plan).items()]


def _sheet(name: str, visits: Sequence[Visit]) -> Sheet:
    gaps = [
        math.dist(start.place, end.place) if end.way is None else end.way for start, end in itertools.pairwise(visits)
    ]
    rows = [_row(visit, gap) for visit, gap in zip(visits, [*gaps, 0.0], strict=False)]
    kept = [at for at in range(len(COLUMNS)) if any(row[at] for row in rows)]
    stops = sum(visit.what in STOPS for visit in visits)
    lines = "" if any(visit.way is not None for visit in visits) else " in straight lines"
    note = f"{stops} stop{'' if stops == 1 else 's'}, {sum(gaps):.1f} km{lines}" if visits else ""
    tour = tuple((visit.place, visit.what in STOPS) for visit in visits)
    table = tuple(tuple(row[at] for at in kept) for row in rows)
    return Sheet(name, note, tuple(COLUMNS[at] for at in kept), table, tour)


def _row(visit: Visit, gap: float) -> tuple[str | Link, ...]:
    stop = visit.name if visit.what == "deliver" else f"{visit.what}, {visit.name}"
    address = Link(visit.address or "map", link(visit.degrees)) if visit.degrees else visit.address
    load = f"{visit.load:g} {visit.unit}".rstrip() if visit.load else ""
    return visit.time, stop, address, visit.window, load, f"{gap:.1f} km" if gap else ""
