"""Plans of vehicles: what they hold, and what becomes of them when a request is added and when time passes.

What a vehicle has begun can't be changed, so it is not part of its plan: `place` and `free` say where and when the
vehicle is free again. A ride's vehicle has begun a stop as soon as it drives there. A vehicle with a depot begins a
trip when it loads; it then has no plan for the stops of that trip.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, Instance, row_of_end, slack_of, street_pace
from jaxvrp.envs.dispatch.routes.noise import Factors, Lateness, UnderWay, factors
from jaxvrp.rows import columns_at, entries_at, entries_within, rows_at

X, Y, EARLIEST, DEADLINE, LOAD, REQUEST, DUE = range(7)
"""Planes of a stop. LOAD is taken on, or less than 0 if left; DUE is when a stop without any delay would begin, or with
a depot when its parcel can be loaded: no earlier than it is ordered, nor than `pickup_earliest`."""

NUM_PLANES = 7

LONGER = 1.1
"""How much longer than the direct way one by way of a place may be where a vehicle can turn."""


COLUMNS: dict[str, int | slice] = {
    "arrival": 0,
    "pickup": slice(1, 3),
    "dropoff": slice(3, 5),
    "pickup_earliest": 6,
    "pickup_deadline": 7,
    "dropoff_earliest": 8,
    "dropoff_deadline": 9,
    "value": 10,
}
"""Where the numbers of requests are in the table; loads are in `LOADS`."""

LOADS = 5


class Request(struct.PyTreeNode):
    """One request: places `f32[2]`, all else `f32[]`; `index` is its number."""

    index: jax.Array
    exists: jax.Array
    arrival: jax.Array
    pickup: jax.Array
    dropoff: jax.Array
    load: jax.Array
    pickup_earliest: jax.Array
    pickup_deadline: jax.Array
    dropoff_earliest: jax.Array
    dropoff_deadline: jax.Array
    value: jax.Array

    @property
    def released(self) -> jax.Array:
        """`f32[]`, when its parcel can be loaded."""
        return jnp.maximum(self.arrival, self.pickup_earliest)


class Prepared(struct.PyTreeNode):
    """A day and what follows from it."""

    fleet: Instance  # the day without its requests
    pace: jax.Array  # `f32[V]`, minutes for a straight kilometre, as planned; along streets, on average
    capacity: jax.Array  # `f32[V]`
    table: jax.Array  # `f32[R, 11]`, the numbers of each request, see `COLUMNS`
    num_requests: jax.Array  # `i32[]`, without padding
    slack: jax.Array  # `f32[]`, minutes by which a deadline may be missed, and plans that are alike differ
    factors: Factors | None = None  # of travel times; None without `travel_noise`

    @property
    def instance(self) -> Instance:
        """The day."""
        columns = {name: self.table[..., column] for name, column in COLUMNS.items()}
        return self.fleet.replace(**columns, load=self.table[..., LOADS].astype(np.int32))

    def row_of(self, request: jax.Array, is_pickup: jax.Array | bool) -> jax.Array:
        """`f32[...]`, the rows of the matrix as of `Instance.row_of`; requests are `f32[...]`."""
        sizes = None if self.fleet.depot is not None else (self.capacity.shape[-1], self.table.shape[-2])
        row: jax.Array = row_of_end(request, is_pickup, sizes)
        return row

    def request(self, index: jax.Array) -> Request:
        """That of this number (`i32[]`)."""
        row = rows_at(self.table, index)
        columns = {name: row[column] for name, column in COLUMNS.items()}
        return Request(index=index.astype(jnp.float32), exists=row[LOADS] > 0, load=row[LOADS], **columns)


def prepare(instance: Instance, travel_noise: float = 0.0, reserve: float | jax.Array = 0.5) -> Prepared:
    """A day of JAX arrays (no leading axes) and what follows from it; the last two as in `Dispatch`."""
    numbers = [
        instance.load.astype(jnp.float32),
        instance.pickup_earliest,
        instance.pickup_deadline,
        instance.dropoff_earliest,
        instance.dropoff_deadline,
        instance.value,
    ]
    columns = [instance.arrival[:, None], instance.pickup, instance.dropoff, jnp.stack(numbers, axis=1)]
    of_requests = dict.fromkeys((*COLUMNS, "load"))
    pace, drawn = MINUTES_PER_HOUR * instance.detour / instance.speed, None
    if instance.travel_time is not None:
        pace = jnp.where(instance.is_drone, pace, street_pace(instance))
    if travel_noise > 0:
        drawn = factors(instance, travel_noise, reserve)
        pace = pace * drawn.planned
    return Prepared(
        fleet=instance.replace(**of_requests, travel_distance=None),
        pace=pace,
        capacity=instance.capacity.astype(jnp.float32),
        table=jnp.concatenate(columns, axis=1),
        num_requests=jnp.sum(instance.load > 0, dtype=jnp.int32),
        slack=slack_of(instance),
        factors=drawn,
    )


class Plans(struct.PyTreeNode):
    """What V vehicles are going to do, up to S stops each.

    `released` follows from `stops`, but is asked for several times a step; it is 0 of drones, and without a plan.
    """

    place: jax.Array  # `f32[2, V]`, where a vehicle is free next; with a depot, there; along streets as of `located`
    free: jax.Array  # `f32[V]`, when; with a depot, when it can load
    aboard: jax.Array  # `f32[V]`, its load then
    goal: jax.Array  # the same, where it goes if it has no plan; its place, if it waits there
    stops: jax.Array  # `f32[7, V, S]`, the planes of its stops in their order, 0 where there is none
    start: jax.Array  # `f32[V, S]`, when service begins there; inf where there is none
    released: jax.Array | None = None  # `f32[V]`, when all parcels of a plan are there; None without a depot
    under_way: UnderWay | None = None  # what vehicles have begun and not ended; None without noise

    @property
    def present(self) -> jax.Array:
        """`bool[V, S]`, where there is a stop."""
        return self.start < jnp.inf

    @property
    def num_stops(self) -> jax.Array:
        """`i32[V]`."""
        return jnp.sum(self.present, axis=-1, dtype=jnp.int32)


def at_position(position: jax.Array, values: jax.Array) -> jax.Array:
    """`f32[..., V]` from `f32[..., V, S]`, at one position of each vehicle (`i32[V]`); at the nearest there is."""
    position = jnp.clip(jnp.broadcast_to(position[:, None], (*values.shape[:-1], 1)), 0, values.shape[-1] - 1)
    return entries_at(values, position)[..., 0]


class Begun(struct.PyTreeNode):
    """What vehicles began in a span of time.

    With a depot, requests wait since their parcels could be loaded, until they were, and are delayed until drop-off.
    """

    wait: jax.Array  # `f32[]`, minutes from the arrival of requests until their pickups
    delay: jax.Array  # `f32[]`, minutes of drop-offs beyond a direct ride at once
    by_drone: jax.Array  # `f32[]`, drop-offs by drones
    broken: jax.Array  # `f32[]`, promises that will not be kept
    travel: jax.Array  # `f32[V]`, minutes driven without a plan; with noise, also those of legs that have ended
    late: Lateness | None = None  # what came late; None without noise


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Straight kilometres between places, `f32[2, ...]` and `f32[2, ...]` to `f32[...]`."""
    gap = a - b
    return jnp.sqrt(gap[0] * gap[0] + gap[1] * gap[1])


