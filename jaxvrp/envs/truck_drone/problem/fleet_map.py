"""A truck-and-drones problem in units of its own: places, windows, demands, fleet, and what they are to the simulator.

The simulator counts in map units, steps and full charges. A map says how long a map unit and a step are (`Scale`), and
everything else in its own units: so it comes back in these, with its names, in a plan.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.io.messages import shown

Point = tuple[float, float]

STEPS = 200
"""Steps of the horizon, if `Scale.time` is left out: those of the default environment, whose policies know it so."""

REACH = 0.8
"""Map units from the centre to the outermost place, along x or y, if `Scale.length` is left out: as in generated
problems."""

FARTHEST = 1000
"""Map units, and demands: beyond, `float32` tells no places apart that `delivery_threshold` does."""

FEWEST_STEPS, MOST_STEPS = 4, 10_000
"""Of an episode."""

ROUNDING = 1e-6
"""Steps: nearer to a whole number than this, it is meant."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How the units of a map become those of the simulator; what is None is worked out, see `FleetMap.whole_scale`.

    Attributes:
        length: length units of a map unit.
        center: what lies at the origin.
        time: time units of a step.
        demand: demand units of a demand of 1.
    """

    length: float | None = None
    center: Point | None = None
    time: float | None = None
    demand: float | None = None


@dataclasses.dataclass(frozen=True)
class WholeScale:
    """A `Scale` with nothing left out."""

    length: float
    center: Point
    time: float
    demand: float

    def place(self, position: ArrayLike) -> list[float]:
        """A place of the simulator (`f32[2]`, map units) in the units of the map, to a millionth of a map unit."""
        numbers = np.asarray(position, np.float64) * self.length + np.asarray(self.center)
        return [round(float(number), self._decimals) + 0.0 for number in numbers]  # no -0

    def moment(self, step: ArrayLike) -> float:
        """When a step ends, in the units of the map."""
        return float(f"{int(np.asarray(step)) * self.time:.12g}")

    def distance(self, length: ArrayLike) -> float:
        """A length in map units in the units of the map, to a millionth of a map unit."""
        return round(float(np.asarray(length)) * self.length, self._decimals)

    @property
    def _decimals(self) -> int:
        """Of lengths: what `float32` holds."""
        return 6 - math.floor(math.log10(self.length))


@dataclasses.dataclass(frozen=True)
class Truck:
    """The truck: where it starts, with all drones on board, and length units per time unit."""

    position: Point
    speed: float
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class Node:
    """A place that the truck can drive to."""

    position: Point
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class Customer:
    """Who waits for a package.

    Attributes:
        position: length units.
        demand: size of the package.
        window: first and last time of the delivery; None for any.
        known_from: the time from which agents know of the customer.
        id: a name.
    """

    position: Point
    demand: float
    window: Point | None = None
    known_from: float | None = None
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class Drone:
    """A drone; what is None is as in the environment.

    Attributes:
        speed: length units per time unit.
        range: length units that a full charge lasts for without a package; inf for no end.
        hover_time: time units that it lasts for in the air without moving; inf for no end.
        recharge_time: time units from empty to full on the truck; inf for never.
        payload_factor: share by which it draws more with a package of demand `Scale.demand`.
        capacity: the largest demand that it can carry.
        id: a name.
    """

    speed: float
    range: float
    hover_time: float | None = None
    recharge_time: float | None = None
    payload_factor: float | None = None
    capacity: float | None = None
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class Reach:
    """Length units within which a drone serves a customer, and within which the truck takes a drone in."""

    delivery: float | None = None
    recovery: float | None = None


@dataclasses.dataclass(frozen=True)
class FleetMap:
    """A problem of one's own; checked when it is made.

    Attributes:
        horizon: time units until the episode ends.
        truck: its start and speed.
        nodes, customers, drones: at least one each.
        scale: how units become those of the simulator.
        reach: how near is near enough.
        units: what length, time and demand are counted in, for people.
        name: of the problem.

    Raises:
        ValueError: one line with the field that is wrong.
    """

    horizon: float
    truck: Truck
    nodes: tuple[Node, ...]
    customers: tuple[Customer, ...]
    drones: tuple[Drone, ...]
    scale: Scale = Scale()
    reach: Reach = Reach()
    units: dict[str, str] = dataclasses.field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        for field in ("nodes", "customers", "drones"):
            _refuse_twice(field, self.names(field))
        _refuse_mixed_fleet(self.drones)
        for index, customer in enumerate(self.customers):
            self._check_customer(f"customers[{index}]", customer)
        if not FEWEST_STEPS <= self.max_steps <= MOST_STEPS:
            raise ValueError(
                f"horizon: {self.horizon:g} is {self.max_steps} steps of {self.whole_scale.time:g}; it must be "
                f"{FEWEST_STEPS} to {MOST_STEPS}: change scale.time"
            )
        self.instance()

    def _check_customer(self, place: str, customer: Customer) -> None:
        """Raise a ValueError if there can be no such customer."""
        start, end = customer.window or (0.0, self.horizon)
        if end < start:
            raise ValueError(f"{place}.window: end {end:g} before start {start:g}")
        if end > self.horizon:
            raise ValueError(f"{place}.window: end {end:g} after the horizon {self.horizon:g}")
        if customer.known_from is not None and customer.known_from > self.horizon:
            raise ValueError(f"{place}.known_from: {customer.known_from:g} after the horizon {self.horizon:g}")
        for index, drone in enumerate(self.drones):
            if drone.capacity is not None and customer.demand > drone.capacity:
                raise ValueError(
                    f"{place}.demand: {customer.demand:g} is more than drones[{index}] carries "
                    f"({drone.capacity:g}); any drone may be sent to any customer"
                )

    @property
    def whole_scale(self) -> WholeScale:
        """The scale, with what was left out.

        The centre is that of all places, the outermost of which lie `REACH` map units away; the horizon has `STEPS`
        steps; demands are as they are.

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
        return WholeScale(length, center, scale.time or self.horizon / STEPS, scale.demand or 1.0)

    @property
    def max_steps(self) -> int:
        """Steps of the horizon."""
        return _steps(self.horizon, self.whole_scale.time, math.floor)

    def names(self, field: str) -> list[str]:
        """The names of `nodes`, `customers` or `drones`; of those without one, `node_0` and so on."""
        return [entry.id or f"{field[:-1]}_{index}" for index, entry in enumerate(getattr(self, field))]

    def instance(self) -> Instance:
        """The problem in the units of the simulator, to be played in `environment`.

        Windows are rounded to steps inwards, so that who is on time there is on time.

        Raises:
            ValueError: a window lies within one step.
        """
        scale, customers = self.whole_scale, self.customers
        windows = [customer.window or (0.0, self.horizon) for customer in customers]
        starts = [_steps(start, scale.time, math.ceil) for start, _ in windows]
        ends = [_steps(end, scale.time, math.floor) for _, end in windows]
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end < start:
                raise ValueError(
                    f"customers[{index}].window: {windows[index][0]:g} to {windows[index][1]:g} lies within a step of "
                    f"{scale.time:g}; widen it, or give a smaller scale.time"
                )
        known_from = [_steps(customer.known_from or 0.0, scale.time, math.ceil) for customer in customers]

        groups = (
            [self.truck.position],
            [node.position for node in self.nodes],
            [customer.position for customer in customers],
        )
        truck, nodes, places = ((np.array(group) - np.array(scale.center)) / scale.length for group in groups)
        demand = np.array([customer.demand for customer in customers]) / scale.demand
        _refuse_far(np.concatenate([truck, nodes, places]), "scale.length", "places lie", "map units from scale.center")
        _refuse_far(demand, "scale.demand", "demands are", "times as much")
        return Instance(
            truck_position=jnp.asarray(truck[0], jnp.float32),
            node_position=jnp.asarray(nodes, jnp.float32),
            customer_position=jnp.asarray(places, jnp.float32),
            demand=jnp.asarray(demand, jnp.float32),
            window_start=jnp.asarray(starts, jnp.int32),
            window_end=jnp.asarray(ends, jnp.int32),
            known_from=jnp.asarray(known_from, jnp.int32) if self._is_dynamic else None,
        )

    @property
    def _is_dynamic(self) -> bool:
        """Whether some customers become known during the episode."""
        return any(customer.known_from for customer in self.customers)

    def parameters(self, env: TruckDrone) -> dict[str, Any]:
        """The parameters of the environment that this problem sets: sizes and physics, by keyword.

        Speeds are per time unit of `env`, whose `dt` a step has.

        Raises:
            ValueError: one of them is of another scenario.
        """
        scale, drone = self.whole_scale, self.drones[0]
        known = env.parameters
        if self._is_dynamic and "dynamic_share" not in known:
            index = next(index for index, customer in enumerate(self.customers) if customer.known_from)
            raise ValueError(_of_other_scenario(f"customers[{index}].known_from", "everybody is known", env))
        if drone.payload_factor is not None and "payload_factor" not in known:
            raise ValueError(_of_other_scenario("drones[0].payload_factor", "packages do not weigh", env))
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
            "payload_factor": drone.payload_factor,
            "delivery_threshold": self.reach.delivery and self.reach.delivery / scale.length,
            "recovery_threshold": self.reach.recovery and self.reach.recovery / scale.length,
        }
        return {**parameters, **{name: value for name, value in further.items() if value is not None}}

    def environment(self, env: TruckDrone) -> TruckDrone:
        """`env`, in the sizes and with the physics of this problem; it plays `instance()`.

        Raises:
            ValueError: see `parameters`.
        """
        return make(env, **self.parameters(env))


