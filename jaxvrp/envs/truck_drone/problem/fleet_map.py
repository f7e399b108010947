"""A truck-and-drones problem in the user's own units: places, windows, demands, fleet; and in the simulator's.

The simulator counts in map units, steps and full charges. A map says how long a map unit and a step are (`Scale`), and
everything else in its own units. Plans are in these units, with the names of the map.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.fields import ABSENT
from jaxvrp.io import messages
from jaxvrp.io.clock import clock_at
from jaxvrp.io.limits import LARGEST
from jaxvrp.io.messages import shown
from jaxvrp.io.problems.origin import FAR_IN_TIME, origin_of
from jaxvrp.io.schema import list_of, number_from, object_of_only, optional, text
from jaxvrp.io.units import TIMES

STEPS = 200
"""Steps of the horizon, if `Scale.time` is left out: as in the default environment, which policies were trained in."""

REACH = 0.8
"""Map units from the centre to the outermost place, along x or y, if `Scale.length` is left out: as in generated
problems."""

FARTHEST = 1000
"""Map units, and demands: beyond, `float32` is too coarse for `delivery_threshold`."""

FEWEST_STEPS, MOST_STEPS = 4, 10_000
"""Steps that an episode may have."""

ROUNDING = 1e-6
"""Steps: a number nearer to a whole one than this stands for it."""

Positive = Annotated[float, number_from(0, with_least=False)]
NotNegative = Annotated[float, number_from(0)]
Endless = Annotated[float, optional(number_from(0, with_least=False))]
"""Null in a file is inf in a map; of another field with a default it is the same as leaving it out."""

Point = Annotated[tuple[float, float], list_of(number_from(-LARGEST), length=2)]
Window = Annotated[tuple[float, float], list_of(number_from(0), length=2)]
Name = Annotated[str, text]
Units = Annotated[dict[str, str], object_of_only({}, {"length": text, "time": text, "demand": text})]
"""Types of the fields of a map, each with the check of its value in a file."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How the units of a map become those of the simulator; None is worked out, see `FleetMap.whole_scale`."""

    length: Positive | None = None  # length units of a map unit
    center: Point | None = None  # the place of the origin
    time: Positive | None = None  # time units of a step
    demand: Positive | None = None  # demand units of a demand of 1


@dataclasses.dataclass(frozen=True)
class WholeScale:
    """A `Scale` with nothing left out."""

    length: float
    center: Point
    time: float
    demand: float
    clock: float  # when the episode begins, in time units

    def place(self, position: ArrayLike) -> list[float]:
        """A place of the simulator (`f32[2]`, map units) in the units of the map, to a millionth of a map unit."""
        numbers = np.asarray(position, np.float64) * self.length + np.asarray(self.center)
        return [round(float(number), self._decimals) + 0.0 for number in numbers]  # no -0

    def moment(self, step: ArrayLike) -> float:
        """When a step ends, in the units of the map."""
        return self.clock + float(f"{int(np.asarray(step)) * self.time:.12g}")

    def distance(self, length: ArrayLike) -> float:
        """A length in map units in the units of the map, to a millionth of a map unit."""
        return round(float(np.asarray(length)) * self.length, self._decimals)

    @property
    def _decimals(self) -> int:
        """Decimals to which lengths are rounded: those that `float32` holds."""
        return 6 - math.floor(math.log10(self.length))


@dataclasses.dataclass(frozen=True)
class Truck:
    """The truck: where it starts, with all drones on board, and length units per time unit."""

    position: Point
    speed: NotNegative
    id: Name | None = None


@dataclasses.dataclass(frozen=True)
class Node:
    """A place that the truck can drive to."""

    position: Point
    id: Name | None = None


@dataclasses.dataclass(frozen=True)
class Customer:
    """A customer that waits for a package."""

    position: Point  # length units
    demand: NotNegative  # size of the package
    window: Window | None = None  # first and last time of the delivery; None for any
    known_from: NotNegative | None = None  # the time from which agents know of the customer
    id: Name | None = None


@dataclasses.dataclass(frozen=True)
class Drone:
    """A drone; None is as in the environment."""

    speed: NotNegative  # length units per time unit
    range: Endless  # length units of a flight on a full charge without a package; inf for no limit
    hover_time: Endless | None = None  # time units in the air without moving on a full charge; inf for no limit
    recharge_time: Endless | None = None  # time units from empty to full on the truck; inf for never
    payload_factor: NotNegative | None = None  # share by which it draws more with a package of demand `Scale.demand`
    capacity: Positive | None = None  # the largest demand that it can carry
    id: Name | None = None


@dataclasses.dataclass(frozen=True)
class Reach:
    """Length units within which a drone serves a customer, and within which the truck takes a drone in."""

    delivery: Positive | None = None
    recovery: NotNegative | None = None


