"""The scenarios of `dispatch`: passengers who share vehicles, and parcels of the same day, also as published."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.problem import generator
from jaxvrp.envs.dispatch.problem.generator import DROPOFF_WEIGHTS, PICKUP_WEIGHTS, REACH
from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, Instance
from jaxvrp.io.messages import nearest, shown


class RidePooling(Dispatch):
    """Passengers ask for rides between places of a city in the morning, and share vehicles.

    A request is picked up within `max_wait`, and dropped off at most `max_delay` later than by a direct ride at once
    (limits as of Alonso-Mora et al. 2017).
    """

    scenario: ClassVar[str] = "ride_pooling"

    max_requests: int = fields.size(520, help="R, the most requests of a day; later ones are left out")
    num_vehicles: int = fields.size(20, help="vehicles")
    expected_requests: float = fields.parameter(400.0, above=0.0, help="mean number of requests of a generated day")
    zones: int = fields.size(5, help="zones on a side of the grid to which idle vehicles can be sent")
    vehicle_capacity: int = fields.size(4, help="seats of a generated vehicle", unit="passengers")
    side: float = fields.parameter(10.0, above=0.0, help="of the square", unit="km")
    horizon: float = fields.parameter(180.0, above=0.0, help="requests come until then", unit="minutes")
    peak: float = fields.parameter(1.0, minimum=0.0, help="extra rate of requests at the peak, in those of quiet times")
    vehicle_speed: float = fields.parameter(30.0, above=0.0, help="of generated vehicles", unit="km/h")
    vehicle_detour: float = fields.parameter(1.0, minimum=1.0, help="kilometres of street for each straight one")
    stop_time: float = fields.parameter(0.5, minimum=0.0, help="of each pickup and drop-off", unit="minutes")
    max_wait: float = fields.parameter(8.0, minimum=0.0, help="from the request to its pickup", unit="minutes")
    max_delay: float = fields.parameter(
        12.0, minimum=0.0, help="of the drop-off, against a direct ride at once", unit="minutes"
    )

    @property
    def fleet_size(self) -> int:
        """V."""
        return self.num_vehicles

    @property
    def num_zones_each_way(self) -> int:
        """Zones on a side of the grid."""
        return self.zones

    def generate(self, key: jax.Array) -> Instance:
        """A random morning: arrivals by a Poisson process with a peak, places around centres, the same every day.

        Streets are those of `generator.streets`.
        """
        count, fleet, side = self.max_requests, self.num_vehicles, self.side
        arrival_key, pickup_key, dropoff_key, start_key = jax.random.split(key, 4)
        arrival = generator.arrivals(arrival_key, count, self.expected_requests, self.horizon, self.peak)
        pickup = side * generator.places(pickup_key, count, PICKUP_WEIGHTS)
        dropoff = side * generator.places(dropoff_key, count, DROPOFF_WEIGHTS)
        pace = MINUTES_PER_HOUR * self.vehicle_detour / self.vehicle_speed
        start = side * jax.random.uniform(start_key, (fleet, 2), jnp.float32)
        direct, travel_time = pace * jnp.linalg.norm(pickup - dropoff, axis=1), None
        if self.has_streets:
            places, straight = [start, pickup, dropoff], MINUTES_PER_HOUR / self.vehicle_speed
            travel_time = generator.streets(key, places, straight, self.vehicle_detour)
            direct = jnp.diagonal(travel_time[fleet : fleet + count, fleet + count :])
        return generator.day_of(
            arrival=arrival,
            travel_seed=generator.travel_seed(key, self.travel_noise),
            value=jnp.ones(count, jnp.float32),
            pickup=pickup,
            dropoff=dropoff,
            pickup_deadline=arrival + self.max_wait,
            dropoff_deadline=arrival + direct + self.max_delay,
            start=start,
            speed=generator.each(self.vehicle_speed, fleet),
            detour=generator.each(self.vehicle_detour, fleet),
            capacity=jnp.full(fleet, self.vehicle_capacity, jnp.int32),
            stop_time=generator.each(self.stop_time, fleet),
            turnaround=generator.each(0.0, fleet),
            max_trip=generator.each(jnp.inf, fleet),
            is_drone=jnp.zeros(fleet, bool),
            horizon=jnp.asarray(self.horizon, jnp.float32),
            area=jnp.stack([jnp.zeros(2, jnp.float32), generator.each(side, 2)]),
            travel_time=travel_time,
        )


class SameDay(Dispatch):
    """Parcels are ordered during the day and delivered the same day, by vehicles and drones from one depot.

    Orders come until `last_order`; each is delivered within `delivery_deadline`, and all are home by `horizon`. Fleet
    and demand follow Ulmer & Thomas (2018), as far as they are remembered here. With `travel="matrix"` vehicles drive
    along streets, and drones fly straight.
    """

    scenario: ClassVar[str] = "same_day"

    max_requests: int = fields.size(430, help="R, the most requests of a day; later ones are left out")
    expected_requests: float = fields.parameter(350.0, above=0.0, help="mean number of orders of a generated day")
    num_vehicles: int = fields.size(3, help="vehicles that are no drones")
    max_stops: int = fields.size(16, minimum=2, help="S, the most stops of a plan that a vehicle has not begun")
    num_drones: int = fields.size(10, minimum=0, help="drones, beside the vehicles")
    vehicle_capacity: int = fields.size(100, help="parcels that a generated vehicle holds", unit="parcels")
    last_order: float = fields.parameter(420.0, above=0.0, help="orders come until then", unit="minutes")
    horizon: float = fields.parameter(480.0, above=0.0, help="all are home by then", unit="minutes")
    drone_horizon: float | None = fields.parameter(
        None, above=0.0, help="drones are home by then; null: by the horizon", unit="minutes"
    )
    customer_spread: float = fields.parameter(
        3.0, above=0.0, help="standard deviation of customers around the depot, each way", unit="km"
    )
    value_spread: float = fields.parameter(
        0.7, minimum=0.0, help="standard deviation of the logarithm of values, whose mean is 1"
    )
    peak: float = fields.parameter(3.0, minimum=0.0, help="extra rate of orders at the peak, in those of quiet times")
    express_share: float = fields.parameter(0.3, minimum=0.0, maximum=1.0, help="share of orders that are express")
    express_deadline: float = fields.parameter(
        60.0, above=0.0, help="from an express order to delivery", unit="minutes"
    )
    vehicle_speed: float = fields.parameter(30.0, above=0.0, help="of generated vehicles", unit="km/h")
    vehicle_detour: float = fields.parameter(1.5, minimum=1.0, help="kilometres of street for each straight one")
    drone_speed: float = fields.parameter(40.0, above=0.0, help="of generated drones", unit="km/h")
    drone_turnaround: float = fields.parameter(20.0, minimum=0.0, help="of a drone, for a new battery", unit="minutes")
    drone_max_trip: float = fields.parameter(
        np.inf, above=0.0, maximum=np.inf, help="longest flight of a generated drone", unit="minutes"
    )
    stop_time: float = fields.parameter(3.0, minimum=0.0, help="of each delivery, and of loading", unit="minutes")
    loading_time: float | None = fields.parameter(
        None, minimum=0.0, help="of loading at the depot; null: `stop_time`", unit="minutes"
    )
    preparation_time: float = fields.size(
        0.0, minimum=0, help="from an order until its parcel can be loaded; a trip waits for all of its parcels"
    )
    delivery_deadline: float = fields.parameter(120.0, above=0.0, help="from order to delivery", unit="minutes")

    @property
    def fleet_size(self) -> int:
        """V, vehicles first, then drones."""
        return self.num_vehicles + self.num_drones

    def generate(self, key: jax.Array) -> Instance:
        """A random day: orders by a Poisson process with a peak, customers normal around the depot at (0, 0).

        Values are lognormal, with a mean of 1. A share of the orders is express, with a deadline of its own. Streets
        are those of `generator.streets`.
        """
        count = self.max_requests
        arrival_key, place_key, value_key, express_key = jax.random.split(key, 4)
        arrival = generator.arrivals(arrival_key, count, self.expected_requests, self.last_order, self.peak)
        reach = generator.each(REACH * self.customer_spread, 2)
        spread = self.value_spread
        is_express = jax.random.uniform(express_key, (count,), jnp.float32) < self.express_share
        deadline = arrival + jnp.where(is_express, self.express_deadline, self.delivery_deadline)
        value = jnp.exp(spread * jax.random.normal(value_key, (count,), jnp.float32) - 0.5 * spread**2)
        dropoff = self.customer_spread * jax.random.normal(place_key, (count, 2), jnp.float32)
        travel_time = None
        if self.has_streets:
            ends = jnp.where(jnp.isfinite(arrival)[:, None], dropoff, 0.0)
            places = [jnp.zeros((1, 2), jnp.float32), ends]
            travel_time = generator.streets(key, places, MINUTES_PER_HOUR / self.vehicle_speed, self.vehicle_detour)
        return generator.day_of(
            arrival=arrival,
            travel_seed=generator.travel_seed(key, self.travel_noise),
            value=value,
            pickup=jnp.zeros((count, 2), jnp.float32),
            dropoff=dropoff,
            pickup_deadline=deadline,
            dropoff_deadline=deadline,
            horizon=jnp.asarray(self.horizon, jnp.float32),
            area=jnp.stack([-reach, reach]),
            depot=jnp.zeros(2, jnp.float32),
            preparation=self.preparation_time,
            travel_time=travel_time,
            **self._fleet(),
        )

    def _fleet(self) -> dict[str, jax.Array | None]:
        """The numbers of a day's vehicles, then of its drones."""
        fleet = self.fleet_size
        is_drone = jnp.arange(fleet) >= self.num_vehicles

        def by_kind(of_vehicle: float, of_drone: float) -> jax.Array:
            return jnp.where(is_drone, generator.each(of_drone, fleet), generator.each(of_vehicle, fleet))

        return {
            "start": jnp.zeros((fleet, 2), jnp.float32),
            "speed": by_kind(self.vehicle_speed, self.drone_speed),
            "detour": by_kind(self.vehicle_detour, 1.0),
            "capacity": jnp.where(is_drone, 1, self.vehicle_capacity).astype(jnp.int32),
            "stop_time": generator.each(self.stop_time, fleet),
            "turnaround": by_kind(0.0, self.drone_turnaround),
            "max_trip": by_kind(jnp.inf, self.drone_max_trip),
            "is_drone": is_drone,
            "loading_time": None if self.loading_time is None else generator.each(self.loading_time, fleet),
            "home_by": None if self.drone_horizon is None else by_kind(self.horizon, self.drone_horizon),
        }


