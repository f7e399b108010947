"""Customers and a fleet as plain data, whatever files they come from: kilometres, minutes since the start, kg."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence

import numpy as np

from jaxvrp.geography.earth import WIDEST, Earth
from jaxvrp.geography.street_files import StreetTable
from jaxvrp.io.clock import MINUTES, Clock

Point = tuple[float, float]

NEAR = 3.0
"""A place that is out of sight, and is so many times nearer with its numbers exchanged, has them exchanged."""


@dataclasses.dataclass(frozen=True)
class Order:
    """A customer who waits for a parcel.

    Attributes:
        name: of the customer, unique.
        place: latitude and longitude, or x and y in kilometres.
        where: where it stands in its file, for messages: "line 3".
        earliest, latest: of the delivery: a clock time, or minutes since the start of the day.
        known: likewise, from when on it is known.
        load: kilograms.
        service: minutes of the stop; None as the fleet says.
        address: what else is said of the place.
    """

    name: str
    place: Point
    where: str
    earliest: str | float | None = None
    latest: str | float | None = None
    known: str | float | None = None
    load: float | None = None
    service: float | None = None
    address: str = ""


@dataclasses.dataclass(frozen=True)
class Orders:
    """All customers of a file; `ignored` are columns or properties of it that say nothing here."""

    path: str | os.PathLike
    orders: tuple[Order, ...]
    is_degrees: bool
    ignored: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Kind:
    """Vehicles of one kind.

    Attributes:
        count: of them.
        speed: km/h.
        capacity: kilograms.
        range: kilometres of a flight; inf for no limit.
        stop: minutes of a stop.
        turnaround: minutes at the depot between two trips.
        detour: kilometres to drive for a straight one.
    """

    count: int = 0
    speed: float = 30.0
    capacity: float = math.inf
    range: float = math.inf
    stop: float = 0.0
    turnaround: float = 0.0
    detour: float = 1.0


@dataclasses.dataclass(frozen=True)
class Fleet:
    """Depot, day and vehicles; `carried`: the van carries the drones, which else fly from the depot.

    `streets`: what vans drive along, from the depot (row 0) and each customer in their file's order; None: straight.
    """

    path: str | os.PathLike
    depot: Point
    is_degrees: bool
    clock: Clock
    horizon: float
    vans: Kind
    drones: Kind
    carried: bool
    streets: StreetTable | None = None

    @property
    def choice(self) -> tuple[str, str]:
        """The environment that plays such a day, and why."""
        if self.carried:
            return "vrpd_tw", f"one van carries its {self.drones.count} drones"
        vans = f"{self.vans.count} van{'' if self.vans.count == 1 else 's'}"
        drones = f" and {self.drones.count} drone{'' if self.drones.count == 1 else 's'}" if self.drones.count else ""
        are = "starts" if self.vans.count == 1 and not drones else "start"
        return "dispatch", f"{vans}{drones} {are} from a depot"


@dataclasses.dataclass(frozen=True)
class Stop:
    """An order in kilometres and minutes since the start of the day; `latest` may be the end of the day."""

    name: str
    place: Point
    earliest: float
    latest: float
    known: float
    load: float
    service: float | None
    address: str


@dataclasses.dataclass(frozen=True)
class Case:
    """Orders and fleet on one plane and one clock: what an environment makes its problem of.

    Attributes:
        title: of the problem.
        fleet: the vehicles.
        depot: kilometres.
        stops: the customers.
        earth: of the plane; None if places were given in kilometres.
        cut: customers whose window reaches beyond the day, of which the rest does not count.
    """

    title: str
    fleet: Fleet
    depot: Point
    stops: tuple[Stop, ...]
    earth: Earth | None
    cut: tuple[str, ...] = ()


def case_of(orders: Orders, fleet: Fleet) -> Case:
    """Orders and a fleet, together.

    Raises:
        ValueError: they do not fit together; one line that names the file and the place in it.
    """
    customers = [order.name for order in orders.orders]
    streets = fleet.streets and fleet.streets.in_order(customers, f"{fleet.path}: vans.matrix")
    fleet = dataclasses.replace(fleet, streets=streets)
    count, rows = len(orders.orders), len(fleet.streets.seconds) if fleet.streets else None
    if rows not in (None, count + 1):
        raise ValueError(
            f"{fleet.path}: vans.matrix has {rows} rows; it needs {count + 1}: one for the depot, then one for each of "
            f"the {count} customers of {orders.path}, in their order"
        )
    if orders.is_degrees != fleet.is_degrees:
        orders_unit, fleet_unit = ("degrees", "kilometres")[:: 1 if orders.is_degrees else -1]
        raise ValueError(f"{fleet.path}: depot is in {fleet_unit}, and {orders.path} in {orders_unit}; give both alike")
    given = np.array([fleet.depot, *(order.place for order in orders.orders)])
    earth = _earth(orders, fleet, given) if orders.is_degrees else None
    places = [(float(x), float(y)) for x, y in (earth.flat(given) if earth else given)]
    stops = [_stop(orders, order, place, fleet) for order, place in zip(orders.orders, places[1:], strict=True)]
    cut = tuple(order.name for order in orders.orders if _reaches_beyond(order, fleet))
    return Case(os.path.basename(orders.path), fleet, places[0], tuple(stops), earth, cut)


def _earth(orders: Orders, fleet: Fleet, degrees: np.ndarray) -> Earth:
    _refuse_exchanged(orders, fleet)
    try:
        return Earth.around(degrees)
    except ValueError as error:
        raise ValueError(f"{orders.path}: {error}") from None


def _reaches_beyond(order: Order, fleet: Fleet) -> bool:
    """Whether the window of an order begins before the day, or ends after it."""
    earliest, latest = (_minutes(value, fleet) for value in (order.earliest, order.latest))
    return (earliest or 0.0) < 0 or (latest or 0.0) > fleet.horizon


def _stop(orders: Orders, order: Order, place: Point, fleet: Fleet) -> Stop:
    """An order on the plane and on the clock of the day."""
    where = f"{orders.path}, {order.where}: the window of {order.name}"
    known, earliest, latest = (_minutes(value, fleet) for value in (order.known, order.earliest, order.latest))
    earliest, latest = earliest or 0.0, fleet.horizon if latest is None else latest
    if latest < earliest:
        ends, begins = _words(order.latest), _words(order.earliest)
        raise ValueError(f"{where} ends at {ends}, before it begins at {begins}; correct one of them")
    if latest < 0 or earliest > fleet.horizon:
        day = f"{fleet.clock.shown(0)} to {fleet.clock.shown(fleet.horizon)}"
        asked = f"{_words(order.earliest)} to {_words(order.latest)}"
        raise ValueError(f"{where}, {asked}, is not in the day, {day}; correct it, or start and end of the fleet")
    load = 1.0 if order.load is None else order.load
    window = max(earliest, 0.0), min(latest, fleet.horizon)
    return Stop(order.name, place, *window, max(known or 0.0, 0.0), load, order.service, order.address)


def _minutes(value: str | float | None, fleet: Fleet) -> float | None:
    """Minutes since the start; below 0 for a clock time out of the day that is nearer to its start than to its end."""
    if not isinstance(value, str):
        return value
    minutes = fleet.clock.since(value)
    return minutes - MINUTES if 0 < MINUTES - minutes < minutes - fleet.horizon else minutes


def _words(value: str | float | None) -> str:
    return "any time" if value is None else value if isinstance(value, str) else f"{value:g} min"


def _refuse_exchanged(orders: Orders, fleet: Fleet) -> None:
    """Raise a ValueError for latitude and longitude that are exchanged: near the depot, if they were the other way."""
    depot, far = np.array(fleet.depot), []
    for order in orders.orders:
        place = np.array(order.place)
        gap, exchanged = (np.abs(each - depot).max() for each in (place, place[::-1]))
        if gap > 1.0 and NEAR * exchanged < gap:
            raise ValueError(
                f"{orders.path}, {order.where}: latitude {place[0]:g} and longitude {place[1]:g} of {order.name} lie "
                f"far from the depot, {depot[0]:g} and {depot[1]:g}, and near it if exchanged; exchange the two "
                "columns, or those of the depot"
            )
        far += [order] if abs(place[0] - depot[0]) * 111 > WIDEST else []
    if far:
        raise ValueError(
            f"{orders.path}, {far[0].where}: {far[0].name} lies more than {WIDEST:g} km from the depot, at latitude "
            f"{far[0].place[0]:g}; correct it, or the depot"
        )


def refuse_same_names(path: str | os.PathLike, orders: Sequence[Order]) -> None:
    """Raise a ValueError, one line, if two orders have one name."""
    seen: dict[str, Order] = {}
    for order in orders:
        if (first := seen.setdefault(order.name, order)) is not order:
            raise ValueError(f"{path}, {order.where}: id '{order.name}' is that of {first.where}, too; rename one")