@dataclasses.dataclass(frozen=True)
class FleetMap:
    """A problem of the user's own; checked when it is made.

    Attributes:
        horizon: time units until the episode ends.
        truck: its start and speed.
        customers, drones: at least one each.
        nodes: where the truck can stop; if none are given, where it starts and at each customer's.
        scale: how units become those of the simulator.
        reach: distances of delivery and recovery.
        units: names of the units of length, time and demand.
        name: of the problem.
        start: the time of the clock at 0, "08:00"; then times are shown on that clock, and may be written so in a file.

    Raises:
        ValueError: one line with the field that is wrong.
    """

    horizon: Positive
    truck: Truck
    customers: tuple[Customer, ...]
    drones: tuple[Drone, ...]
    nodes: tuple[Node, ...] = ()
    scale: Scale = Scale()
    reach: Reach = Reach()
    units: Units = dataclasses.field(default_factory=dict)
    name: Name = ""
    start: Name | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            clock_at(self.start, "start")
        if not self.nodes:
            object.__setattr__(self, "nodes", self._places())
        for field in ("nodes", "customers", "drones"):
            _refuse_same_names(field, self.names(field))
        _refuse_mixed_fleet(self.drones)
        capacities = [math.inf if drone.capacity is None else drone.capacity for drone in self.drones]
        weakest = min(enumerate(capacities), key=lambda each: each[1])
        for index, customer in enumerate(self.customers):
            self._check_customer(f"customers[{index}]", customer, weakest)
        if not FEWEST_STEPS <= self.max_steps <= MOST_STEPS:
            raise ValueError(
                f"horizon: {self.duration:g} is {self.max_steps} steps of {self.whole_scale.time:g}; it must be "
                f"{FEWEST_STEPS} to {MOST_STEPS}: change scale.time"
            )
        self.instance()

    def _places(self) -> tuple[Node, ...]:
        """Where the truck starts, and each place of customers, by the name of the last one there."""
        names = zip(self.customers, self.names("customers"), strict=True)
        places = {self.truck.position: "depot"} | {each.position: f"at {name}" for each, name in names}
        return tuple(Node(place, name) for place, name in {**places, self.truck.position: "depot"}.items())

    def _check_customer(self, place: str, customer: Customer, weakest: tuple[int, float]) -> None:
        """Raise a ValueError if there can be no such customer; `weakest` is the drone that carries least, and what."""
        start, end = customer.window or (0.0, self.horizon)
        if end < start:
            raise ValueError(f"{place}.window: end {end:g} before start {start:g}")
        if end > self.horizon:
            raise ValueError(f"{place}.window: end {end:g} after the horizon {self.horizon:g}")
        if customer.known_from is not None and customer.known_from > self.horizon:
            raise ValueError(f"{place}.known_from: {customer.known_from:g} after the horizon {self.horizon:g}")
        index, capacity = weakest
        if customer.demand > capacity:
            raise ValueError(
                f"{place}.demand: {customer.demand:g} is more than drones[{index}] carries "
                f"({capacity:g}); any drone may be sent to any customer"
            )

    @property
    def whole_scale(self) -> WholeScale:
        """The scale, with defaults for what was left out.

        The centre is that of all places, the outermost of which lie `REACH` map units away; the horizon has `STEPS`
        steps; demands stay as they are.

        Raises:
            ValueError: all places are one, so that no length follows.
        """
        scale = self.scale
        nodes, customers = ([entry.position for entry in entries] for entries in (self.nodes, self.customers))
        places = np.array([self.truck.position, *nodes, *customers])
        low, high = places.min(axis=0), places.max(axis=0)
        center = scale.center or tuple(((low + high) / 2).tolist())
        length = scale.length or float(np.abs(places - np.array(center)).max()) / REACH
        if length <= 0:
            raise ValueError("scale.length is missing, and all places are one; give it")
        time = scale.time or self.duration / STEPS
        return WholeScale(length, center, time, scale.demand or 1.0, self.clock)

    @functools.cached_property
    def clock(self) -> float:
        """When the episode begins: at 0, or, on a clock that is far from that, with the first window of a customer.

        See `jaxvrp.io.problems.origin`.
        """
        named = [customer.window[0] for customer in self.customers if customer.window]
        # A `start` says when 0 is, so that late windows are no reason to begin late.
        is_unsaid = self.start is None and named
        return float(origin_of([*named, self.horizon], FAR_IN_TIME)) if is_unsaid else 0.0

    @property
    def duration(self) -> float:
        """Time units of an episode."""
        return self.horizon - self.clock

    @property
    def max_steps(self) -> int:
        """Steps of the horizon."""
        return _steps(self.duration, self.whole_scale.time, math.floor)

    def names(self, field: str) -> list[str]:
        """The names of `nodes`, `customers` or `drones`; an entry without a name is `node_0` and so on."""
        return [entry.id or f"{field[:-1]}_{index}" for index, entry in enumerate(getattr(self, field))]

    @property
    def truck_name(self) -> str:
        """The name of the truck, by default `truck`."""
        return self.truck.id or "truck"

    def amount(self, kind: str) -> Callable[[float], str]:
        """Words for a number of `length`, `time` or `demand`: three digits, or all before the point, with the unit."""
        unit = self.units.get(kind, "")

        def words(number: float) -> str:
            if not math.isfinite(number):
                return "without end"
            digits = messages.number(float(number))
            return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} {unit}".rstrip()

        return words

    @property
    def minutes(self) -> float:
        """How many minutes a unit of time has; 1 if the unit is not known."""
        return TIMES.get(self.units.get("time", ""), 1.0)

    def said(self, time: float) -> str:
        """A moment in words: on the clock, if the map has a start, else a number with its unit."""
        if self.start is None:
            return self.amount("time")(time)
        return clock_at(self.start, "start").shown(time * self.minutes)

    def instance(self) -> Instance:
        """The problem in the units of the simulator, to be played in `environment`.

        Windows are rounded to steps inwards: a delivery on time in steps is on time in the units of the map.

        Raises:
            ValueError: a window lies within one step.
        """
        scale, customers = self.whole_scale, self.customers
        windows = [customer.window or (self.clock, self.horizon) for customer in customers]
        starts = [_steps(start - self.clock, scale.time, math.ceil) for start, _ in windows]
        ends = [_steps(end - self.clock, scale.time, math.floor) for _, end in windows]
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end < start:
                raise ValueError(
                    f"customers[{index}].window: {windows[index][0]:g} to {windows[index][1]:g} lies within a step of "
                    f"{scale.time:g}; widen it, or give a smaller scale.time"
                )
        known = [max((customer.known_from or 0.0) - self.clock, 0.0) for customer in customers]
        known_from = [_steps(time, scale.time, math.ceil) for time in known]

        groups = (
            [self.truck.position],
            [node.position for node in self.nodes],
            [customer.position for customer in customers],
        )
        truck, nodes, places = ((np.array(group) - np.array(scale.center)) / scale.length for group in groups)
        demand = np.array([customer.demand for customer in customers]) / scale.demand
        for numbers, field, subject, unit in (
            (np.concatenate([truck, nodes, places]), "scale.length", "places lie", "map units from scale.center"),
            (demand, "scale.demand", "demands are", "times as much"),
        ):
            if (largest := float(np.abs(numbers).max())) > FARTHEST:
                raise ValueError(
                    f"{field}: {subject} up to {largest:g} {unit}; make it larger, so that it is at most {FARTHEST}"
                )
        return Instance(
            truck_position=jnp.asarray(truck[0], jnp.float32),
            node_position=jnp.asarray(nodes, jnp.float32),
            customer_position=jnp.asarray(places, jnp.float32),
            demand=jnp.asarray(demand, jnp.float32),
            window_start=jnp.asarray(starts, jnp.int32),
            window_end=jnp.asarray(ends, jnp.int32),
            known_from=jnp.asarray(known_from, jnp.int32) if any(known) else None,
        )

    def refuse_what_is_ignored(self, env: TruckDrone) -> None:
        """Raise a ValueError, one line, if the scenario of `env` would ignore what a field of the map says."""
        customers = list(enumerate(self.customers))
        ignored = []
        if env.dynamic_share is ABSENT:
            ignored += [
                (f"customers[{i}].known_from", "customers become known")
                for i, c in customers
                if (c.known_from or 0.0) > self.clock
            ]
        if env.payload_factor is ABSENT and self.drones[0].payload_factor != 0:
            given = [("drones[0].payload_factor", "packages weigh")] if self.drones[0].payload_factor else []
            ignored += given + [(f"customers[{i}].demand", "packages weigh") for i, c in customers if c.demand]
        if not env.wait_for_window:
            late = [i for i, c in customers if c.window and c.window[0] > self.clock]
            ignored += [(f"customers[{i}].window[0]", "drones wait for the start of a window") for i in late]
        if ignored:
            field, rule = ignored[0]
            raise ValueError(f"{field}: {type(env).__name__} ignores it; play vrpd_tw, where {rule}")

    def parameters(self, env: TruckDrone) -> dict[str, Any]:
        """The parameters of the environment that this problem sets: sizes and physics, by keyword.

        Speeds are per time unit of `env`, whose `dt` a step has.

        Raises:
            ValueError: the scenario ignores what a field says; one line that names the field and `vrpd_tw`.
        """
        self.refuse_what_is_ignored(env)
        scale, drone = self.whole_scale, self.drones[0]
        pace = scale.time / float(env.dt) / scale.length
        parameters = {
            "num_drones": len(self.drones),
            "num_customers": len(self.customers),
            "num_route_nodes": len(self.nodes),
            "max_steps": self.max_steps,
            "max_battery": 1.0,
            "truck_speed": self.truck.speed * pace,
            "drone_speed": drone.speed * pace,
            "battery_rate": scale.length / drone.range,
        }
        further = {
            "hover_cost": drone.hover_time and scale.time / drone.hover_time,
            "recharge_rate": drone.recharge_time and scale.time / drone.recharge_time,
            "payload_factor": None if env.payload_factor is ABSENT else drone.payload_factor,
            "delivery_threshold": self.reach.delivery and self.reach.delivery / scale.length,
            "recovery_threshold": self.reach.recovery and self.reach.recovery / scale.length,
        }
        return {**parameters, **{name: value for name, value in further.items() if value is not None}}

    def environment(self, env: TruckDrone) -> TruckDrone:
        """`env` with the sizes and the physics of this problem; it plays `instance()`.

        Raises:
            ValueError: see `parameters`.
        """
        return make(env, **self.parameters(env))