def located(prepared: Prepared, place: jax.Array, number: jax.Array | float) -> jax.Array:
    """Places (`f32[2, ...]`) as `minutes` needs them: along streets with their rows of the matrix, `f32[3, ...]`."""
    if prepared.fleet.travel_time is None:
        return place
    row = jnp.broadcast_to(jnp.asarray(number, jnp.float32), place.shape[1:])
    return jnp.concatenate([place, row[None]])


def places_of(prepared: Prepared, stops: jax.Array) -> jax.Array:
    """Where stops (`f32[7, ...]`) are, `f32[2, ...]`; along streets as of `located`."""
    return located(prepared, stops[:2], prepared.row_of(stops[REQUEST], stops[LOAD] > 0))


def ends_of(prepared: Prepared, request: Request) -> tuple[jax.Array, jax.Array]:
    """Where a request is picked up and dropped off, `f32[2]`; along streets as of `located`."""
    pickup, dropoff = (prepared.row_of(request.index, is_pickup) for is_pickup in (True, False))
    return located(prepared, request.pickup, pickup), located(prepared, request.dropoff, dropoff)


def depot_of(prepared: Prepared, axes: int) -> jax.Array:
    """Where the depot is, `f32[2, 1, ...]` with so many axes of length 1; along streets as of `located`."""
    depot = prepared.fleet.depot
    assert depot is not None
    return located(prepared, depot.reshape(2, *[1] * axes), 0.0)