class ChenUlmerThomas(SameDay):
    """The numbers of Chen, Ulmer and Thomas (2022) for `same_day`: customers alike all day, and worth 1 each.

    Orders come evenly, 500 in seven hours, each due four hours later; vehicles are home after eight hours, drones after
    twelve. Loading and drop-off take 3 minutes; a drone then charges for 20.
    """

    scenario: ClassVar[str] = "chen_ulmer_thomas"

    max_requests: int = fields.again(SameDay, "max_requests", 620)
    expected_requests: float = fields.again(SameDay, "expected_requests", 500.0)
    max_stops: int = fields.again(SameDay, "max_stops", 40)
    drone_horizon: float | None = fields.again(SameDay, "drone_horizon", 720.0)
    value_spread: float = fields.again(SameDay, "value_spread", 0.0)
    peak: float = fields.again(SameDay, "peak", 0.0)
    express_share: float = fields.again(SameDay, "express_share", 0.0)
    delivery_deadline: float = fields.again(SameDay, "delivery_deadline", 240.0)


SCENARIOS: dict[str, type[Dispatch]] = {cls.scenario: cls for cls in (RidePooling, SameDay, ChenUlmerThomas)}


def make(scenario: str = "ride_pooling", **parameters: Any) -> Dispatch:
    """The factory behind `jaxvrp.make("dispatch", ...)`.

    Args:
        scenario: `"ride_pooling"`, `"same_day"` or `"chen_ulmer_thomas"`.
        parameters: any field of its class.

    Raises:
        ValueError: an unknown scenario or parameter, or a value out of range; one line that names it and the remedy.
        TypeError: a value of the wrong type.
    """
    if scenario not in SCENARIOS:
        raise ValueError(f"scenario is {shown(scenario)}; {nearest(str(scenario), SCENARIOS)}")
    return fields.build(SCENARIOS[scenario], parameters, f"parameter of scenario '{scenario}':")