def map_of(env: TruckDrone, instance: Instance, name: str = "") -> FleetMap:
    """The map of a single problem of the simulator, in map units and time units: a file to begin with.

    What the scenario ignores is left out: starts of windows, and that packages weigh.
    """
    count = len(instance.demand) if instance.exists is None else int(np.sum(instance.exists))
    dt, capacity = float(env.dt), float(env.max_battery)
    known_from = [0] * count if instance.known_from is None else np.asarray(instance.known_from).tolist()

    def lasting(amount: float, cost: Any) -> float:
        return amount / float(cost) if cost > 0 else math.inf

    drone = Drone(
        speed=_short(env.drone_speed),
        range=lasting(capacity, env.battery_rate),
        hover_time=lasting(capacity * dt, env.hover_cost),
        recharge_time=lasting(capacity * dt, env.recharge_rate),
        payload_factor=0.0 if env.payload_factor is ABSENT else env.payload_factor,
    )
    customers = [
        Customer(
            position=_point(instance.customer_position[index]),
            demand=_short(instance.demand[index]),
            window=(
                _short(int(instance.window_start[index]) * dt * env.wait_for_window),
                _short(int(instance.window_end[index]) * dt),
            ),
            known_from=_short(known_from[index] * dt) or None,
            id=f"customer_{index}",
        )
        for index in range(count)
    ]
    return FleetMap(
        horizon=_short(env.max_steps * dt),
        truck=Truck(_point(instance.truck_position), _short(env.truck_speed), "truck"),
        nodes=tuple(Node(_point(place), f"node_{index}") for index, place in enumerate(instance.node_position)),
        customers=tuple(customers),
        drones=tuple(dataclasses.replace(drone, id=f"drone_{index}") for index in range(env.num_drones)),
        scale=Scale(length=1.0, center=(0.0, 0.0), time=dt, demand=1.0),
        reach=Reach(_short(env.delivery_threshold), _short(env.recovery_threshold)),
        units={"length": "map unit", "time": "time unit"},
        name=name,
    )