def driven(
    prepared: Prepared, straight: jax.Array, origin: jax.Array, target: jax.Array, is_drone: jax.Array
) -> jax.Array:
    """Minutes as planned, `f32[...]`: along the streets of a day that has some, and `straight` for drones.

    Places have their numbers in the matrix, `f32[...]` or `i32[...]`.
    """
    streets = prepared.fleet.travel_time
    if streets is None:
        return straight
    number = origin.astype(jnp.int32) * streets.shape[-1] + target.astype(jnp.int32)
    way = jnp.take(streets.ravel(), number, mode="clip")
    return jnp.where(is_drone, straight, way if prepared.factors is None else way * prepared.factors.planned)


def minutes(
    prepared: Prepared, origin: jax.Array, target: jax.Array, pace: jax.Array, is_drone: jax.Array
) -> jax.Array:
    """Minutes between places, as planned, of vehicles with such a pace: `f32[...]`.

    Places are as of `located`; drones go straight.
    """
    straight = distance(origin, target) * pace
    if prepared.fleet.travel_time is None:
        return straight
    return driven(prepared, straight, origin[2], target[2], is_drone)


def minutes_of_all(prepared: Prepared, origin: jax.Array, target: jax.Array) -> jax.Array:
    """The same of each vehicle, `f32[V, ...]`; the axis after that of the coordinates is that of vehicles."""
    shape = (-1, *[1] * (max(origin.ndim, target.ndim) - 2))
    return minutes(prepared, origin, target, prepared.pace.reshape(shape), prepared.fleet.is_drone.reshape(shape))


def mean_minutes(prepared: Prepared, origin: jax.Array, target: jax.Array) -> jax.Array:
    """The same on average, `f32[V]`, between places `f32[2]` or `f32[2, V]`, as of `located`."""
    if prepared.fleet.travel_time is None:
        pace = prepared.pace if prepared.factors is None else prepared.pace / prepared.factors.planned
        return distance(origin, target) * pace
    planned = minutes_of_all(prepared, origin, target)
    return planned if prepared.factors is None else planned / prepared.factors.planned


def begin(prepared: Prepared, max_stops: int) -> Plans:
    """No plans: all vehicles wait at their start, or at the depot."""
    instance, under_way = prepared.fleet, None
    vehicles = instance.num_vehicles
    if instance.depot is None:
        place = located(prepared, instance.start.T, jnp.arange(vehicles))
    else:
        place = located(prepared, jnp.broadcast_to(instance.depot[:, None], (2, vehicles)), 0.0)
    if prepared.factors is not None:
        under_way = UnderWay(
            stops=jnp.zeros((NUM_PLANES, vehicles, 1 if instance.depot is None else max_stops), jnp.float32),
            count=jnp.zeros(vehicles, jnp.int32),
            origin=place,
            left=jnp.zeros(vehicles, jnp.float32),
            leg=jnp.zeros(vehicles, jnp.int32),
        )
    return Plans(
        place=place,
        free=jnp.zeros(vehicles, jnp.float32),
        aboard=jnp.zeros(vehicles, jnp.float32),
        goal=place,
        stops=jnp.zeros((NUM_PLANES, vehicles, max_stops), jnp.float32),
        start=jnp.full((vehicles, max_stops), jnp.inf, jnp.float32),
        released=None if instance.depot is None else jnp.zeros(vehicles, jnp.float32),
        under_way=under_way,
    )


