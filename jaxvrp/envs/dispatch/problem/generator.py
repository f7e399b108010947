"""Random days: passengers between places of a city in the morning, and parcels from a depot until the evening."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, Instance
from jaxvrp.io.limits import LARGEST_WHOLE

CENTRES = ((0.5, 0.5), (0.2, 0.75), (0.8, 0.8), (0.25, 0.2), (0.75, 0.3))
"""Where demand is dense, as shares of the side of the square: the middle of the city, then where people live."""

PICKUP_WEIGHTS = (0.1, 0.3, 0.2, 0.25, 0.15)
DROPOFF_WEIGHTS = (0.6, 0.05, 0.1, 0.1, 0.15)
"""The share of each centre in pickups and in drop-offs: in the morning most people go to the middle."""

SPREAD = 0.08
"""Standard deviation of places around their centre, as a share of the side."""

SCATTERED = 0.2
"""Share of places that are anywhere in the square."""

PEAK = (0.4, 0.15)
"""When most requests come, and the standard deviation of the peak, as shares of the horizon."""

REACH = 3.0
"""How many standard deviations the area around a depot extends from it, each way."""


class RidePoolingParameters(Protocol):
    """What a day of passengers is drawn from; the fields of `RidePooling` of the same names."""

    max_requests: int
    num_vehicles: int
    vehicle_capacity: int
    expected_requests: float
    travel_noise: float
    peak: float
    side: float
    horizon: float
    vehicle_speed: float
    vehicle_detour: float
    stop_time: float
    max_wait: float
    max_delay: float


class SameDayParameters(Protocol):
    """What a day of parcels is drawn from; the fields of `SameDay` of the same names."""

    max_requests: int
    num_vehicles: int
    num_drones: int
    vehicle_capacity: int
    expected_requests: float
    travel_noise: float
    last_order: float
    horizon: float
    customer_spread: float
    value_spread: float
    peak: float
    express_share: float
    express_deadline: float
    vehicle_speed: float
    vehicle_detour: float
    drone_speed: float
    drone_turnaround: float
    drone_max_trip: float
    stop_time: float
    delivery_deadline: float


def ride_pooling(key: jax.Array, parameters: RidePoolingParameters) -> Instance:
    """One morning: arrivals by a Poisson process with a peak, places from a mixture of centres, the same every day."""
    count, fleet, side = parameters.max_requests, parameters.num_vehicles, parameters.side
    arrival_key, pickup_key, dropoff_key, start_key = jax.random.split(key, 4)
    arrival = _arrivals(arrival_key, count, parameters.expected_requests, parameters.horizon, parameters.peak)
    pickup = side * _places(pickup_key, count, PICKUP_WEIGHTS)
    dropoff = side * _places(dropoff_key, count, DROPOFF_WEIGHTS)
    pace = MINUTES_PER_HOUR * parameters.vehicle_detour / parameters.vehicle_speed
    direct = pace * jnp.linalg.norm(pickup - dropoff, axis=1)
    return _instance(
        arrival=arrival,
        travel_seed=_travel_seed(key, parameters.travel_noise),
        value=jnp.ones(count, jnp.float32),
        pickup=pickup,
        dropoff=dropoff,
        pickup_deadline=arrival + parameters.max_wait,
        dropoff_deadline=arrival + direct + parameters.max_delay,
        start=side * jax.random.uniform(start_key, (fleet, 2), jnp.float32),
        speed=_each(parameters.vehicle_speed, fleet),
        detour=_each(parameters.vehicle_detour, fleet),
        capacity=jnp.full(fleet, parameters.vehicle_capacity, jnp.int32),
        stop_time=_each(parameters.stop_time, fleet),
        turnaround=_each(0.0, fleet),
        max_trip=_each(jnp.inf, fleet),
        is_drone=jnp.zeros(fleet, bool),
        horizon=jnp.asarray(parameters.horizon, jnp.float32),
        area=jnp.stack([jnp.zeros(2, jnp.float32), _each(side, 2)]),
    )


def same_day(key: jax.Array, parameters: SameDayParameters) -> Instance:
    """One day of a depot: orders by a Poisson process with a peak, customers normal around the depot at (0, 0).

    Values are lognormal, with a mean of 1. A share of the orders is express, with a deadline of its own.
    """
    count, vehicles, drones = parameters.max_requests, parameters.num_vehicles, parameters.num_drones
    fleet = vehicles + drones
    arrival_key, place_key, value_key, express_key = jax.random.split(key, 4)
    arrival = _arrivals(arrival_key, count, parameters.expected_requests, parameters.last_order, parameters.peak)
    reach = _each(REACH * parameters.customer_spread, 2)
    is_drone, spread = jnp.arange(fleet) >= vehicles, parameters.value_spread
    is_express = jax.random.uniform(express_key, (count,), jnp.float32) < parameters.express_share
    deadline = arrival + jnp.where(is_express, parameters.express_deadline, parameters.delivery_deadline)
    value = jnp.exp(spread * jax.random.normal(value_key, (count,), jnp.float32) - 0.5 * spread**2)

    def by_kind(of_vehicle: float, of_drone: float) -> jax.Array:
        return jnp.where(is_drone, _each(of_drone, fleet), _each(of_vehicle, fleet))

    return _instance(
        arrival=arrival,
        travel_seed=_travel_seed(key, parameters.travel_noise),
        value=value,
        pickup=jnp.zeros((count, 2), jnp.float32),
        dropoff=parameters.customer_spread * jax.random.normal(place_key, (count, 2), jnp.float32),
        pickup_deadline=deadline,
        dropoff_deadline=deadline,
        start=jnp.zeros((fleet, 2), jnp.float32),
        speed=by_kind(parameters.vehicle_speed, parameters.drone_speed),
        detour=by_kind(parameters.vehicle_detour, 1.0),
        capacity=jnp.where(is_drone, 1, parameters.vehicle_capacity).astype(jnp.int32),
        stop_time=_each(parameters.stop_time, fleet),
        turnaround=by_kind(0.0, parameters.drone_turnaround),
        max_trip=by_kind(jnp.inf, parameters.drone_max_trip),
        is_drone=is_drone,
        horizon=jnp.asarray(parameters.horizon, jnp.float32),
        area=jnp.stack([-reach, reach]),
        depot=jnp.zeros(2, jnp.float32),
    )


def _travel_seed(key: jax.Array, travel_noise: float) -> jax.Array | None:
    """Of days with noise; their requests are those of the day without."""
    if travel_noise == 0:
        return None
    return jax.random.randint(jax.random.fold_in(key, 1), (), 0, LARGEST_WHOLE, jnp.int32)


def _instance(arrival: jax.Array, **arrays: Any) -> Instance:
    """A day of loads of 1; what arrives at inf is void, and its numbers are finite."""
    exists = jnp.isfinite(arrival)
    numbers = {name: arrays.pop(name) for name in ("value", "pickup", "dropoff", "pickup_deadline", "dropoff_deadline")}
    shaped = {name: jnp.where(exists.reshape(-1, *[1] * (a.ndim - 1)), a, 0.0) for name, a in numbers.items()}
    return Instance(
        arrival=arrival,
        load=exists.astype(jnp.int32),
        pickup_earliest=jnp.zeros_like(arrival),
        dropoff_earliest=jnp.zeros_like(arrival),
        **shaped,
        **arrays,
    )


def _each(number: float | jax.Array, count: int) -> jax.Array:
    return jnp.broadcast_to(jnp.asarray(number, jnp.float32), (count,))


def _arrivals(key: jax.Array, count: int, expected: float, until: float, peak: float) -> jax.Array:
    """`f32[count]`, ascending: a Poisson process from 0 to `until`, inf from where it ends.

    Its rate is that of an even process and, around `PEAK`, up to `1 + peak` times that; `expected` in all.
    """
    share = jnp.linspace(0.0, 1.0, 129, dtype=jnp.float32)
    rate = 1.0 + peak * jnp.exp(-0.5 * ((share - PEAK[0]) / PEAK[1]) ** 2)
    passed = jnp.concatenate([jnp.zeros(1, jnp.float32), jnp.cumsum(0.5 * (rate[1:] + rate[:-1]))])
    passed = passed / passed[-1]
    # In the time that makes the process an even one of rate 1 (Çinlar 1975).
    events = jnp.cumsum(jax.random.exponential(key, (count,), jnp.float32)) / expected
    return jnp.where(events < 1.0, until * jnp.interp(events, passed, share), jnp.inf)


def _places(key: jax.Array, count: int, weights: tuple[float, ...]) -> jax.Array:
    """`f32[count, 2]` in the unit square: around a centre, or anywhere."""
    which_key, near_key, far_key = jax.random.split(key, 3)
    which = jax.random.uniform(which_key, (count, 2), jnp.float32)
    centre = jnp.sum(which[:, :1] >= np.cumsum(weights)[:-1].astype(np.float32), axis=1)
    near = jnp.asarray(CENTRES, jnp.float32)[centre] + SPREAD * jax.random.normal(near_key, (count, 2), jnp.float32)
    far = jax.random.uniform(far_key, (count, 2), jnp.float32)
    return jnp.clip(jnp.where(which[:, 1:] < SCATTERED, far, near), 0.0, 1.0)