def _short(number: Any) -> float:
    """A number with the fewest digits that are the same in `float32`."""
    return float(str(np.float32(number)))


def _point(place: ArrayLike) -> Point:
    x, y = np.asarray(place)
    return _short(x), _short(y)


def _steps(time: float, length: float, rounded: Callable[[float], int]) -> int:
    """Steps of a time, `rounded` unless they are whole but for rounding errors."""
    steps = time / length
    return round(steps) if abs(steps - round(steps)) < ROUNDING else rounded(steps)


def _refuse_same_names(field: str, names: Sequence[str]) -> None:
    """Raise a ValueError if two entries of a list have the same name, given or by default."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if (first := seen.setdefault(name, index)) < index:
            raise ValueError(f"{field}[{index}].id: {shown(name)} is {field}[{first}] already; give another")


def _refuse_mixed_fleet(drones: Sequence[Drone]) -> None:
    """Raise a ValueError unless all drones fly alike."""
    fields = ("speed", "range", "hover_time", "recharge_time", "payload_factor")
    for index, field in itertools.product(range(len(drones)), fields):
        value, first = getattr(drones[index], field), getattr(drones[0], field)
        if value != first:
            value, first = ("none" if number is None else f"{number:g}" for number in (value, first))
            raise ValueError(
                f"drones[{index}].{field}: {value}, and {first} of drones[0]; all drones of a truck fly alike here, so "
                "give them the same"
            )