def way_home(prepared: Prepared, plans: Plans) -> jax.Array:
    """`f32[V, S]`, minutes from each stop to the depot."""
    return minutes_of_all(prepared, places_of(prepared, plans.stops), depot_of(prepared, 2))


def loads_at(plans: Plans) -> jax.Array:
    """`f32[V]`, when a vehicle of a depot loads all parcels of its plan: as soon as it and they are there."""
    assert plans.released is not None
    return jnp.maximum(plans.free, plans.released)


def leaves(prepared: Prepared, plans: Plans) -> jax.Array:
    """`f32[V, S]`, when a vehicle leaves for each stop; with a depot, when it begins to load for that trip."""
    instance = prepared.fleet
    ended = plans.start + instance.stop_time[:, None]
    if instance.depot is not None:
        ended += way_home(prepared, plans) + instance.turnaround[:, None]
    one_by_one = jnp.concatenate([plans.free[:, None], ended[:, :-1]], axis=1)
    if instance.depot is None:
        return one_by_one
    one_by_one = jnp.maximum(one_by_one, plans.stops[DUE])
    return jnp.where(instance.is_drone[:, None], one_by_one, loads_at(plans)[:, None])


def begins_by(prepared: Prepared, departs: jax.Array, start: jax.Array, until: jax.Array) -> jax.Array:
    """`bool[V, S]`: whether stops with these departures and starts (`f32[V, S]`) are begun by `until` (`f32[]`).

    A vehicle that is free at this very moment has not left yet, so its first stop can still change. With a depot it has
    left: loading is service, and what has begun is done.
    """
    return departs <= until if prepared.fleet.depot is not None else (departs < until) | (start <= until)


class Span(NamedTuple):
    """What time has passed."""

    since: jax.Array  # `f32[]`, the clock before
    until: jax.Array  # `f32[]`, what has begun by then leaves the plans; inf for all
    now: jax.Array  # `f32[]`, the clock then, finite
    turns: jax.Array | None = None  # as of `drifted`


def advance(prepared: Prepared, plans: Plans, span: Span) -> tuple[Plans, Begun]:
    """What plans are left when time has passed, and what was begun meanwhile."""
    instance, load, granted = prepared.fleet, plans.stops[LOAD], 2 * prepared.slack
    begun = plans.present & begins_by(prepared, leaves(prepared, plans), plans.start, span.until)
    count = jnp.sum(begun, axis=-1, dtype=jnp.int32)
    after_due = jnp.where(begun, plans.start - plans.stops[DUE], 0.0)
    wait, delay = jnp.sum(jnp.where(load > 0, after_due, 0.0)), jnp.sum(jnp.where(load > 0, 0.0, after_due))
    broken = jnp.sum(begun & (plans.start > plans.stops[DEADLINE] + granted), dtype=jnp.float32)
    by_drone = jnp.sum(begun & (load < 0) & instance.is_drone[:, None], dtype=jnp.float32)
    place, any_begun = plans.place, count > 0
    if instance.depot is None:
        place = jnp.where(any_begun, at_position(count - 1, places_of(prepared, plans.stops)), place)
        free = at_position(count - 1, plans.start) + instance.stop_time
    else:
        wait = jnp.sum(jnp.where(begun, leaves(prepared, plans) - plans.stops[DUE], 0.0))
        home = at_position(count - 1, plans.start + instance.stop_time[:, None] + way_home(prepared, plans))
        broken += jnp.sum(any_begun & (home > instance.latest_return + granted), dtype=jnp.float32)
        free = home + instance.turnaround
    left = without_first(plans, count).replace(free=jnp.where(any_begun, free, plans.free))
    left, drift = gone_on(prepared, plans, left, begun, place, span)
    return left, Begun(wait, delay, by_drone, broken, drift)


