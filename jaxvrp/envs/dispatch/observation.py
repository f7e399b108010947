"""What dispatcher and drivers see: the vehicles with their offers, the zones, and a context of each agent.

Lengths are in half sides of the area (S), from its middle; times in horizons (H), or in thirtieths of them (T).
So sizes and units may change freely.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.dispatch import cover, rules
from jaxvrp.envs.dispatch.routes.plans import (
    COLUMNS,
    DEADLINE,
    LOAD,
    at_position,
    depot_of,
    distance,
    minutes_of_all,
    places_of,
)
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.rows import count_until
from jaxvrp.spaces import EntityKind, Feature, Place

VEHICLE = "vehicle"
ZONE = "zone"

LATELY = 1 / 12
"""Requests of so long ago at most came lately, as a share of the horizon."""

VEHICLE_STATIC = (
    Feature("pace", "time for a length of S / H; along streets, on average", 0.0),
    Feature("capacity", "capacity / the largest of the fleet", 0.0, 1.0),
    Feature("stop_time", "stop time / H", 0.0),
    Feature("turnaround", "turnaround / H", 0.0),
    Feature("max_trip", "longest trip / H, at most 1", 0.0, 1.0),
    Feature("is_drone", "1 for drones", 0.0, 1.0),
)

VEHICLE_DYNAMIC = (
    Feature("present", "1 for a vehicle, 0 for padding", 0.0, 1.0),
    Feature("x", "x where it is free next / S"),
    Feature("y", "y where it is free next / S"),
    Feature("free_in", "minutes until then / H", 0.0),
    Feature("is_idle", "1 if it has nothing to do", 0.0, 1.0),
    Feature("goal_x", "x where it goes if it has no plan / S"),
    Feature("goal_y", "y where it goes if it has no plan / S"),
    Feature("stops", "stops of its plan / the most of a plan", 0.0, 1.0),
    Feature("load", "load when it is free / capacity; with a depot, that of its plan", 0.0),
    Feature("slack", "least time left before a deadline of its plan / H, at most 1", -1.0, 1.0),
    Feature("is_feasible", "1 if it can take the request; what follows is 0 if not", 0.0, 1.0),
    Feature("added", "added travel / H"),
    Feature("pickup_in", "minutes until it would pick up, or load / H", 0.0),
    Feature("dropoff_in", "minutes until it would drop off / H", 0.0),
    Feature("slack_then", "least time left before a deadline then / H, at most 1", -1.0, 1.0),
)

SPARE = (
    Feature("needed", "need, without it, of the zone where it will be; at most 4", 0.0, 4.0),
    Feature("is_spare", "1 for the idle vehicle that is needed least", 0.0, 1.0),
)

ROVING = (
    Feature("last_x", "x where its plan ends, or where it goes / S"),
    Feature("last_y", "y where its plan ends, or where it goes / S"),
    Feature("done_in", "minutes until its plan ends / T", 0.0),
    Feature("cost", "added travel / T"),
    Feature("is_least", "1 for the least added travel", 0.0, 1.0),
    *SPARE,
)
"""What is also seen of vehicles that wait elsewhere than at a depot."""

TRIPS = (Feature("home_in", "minutes until it is free, its plan driven / H", 0.0),)
"""What is also seen of vehicles that wait at a depot."""

ZONE_STATIC = (Feature("x", "x of its middle / S"), Feature("y", "y of its middle / S"))

ZONE_DYNAMIC = (
    Feature("present", "1", 0.0, 1.0),
    Feature("demand", "share of all pickups so far", 0.0, 1.0),
    Feature("idle", "idle vehicles that wait there, or go there / vehicles", 0.0, 1.0),
    Feature("cover", "how much vehicles cover it / vehicles", 0.0, 1.0),
    Feature("need", "its need, at most 4", 0.0, 4.0),
    Feature("is_target", "1 if `cover` sends a vehicle there", 0.0, 1.0),
)

DAY = (
    Feature("clock", "clock / H", 0.0),
    Feature("time_left", "time until the horizon / H, at least 0", 0.0, 1.0),
    Feature("lately", "requests of the last H/12 / vehicles", 0.0),
    Feature("mean_stops", "mean number of stops of a plan / the most", 0.0, 1.0),
    Feature("idle", "idle vehicles / vehicles", 0.0, 1.0),
)

REQUEST = (
    Feature("pickup_x", "pickup's x / S"),
    Feature("pickup_y", "pickup's y / S"),
    Feature("dropoff_x", "drop-off's x / S"),
    Feature("dropoff_y", "drop-off's y / S"),
    Feature("direct", "distance from pickup to drop-off / S", 0.0),
    Feature("load", "load / the largest capacity", 0.0),
    Feature("value", "value"),
    Feature("pickup_due", "time until the pickup's deadline / H, at most 1", -1.0, 1.0),
    Feature("dropoff_due", "time until the drop-off's deadline / H, at most 1", -1.0, 1.0),
    Feature("takers", "vehicles that can take it / vehicles", 0.0, 1.0),
)

OWN = (
    Feature("x", "own x / S"),
    Feature("y", "own y / S"),
    Feature("is_idle", "1 if it may be sent to a zone", 0.0, 1.0),
    Feature("goal_x", "x where it goes / S"),
    Feature("goal_y", "y where it goes / S"),
    Feature("free_in", "minutes until it is free / H", 0.0),
    *SPARE,
)

DISPATCHER_CONTEXT = DAY + REQUEST
DRIVER_CONTEXT = OWN + DAY


def kinds(num_vehicles: int, zones: int) -> tuple[EntityKind, ...]:
    """The vehicles and, where there are some, the zones of a grid with so many on a side."""
    dynamic = VEHICLE_DYNAMIC + (ROVING if zones else TRIPS)
    vehicles = EntityKind(VEHICLE, num_vehicles, VEHICLE_STATIC, dynamic, (Place("present", "x", "y"),))
    if zones == 0:
        return (vehicles,)
    return vehicles, EntityKind(ZONE, zones * zones, ZONE_STATIC, ZONE_DYNAMIC, (Place("present", "x", "y"),))


class _Scales:
    """Factors that give lengths and times of a day in its units."""

    def __init__(self, state: State):
        instance = state.prepared.fleet
        self.middle = instance.area.mean(axis=0)
        self.per_length = 2.0 / (instance.area[1] - instance.area[0]).max()
        self.per_time = 1.0 / instance.horizon
        self.largest = jnp.maximum(state.prepared.capacity.max(), 1.0)
        self.vehicles = jnp.maximum(jnp.sum(state.prepared.capacity > 0, dtype=jnp.float32), 1.0)

    def place(self, place: jax.Array) -> jax.Array:
        """`f32[2, ...]`, from the middle of the area; along streets of places as of `located`."""
        return (place[:2] - self.middle.reshape(2, *[1] * (place.ndim - 1))) * self.per_length

    def share(self, time: jax.Array) -> jax.Array:
        """A time as a share of the horizon, within [-1, 1]."""
        return jnp.clip(time * self.per_time, -1.0, 1.0)


def static_vehicles(state: State) -> jax.Array:
    """`f32[6, V]`, the numbers of `VEHICLE_STATIC`; padding is 0."""
    instance, prepared, scales = state.prepared.fleet, state.prepared, _Scales(state)
    planes = [
        prepared.pace / scales.per_length * scales.per_time,
        prepared.capacity / scales.largest,
        instance.stop_time * scales.per_time,
        instance.turnaround * scales.per_time,
        scales.share(instance.max_trip),
        instance.is_drone.astype(jnp.float32),
    ]
    return jnp.where(prepared.capacity > 0, jnp.stack(planes), 0.0)


def dynamic_vehicles(state: State) -> jax.Array:
    """`f32[16, V]`, the numbers of `VEHICLE_DYNAMIC` and `TRIPS`; with zones `f32[22, V]`, `ROVING` not `TRIPS`.

    Padding is 0.
    """
    prepared, plans, found, scales = state.prepared, state.plans, state.offers, _Scales(state)
    left = jnp.min(jnp.where(plans.present, plans.stops[DEADLINE] - plans.start, jnp.inf), axis=-1)
    load = plans.aboard if prepared.fleet.depot is None else -jnp.sum(plans.stops[LOAD], axis=-1)
    place, goal = scales.place(plans.place), scales.place(plans.goal)
    planes = [
        jnp.ones_like(plans.free),
        place[0],
        place[1],
        jnp.maximum(plans.free - state.now, 0.0) * scales.per_time,
        rules.idle(state).astype(jnp.float32),
        goal[0],
        goal[1],
        plans.num_stops / plans.start.shape[-1],
        load / jnp.maximum(prepared.capacity, 1.0),
        scales.share(left),
        found.feasible.astype(jnp.float32),
        found.added * scales.per_time,
        *(
            # What begins now is rounded, and no time in the past.
            jnp.where(found.feasible, jnp.maximum(start - state.now, 0.0), 0.0) * scales.per_time
            for start in (found.pickup_start, found.dropoff_start)
        ),
        jnp.where(found.feasible, scales.share(found.slack), 0.0),
    ]
    planes += _trips(state, scales) if state.demand is None else _roving(state, scales)
    return jnp.where(prepared.capacity > 0, jnp.stack(planes), 0.0)


def _trips(state: State, scales: _Scales) -> list[jax.Array]:
    prepared, plans = state.prepared, state.plans
    has_plan, depot = plans.num_stops > 0, depot_of(state.prepared, 1)
    last = jnp.where(has_plan, at_position(plans.num_stops - 1, places_of(prepared, plans.stops)), depot)
    way, done_in = minutes_of_all(prepared, last, depot), cover.plan_ends(state)[1]
    turnaround = jnp.where(has_plan, prepared.fleet.turnaround, 0.0)
    return [(done_in + way + turnaround) * scales.per_time]


def _roving(state: State, scales: _Scales) -> list[jax.Array]:
    last, done_in = cover.plan_ends(state)
    choices = 1 + jnp.arange(state.offers.added.shape[0], dtype=jnp.int32)
    return [
        *scales.place(last),
        done_in * scales.per_time / cover.SOON,
        state.offers.added * scales.per_time / cover.SOON,
        (choices == rules.cheapest(state, state.offers.feasible)).astype(jnp.float32),
        *_spare(state),
    ]


def _spare(state: State) -> list[jax.Array]:
    return [jnp.minimum(cover.needed(state), 4.0), cover.is_spare(state).astype(jnp.float32)]


def static_zones(state: State) -> jax.Array:
    """`f32[2, Z]`, the numbers of `ZONE_STATIC`."""
    return _Scales(state).place(cover.middles(state))


def dynamic_zones(state: State) -> jax.Array:
    """`f32[6, Z]`, the numbers of `ZONE_DYNAMIC`."""
    instance, zones, vehicles = state.prepared.fleet, state.num_zones_each_way, _Scales(state).vehicles
    where = rules.zone_of(instance.area, zones, state.plans.goal)
    is_there = (where[:, None] == jnp.arange(zones * zones, dtype=jnp.int32)) & rules.idle(state)[:, None]
    waiting = jnp.sum(is_there, axis=0, dtype=jnp.float32)
    assert state.demand is not None
    share = state.demand / jnp.maximum(jnp.sum(state.demand), 1.0)
    covered = cover.cover(state)
    left = jnp.minimum(cover.need(cover.demand(state), covered), 4.0)
    is_target = (jnp.arange(1, zones * zones + 1, dtype=jnp.int32) == cover.target(state)).astype(jnp.float32)
    return jnp.stack([jnp.ones_like(share), share, waiting / vehicles, covered / vehicles, left, is_target])


def _day(state: State, scales: _Scales) -> list[jax.Array]:
    instance = state.prepared.fleet
    arrivals, since = state.prepared.table[:, COLUMNS["arrival"]], state.now - LATELY * instance.horizon
    lately = jnp.minimum(state.step + 1, state.prepared.num_requests) - count_until(arrivals, since)
    num_idle = jnp.sum(rules.idle(state), dtype=jnp.float32)
    return [
        state.now * scales.per_time,
        jnp.clip((instance.horizon - state.now) * scales.per_time, 0.0, 1.0),
        lately / scales.vehicles,
        jnp.sum(state.plans.num_stops, dtype=jnp.float32) / scales.vehicles / state.plans.start.shape[-1],
        num_idle / scales.vehicles,
    ]


def dispatcher_context(state: State) -> jax.Array:
    """`f32[15]`, the numbers of `DISPATCHER_CONTEXT`; those of the request are 0 when the day is over."""
    request, scales = state.request, _Scales(state)
    pickup, dropoff = scales.place(request.pickup), scales.place(request.dropoff)
    takers = jnp.sum(state.offers.feasible, dtype=jnp.float32)
    numbers = [
        *pickup,
        *dropoff,
        distance(request.pickup, request.dropoff) * scales.per_length,
        request.load / scales.largest,
        request.value,
        scales.share(request.pickup_deadline - state.now),
        scales.share(request.dropoff_deadline - state.now),
        takers / scales.vehicles,
    ]
    asked = jnp.where(request.exists, jnp.stack(numbers), 0.0)
    return jnp.concatenate([jnp.stack(_day(state, scales)), asked])


def driver_context(state: State) -> jax.Array:
    """`f32[V, 13]`, the numbers of `DRIVER_CONTEXT` of each vehicle; padding sees 0 of its own."""
    plans, scales = state.plans, _Scales(state)
    exists = state.prepared.capacity > 0
    idle = rules.idle(state).astype(jnp.float32)
    free_in = jnp.maximum(plans.free - state.now, 0.0) * scales.per_time
    columns = [*scales.place(plans.place), idle, *scales.place(plans.goal), free_in, *_spare(state)]
    day = jnp.stack(_day(state, scales))
    shared = jnp.broadcast_to(day, (exists.shape[0], day.shape[0]))
    return jnp.concatenate([jnp.where(exists[:, None], jnp.stack(columns, axis=-1), 0.0), shared], axis=-1)