def map_of(env: TruckDrone, instance: Instance, name: str = "") -> FleetMap:
    """The map of a problem of the simulator, whose units are map units and time units: a file to begin with.

    Args:
        env: its sizes and physics.
        instance: a single problem.
        name: of the problem.
    """
    known = range(int(np.sum(np.ones(len(instance.demand)) if instance.exists is None else instance.exists)))
    dt, capacity = float(env.dt), float(env.max_battery)
    known_from = [0] * len(known) if instance.known_from is None else np.asarray(instance.known_from).tolist()

    def lasting(amount: float, cost: float) -> float:
        return amount / cost if cost > 0 else math.inf

    drone = Drone(
        speed=_short(env.drone_speed),
        range=lasting(capacity, float(env.battery_rate)),
        hover_time=lasting(capacity * dt, float(env.hover_cost)),
        recharge_time=lasting(capacity * dt, float(env.recharge_rate)),
        payload_factor=env.parameters.get("payload_factor"),
    )
    customers = [
        Customer(
            position=_point(instance.customer_position[index]),
            demand=_short(instance.demand[index]),
            window=(_short(int(instance.window_start[index]) * dt), _short(int(instance.window_end[index]) * dt)),
            known_from=_short(known_from[index] * dt) or None,
            id=f"customer_{index}",
        )
        for index in known
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


def _steps(time: float, length: float, rounded: Any) -> int:
    """Steps of a time; what is whole but for rounding errors is that, the rest is `rounded`."""
    steps = time / length
    return round(steps) if abs(steps - round(steps)) < ROUNDING else rounded(steps)


def _refuse_twice(field: str, names: Sequence[str]) -> None:
    """Raise a ValueError if two entries of a list have the same name; one without any may be called as another is."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(
                f"{field}[{index}].id: {shown(name)} is {field}[{names.index(name)}] already; give another"
            )


def _refuse_far(numbers: np.ndarray, field: str, what: str, unit: str) -> None:
    """Raise a ValueError if numbers of the simulator are too large."""
    largest = float(np.abs(numbers).max())
    if largest > FARTHEST:
        raise ValueError(f"{field}: {what} up to {largest:g} {unit}; make it larger, so that it is at most {FARTHEST}")


def _refuse_mixed_fleet(drones: Sequence[Drone]) -> None:
    """Raise a ValueError unless all drones fly alike."""
    for index, drone in enumerate(drones):
        for field in ("speed", "range", "hover_time", "recharge_time", "payload_factor"):
            value, first = getattr(drone, field), getattr(drones[0], field)
            if value != first:
                raise ValueError(
                    f"drones[{index}].{field}: {_word(value)}, and {_word(first)} of drones[0]; all drones of a truck "
                    "fly alike here, so give them the same"
                )


def _word(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _of_other_scenario(place: str, why: str, env: TruckDrone) -> str:
    return f"{place}: in {type(env).__name__} {why}; leave it out, or play scenario vrpd_tw"