def gone_on(
    prepared: Prepared, plans: Plans, left: Plans, begun: jax.Array, place: jax.Array, span: Span
) -> tuple[Plans, jax.Array]:
    """The plans that are left of `plans` after those stops, `bool[V, S]`, with the vehicles where they are free next.

    And the minutes that they drove without a plan (`f32[V]`). With a depot, a vehicle that waits for a parcel loads no
    sooner than now: it may go to another vehicle.
    """
    if prepared.fleet.depot is not None:
        return left.replace(free=jnp.maximum(left.free, span.now)), jnp.zeros_like(left.free)
    aboard = plans.aboard + jnp.sum(jnp.where(begun, plans.stops[LOAD], 0.0), axis=-1)
    any_begun = jnp.sum(begun, axis=-1, dtype=jnp.int32) > 0  # as it is counted elsewhere, too
    goal = jnp.where(any_begun, place, plans.goal)
    return drifted(prepared, left.replace(place=place, goal=goal, aboard=aboard), span)


def drifted(prepared: Prepared, plans: Plans, span: Span) -> tuple[Plans, jax.Array]:
    """Vehicles without a plan on their way to their goal after a span, and the minutes that they drove (`f32[V]`).

    Along streets they can turn at places only: who has left for one is free there, and its way counts at once. On the
    way to a goal this is the next of `turns` (`f32[3, Z]`, as of `located`) that is near the way.
    """
    idle, now, turns = plans.num_stops == 0, span.now, span.turns
    if prepared.fleet.travel_time is not None:
        leaves_now = idle & (plans.place[2] != plans.goal[2]) & (plans.free < now)
        turn = plans.goal if turns is None else _next_turn(prepared, plans, turns)
        drift = jnp.where(leaves_now, mean_minutes(prepared, plans.place, turn), 0.0)
        free = jnp.where(idle, jnp.maximum(plans.free + drift, now), plans.free)
        return plans.replace(place=jnp.where(leaves_now, turn, plans.place), free=free), drift
    way = mean_minutes(prepared, plans.place, plans.goal)
    drift = jnp.where(idle, jnp.clip(now - plans.free, 0.0, way), 0.0)
    there = drift >= way
    share = drift / jnp.where(way > 0, way, 1.0)
    between = jnp.where(there, plans.goal, plans.place + share * (plans.goal - plans.place))
    place = jnp.where(idle, between, plans.place)
    return plans.replace(place=place, free=jnp.where(idle, jnp.maximum(plans.free, now), plans.free)), drift


def _next_turn(prepared: Prepared, plans: Plans, turns: jax.Array) -> jax.Array:
    """`f32[3, V]`, the first of `turns` by way of which a vehicle takes little longer to its goal; else the goal."""
    place, goal = plans.place[..., None], plans.goal[..., None]
    there, onward, direct = (
        minutes_of_all(prepared, origin, target)
        for origin, target in ((place, turns[:, None]), (turns[:, None], goal), (place, goal))
    )
    is_near = (there > 0.0) & (onward < direct) & (there + onward <= LONGER * direct)
    there = jnp.where(is_near, there, jnp.inf)
    nearest = columns_at(turns, jax.lax.argmin(there, 1, jnp.int32))
    return jnp.where(is_near.any(axis=1), nearest, plans.goal)


def without_first(plans: Plans, count: jax.Array) -> Plans:
    """The plans without their first `count` (`i32[V]`) stops; with a depot, only drones keep some of several."""
    size = plans.start.shape[-1]
    source = jnp.arange(size, dtype=jnp.int32) + count[:, None]
    start = jnp.where(source < size, entries_within(plans.start, source), jnp.inf)
    released = None if plans.released is None else jnp.where(count > 0, 0.0, plans.released)
    return plans.replace(stops=entries_within(plans.stops, source[None]), start=start, released=released)
