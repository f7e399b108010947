"""Ruin and recreate of rides, of many fleets side by side, by annealing.

A move takes rides near each other out of the plans that vehicles have not begun, of passengers aboard their drop-offs,
and inserts them one by one, in any order, by the exact test of `jaxvrp.envs.dispatch.routes.insertion`, about where
each costs least: the hotter, the more by chance (Gumbel noise, so vehicles are drawn by Boltzmann's law). It counts
only if all have a place, and by Metropolis's rule.

Arrays end with the axis of B fleets, so that kernels compute a vector of fleets at once, and moves keep the schedules
of all plans and compute those again that have changed. For sixteen fleets on one core, a move then takes about 18 us
each, where a round of `jaxvrp.envs.dispatch.routes.replan` takes 200.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.environment import select
from jaxvrp.envs.dispatch.baselines.annealing import Tours, annealed
from jaxvrp.envs.dispatch.routes.insertion import NEVER
from jaxvrp.envs.dispatch.routes.plans import (
    DEADLINE,
    EARLIEST,
    LOAD,
    REQUEST,
    Plans,
    Prepared,
    distance,
    driven,
    places_of,
)
from jaxvrp.envs.dispatch.routes.replan import FAR, Planned
from jaxvrp.envs.dispatch.routes.schedule import in_order, index_of, planned_travel

MOVES = 8
"""Moves of a round; they take about as long as a round of `parcels`."""

REMOVED = 3
"""Rides that a move takes out, at most."""

NEIGHBOURS, BIAS = 12, 2.0
"""Neighbours of a ride, and how much more often the nearest are taken out with it: the power of a uniform rank."""

AHEAD = 0.5
"""Kilometres, in minutes of travel, that rides are apart for each minute between them."""

X, Y, LEAVE, ARC, LATEST, PATH, CARRIED = range(7)
"""Planes of a schedule. Position k is before stop k, or behind the last one: there, the place before it, when a vehicle
leaves this, minutes to the stop, when it must be there at the latest (-inf where no position is), minutes of travel and
stops since the first stop, and the load on the way."""

PACE, STOP_TIME, CAPACITY, START_X, START_Y, FREE, ABOARD, SLACK = range(8)
"""Planes of a vehicle; the last is that of its day."""


class Rides(struct.PyTreeNode):
    """What moves read: N stops of all plans, and which of them can be taken out.

    Streets are between the stops and the places of vehicles, which come last; X of a stop and of a vehicle is its row.
    """

    vehicles: jax.Array  # `f32[8, V, B]`
    stops: jax.Array  # `f32[7, N, B]`
    dropoff: jax.Array  # `i32[N, B]`, of a pickup; -1 for other stops
    open: jax.Array  # `i32[N, B]`, numbers of pickups and of drop-offs of passengers aboard come first
    count: jax.Array  # `i32[B]`, how many
    near: jax.Array  # `i32[N, K, B]`, the nearest first; -1 where there are fewer
    streets: jax.Array | None = None  # `f32[(N + V)^2, B]`, minutes along streets; None where all drive straight


class RideTours(Tours):
    """Tours (`order`, `i32[S, V, B]`, and `travel`, `f32[V, B]`) and their schedules."""

    rows: jax.Array  # `f32[7, S + 1, V, B]`
    vehicle: jax.Array  # `i32[N, B]`, whose each stop that can be taken out is


class _Ride(struct.PyTreeNode):
    """Rides `[..., B]`."""

    number: jax.Array  # `i32[..., B]`, of the pickup, or of a drop-off alone; -1 for none
    dropoff_number: jax.Array  # `i32[..., B]`; -1 for a drop-off alone
    pickup: jax.Array  # `f32[7, ..., B]`, planes of the stop that `number` says
    dropoff: jax.Array  # `f32[7, ..., B]`

    @property
    def has_pickup(self) -> jax.Array:
        return self.dropoff_number >= 0


class _Changes(struct.PyTreeNode):
    """Other plans of R vehicles; where one comes twice, the later holds."""

    vehicle: jax.Array  # `i32[R, B]`, whose; -1 for none
    order: jax.Array  # `i32[S, R, B]`
    rows: jax.Array  # `f32[7, S + 1, R, B]`
    travel: jax.Array  # `f32[R, B]`


class _Position(struct.PyTreeNode):
    """What a position is to a ride; a drop-off alone is a whole ride."""

    whole: jax.Array  # minutes added by the whole ride there, inf where it does not fit
    pick_added: jax.Array  # minutes added by its pickup
    drop_added: jax.Array  # and by its drop-off
    pushed: jax.Array  # to when the first stop would be pushed, less its path
    room: jax.Array  # and to when it may be
    barrier: jax.Array  # inf where the vehicle is full, else -inf


def advance(
    prepared: Prepared, now: Planned, best: Planned, key: jax.Array, heats: jax.Array
) -> tuple[Planned, Planned]:
    """As `parcels.advance`; all of fleets `[B]`, and temperatures `f32[rounds, B]`."""
    rides = _last(jax.vmap(_rides)(prepared, now.plans))
    vehicles, size = now.plans.start.shape[1:]
    number = index_of(size * vehicles).reshape(size, vehicles, 1)
    order = jnp.where(jnp.moveaxis(now.plans.present, 0, -1).swapaxes(0, 1), number, -1)
    rows, travel = _scheduled(rides, rides.vehicles, order)
    vehicle = jnp.broadcast_to(number.ravel()[:, None] % vehicles, rides.dropoff.shape)

    dice = 2 * REMOVED + 1 + REMOVED * vehicles  # rides, their order, whether a move counts, and vehicles of each ride
    move, draws = functools.partial(_moved, rides), (MOVES, dice)
    first, keys = RideTours(order, travel, rows, vehicle), jax.random.split(key, heats.shape[0])
    found, shortest = annealed(move, draws, first, _last(best.travel), keys, heats, rides.vehicles[SLACK, 0])
    has_gained = jnp.sum(shortest.travel, axis=0) < jnp.sum(best.travel, axis=1)
    planned = jax.vmap(_planned, in_axes=(0, 0, -1))
    shorter = planned(prepared, now.plans, shortest.order)
    return planned(prepared, now.plans, found.order), select(has_gained, shorter, best)


def _last(tree: Any) -> Any:
    """With the axis of fleets last."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), tree)


def _rides(prepared: Prepared, plans: Plans) -> Rides:
    """Of one fleet, without the axis B."""
    stops, present = plans.stops.swapaxes(1, 2).reshape(plans.stops.shape[0], -1), plans.present.T.ravel()
    number = index_of(present.shape[0])
    is_other = (number[:, None] != number) & present[:, None] & present
    is_mate = is_other & (stops[REQUEST][:, None] == stops[REQUEST])
    dropoff = jnp.max(jnp.where(is_mate & (stops[LOAD] < 0), number, -1), axis=1)
    is_open = present & ((stops[LOAD] > 0) | ~is_mate.any(axis=1))
    start = jnp.where(present, plans.start.T.ravel(), 0.0)
    if prepared.factors is not None:  # what noise has made late already may stay as late as it is planned
        stops = stops.at[DEADLINE].max(start)
    place, streets = plans.place[:2], None
    if prepared.fleet.travel_time is None:
        way = distance(stops[:2, :, None], stops[:2, None, :]) * jnp.mean(prepared.pace)
    else:
        rows = jnp.concatenate([places_of(prepared, stops)[2], plans.place[2]])
        streets = driven(prepared, jnp.zeros(()), rows[:, None], rows, jnp.zeros((), bool))
        way, at = streets[: number.size, : number.size], jnp.arange(rows.size, dtype=jnp.float32)
        stops, place = stops.at[X].set(at[: number.size]), place.at[X].set(at[number.size :])
    way += AHEAD * jnp.abs(start[:, None] - start)
    way = jnp.where(is_other & is_open[:, None] & is_open, way, jnp.inf)
    least, near = jax.lax.top_k(-way, min(NEIGHBOURS, number.shape[0]))
    slack = jnp.broadcast_to(prepared.slack, plans.free.shape)
    fleet = prepared.pace, prepared.fleet.stop_time, prepared.capacity
    columns = (*fleet, *place, plans.free, plans.aboard, slack)
    return Rides(
        jnp.stack(columns),
        stops,
        dropoff,
        jnp.argsort(~is_open, stable=True).astype(jnp.int32),
        jnp.sum(is_open, dtype=jnp.int32),
        jnp.where(least > -jnp.inf, near, -1),
        None if streets is None else streets.ravel(),
    )


def _minutes(streets: jax.Array | None, vehicles: jax.Array, origin: jax.Array, target: jax.Array) -> jax.Array:
    """Minutes of vehicles (`f32[8, ...]`) between places (`f32[2, ...]`), `f32[..., B]`."""
    if streets is None:
        return distance(origin, target) * vehicles[PACE]
    number = origin[X].astype(jnp.int32) * math.isqrt(streets.shape[0]) + target[X].astype(jnp.int32)
    number = jnp.broadcast_to(number, jnp.broadcast_shapes(number.shape, vehicles.shape[1:]))
    return _at(streets, number)


def _planned(prepared: Prepared, plans: Plans, order: jax.Array) -> Planned:
    """The plans in this order (`i32[S, V]`)."""
    plans = in_order(prepared, plans, plans.stops.swapaxes(1, 2).reshape(plans.stops.shape[0], -1), order.T)
    return Planned(plans, planned_travel(prepared, plans))


def _moved(rides: Rides, now: RideTours, draws: jax.Array, heat: jax.Array) -> RideTours:
    """The tours after one move (`draws`, `f32[dice, B]`), if it is possible and short enough for the temperature."""
    drawn, order, acceptance, uniform = jnp.split(draws, (REMOVED, 2 * REMOVED, 2 * REMOVED + 1))
    numbers = jnp.take_along_axis(_drawn(rides, drawn), jnp.argsort(order, axis=0), axis=0)
    luck = -heat * jnp.log(-jnp.log(uniform.reshape(REMOVED, -1, heat.shape[0])))
    owners = _apart(rides, _owners, now, numbers)
    before = _Changes(owners, *(_of(owners, leaf) for leaf in (now.order, now.rows, now.travel)))
    ruined = _with(now, _ruined(rides, before, numbers))
    after, is_complete = _inserted(rides, ruined, numbers, luck)
    growth = jnp.sum(_put_in(ruined.travel, after.vehicle, after.travel), axis=0) - jnp.sum(now.travel, axis=0)
    is_kept = is_complete & (growth < -heat * jnp.log(acceptance[0]))
    # One pass over all rows: they get what has been put in, or back what has been taken out.
    tours, vehicle = _with(ruined, _apart(rides, _either, is_kept, after, before)), now.vehicle
    for number, owner in zip(numbers, after.vehicle, strict=True):
        is_moved = (index_of(vehicle.shape[0])[:, None] == number) & is_kept
        vehicle = jnp.where(is_moved, owner, vehicle)
    return tours.replace(vehicle=vehicle)


def _owners(tours: RideTours, numbers: jax.Array) -> jax.Array:
    return jnp.where(numbers >= 0, _at(tours.vehicle, numbers), -1)


def _either(condition: jax.Array, first: Any, second: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)


def _drawn(rides: Rides, draws: jax.Array) -> jax.Array:
    """`i32[REMOVED, B]`: any ride and some of its neighbours, -1 where one comes twice or there are fewer."""
    kth = jnp.minimum((draws[0] * rides.count).astype(jnp.int32), rides.count - 1)
    numbers = [_at(rides.open, kth)]
    neighbours = rides.near.shape[1]
    near = rides.near.reshape(-1, rides.near.shape[-1])
    for draw in draws[1:]:
        rank = jnp.minimum((draw**BIAS * neighbours).astype(jnp.int32), neighbours - 1)
        number = _at(near, numbers[0] * neighbours + rank)
        is_new = jnp.stack([number != other for other in numbers]).all(axis=0)
        numbers.append(jnp.where(is_new, number, -1))
    return jnp.stack(numbers)


def _at(table: jax.Array, number: jax.Array) -> jax.Array:
    """`[..., B]` of `[N, B]`; the first where the number is -1."""
    flat = jnp.maximum(number, 0).reshape(-1, number.shape[-1])
    return jnp.take_along_axis(table, flat, axis=0, mode="clip").reshape(number.shape)


def _of(vehicle: jax.Array, values: jax.Array) -> jax.Array:
    """`[..., R, B]` of `[..., V, B]`: those of vehicles `i32[R, B]`; the first where it is -1."""
    index = jnp.maximum(vehicle, 0).reshape(*[1] * (values.ndim - 2), *vehicle.shape)
    return jnp.take_along_axis(values, index, axis=-2, mode="clip")


def _steps(like: jax.Array) -> jax.Array:
    """The index along the first axis, shaped to be compared with `like`."""
    return index_of(like.shape[0]).reshape(-1, *[1] * (like.ndim - 1))


def _apart(rides: Rides, compute: Callable[..., Any], *args: Any) -> Any:
    """`compute(*args)`, stored: XLA would else compute it again in all the places that read it.

    It stores what a branch gives; the condition holds always.
    """
    shapes = jax.eval_shape(compute, *args)

    def never(*args: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    return jax.lax.cond(rides.count[0] >= 0, compute, never, *args)


def _scheduled(rides: Rides, vehicles: jax.Array, order: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Schedules `f32[7, S + 1, R, B]` and travel `f32[R, B]` of plans `i32[S, R, B]` of vehicles `f32[8, R, B]`."""
    stops, arc = _apart(rides, _legs, rides, vehicles, order)
    path, carried, least = _apart(rides, _sums, vehicles, order, stops, arc)
    most = _apart(rides, _most, least)
    return _apart(rides, _rows, vehicles, order, (stops, arc), (path, carried), most), jnp.sum(arc, axis=0)


def _legs(rides: Rides, vehicles: jax.Array, order: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Planes of the stops, `f32[7, S, R, B]`, and minutes of travel to each, `f32[S, R, B]`."""
    flat = jnp.maximum(order, 0).reshape(1, -1, order.shape[-1])
    found = jnp.take_along_axis(rides.stops, flat, axis=1, mode="clip").reshape(-1, *order.shape)
    before = jnp.concatenate([vehicles[START_X : START_Y + 1, None], found[:2, :-1]], axis=1)
    return found, jnp.where(order >= 0, _minutes(rides.streets, vehicles, before, found[:2]), 0.0)


def _sums(
    vehicles: jax.Array, order: jax.Array, stops: jax.Array, arc: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Minutes of path and load at each position, `f32[S, R, B]`, and `f32[S, 3, R, B]` for `_most`.

    That is when a stop could begin, less its path; from the last position on, what is left of the path at its deadline,
    with another sign; and the load.
    """
    is_first, exists = _steps(order) == 0, order >= 0
    steps = jnp.where(_positions(order) & ~is_first, arc + vehicles[STOP_TIME], 0.0)
    load = jnp.where(exists, stops[LOAD], 0.0)
    path, taken_on = _cumulated(jnp.stack([steps, load], axis=1)).swapaxes(0, 1)
    carried = vehicles[ABOARD] + taken_on - load
    earliest = jnp.where(exists, stops[EARLIEST], -FAR)
    earliest = jnp.where(is_first, jnp.maximum(earliest, vehicles[FREE] + arc[0]), earliest)
    due = jnp.where(exists, stops[DEADLINE], jnp.inf)
    return path, carried, jnp.stack([earliest - path, (path - due)[::-1], carried], axis=1)


def _cumulated(values: jax.Array) -> jax.Array:
    """Cumulative sums along the first axis; as a product with a triangle, which takes one kernel."""
    index = index_of(values.shape[0])
    triangle = (index[:, None] >= index).astype(jnp.float32)
    return jnp.tensordot(triangle, values, 1, precision=jax.lax.Precision.HIGHEST)


def _positions(order: jax.Array) -> jax.Array:
    """`bool[S, R, B]`: before a stop, or behind the last one."""
    exists = order >= 0
    return jnp.concatenate([jnp.ones_like(exists[:1]), exists[:-1]])


def _most(values: jax.Array) -> jax.Array:
    """The most up to each index of the first axis."""
    index = _steps(values)
    most = jnp.broadcast_to(values[0], values.shape)
    for step in range(1, values.shape[0]):
        most = jnp.where(index >= step, jnp.maximum(most, values[step]), most)
    return most


def _rows(
    vehicles: jax.Array, order: jax.Array, legs: tuple[jax.Array, ...], sums: tuple[jax.Array, ...], most: jax.Array
) -> jax.Array:
    """The schedule `f32[7, S + 1, R, B]`, from what `_legs`, `_sums` and `_most` give."""
    (stops, arc), (path, carried) = legs, sums
    latest = jnp.where(_positions(order), path - most[::-1, 1], -jnp.inf)
    carried = jnp.where(most[:, 2] > vehicles[CAPACITY], FAR, carried)
    last = jnp.zeros_like(arc[:1])
    ended = (stops[X], stops[Y], path + most[:, 0] + vehicles[STOP_TIME])
    behind = (
        jnp.concatenate([vehicles[None, k], plane]) for k, plane in zip((START_X, START_Y, FREE), ended, strict=True)
    )
    return jnp.stack([*behind, *(jnp.concatenate([values, last]) for values in (arc, latest, path, carried))])


def _ruined(rides: Rides, before: _Changes, numbers: jax.Array) -> _Changes:
    """Plans without rides `i32[REMOVED, B]`."""
    out = [*numbers, *jnp.where(numbers >= 0, _at(rides.dropoff, numbers), -1)]
    order = _apart(rides, _without, before.order, jnp.stack(out))
    return _Changes(before.vehicle, order, *_scheduled(rides, _of(before.vehicle, rides.vehicles), order))


def _without(order: jax.Array, out: jax.Array) -> jax.Array:
    """Orders without some stops, the others in their order."""
    size = order.shape[0]
    kept = order >= 0
    for number in out:
        kept &= order != number
    rank = _cumulated(kept.astype(jnp.float32)) - 1.0
    shorter = jnp.full_like(order, -1)
    for step in range(size):
        shorter = jnp.where(kept[step] & (rank[step] == _steps(order)), order[step], shorter)
    return shorter


def _put_in(old: jax.Array, vehicle: jax.Array, new: jax.Array) -> jax.Array:
    """`[..., V, B]` with `[..., R, B]` for vehicles `i32[R, B]`."""
    for number in range(vehicle.shape[0]):
        is_there = index_of(old.shape[-2])[:, None] == vehicle[number]
        old = jnp.where(is_there, new[..., number : number + 1, :], old)
    return old


def _with(tours: RideTours, changes: _Changes) -> RideTours:
    return tours.replace(
        order=_put_in(tours.order, changes.vehicle, changes.order),
        rows=_put_in(tours.rows, changes.vehicle, changes.rows),
        travel=_put_in(tours.travel, changes.vehicle, changes.travel),
    )


def _inserted(rides: Rides, tours: RideTours, numbers: jax.Array, luck: jax.Array) -> tuple[_Changes, jax.Array]:
    """Plans with rides (`i32[R, B]`, -1 for none), and whether all fit; `luck`, `f32[R, V, B]`, minutes.

    All rides are tried in all tours at once; when one is in, all are tried again in the plan that it changed.
    """
    batch = _apart(rides, _ride, rides, numbers)
    index = index_of(luck.shape[1])[:, None]
    is_allowed = batch.has_pickup[:, None] | (index == _at(tours.vehicle, numbers)[:, None])
    luck = jnp.where(is_allowed, luck, -jnp.inf)
    for_all = jax.tree.map(lambda leaf: leaf[..., None, :], batch)
    plans = rides.vehicles[:, None], tours.order[:, None], tours.rows[:, :, None]
    rank = _apart(rides, _least_of_plans, rides.streets, *plans, for_all) - luck
    is_complete, done = rides.count > 0, list[_Changes]()
    for step, number in enumerate(numbers):
        fits, vehicle = jnp.min(rank[step], axis=0) < jnp.inf, jnp.argmin(rank[step], axis=0).astype(jnp.int32)[None]
        planes = _of(vehicle, rides.vehicles)
        order, rows = _plan(tours, done, vehicle)
        ride = jax.tree.map(lambda leaf, step=step: leaf[..., step : step + 1, :], batch)
        at = _apart(rides, _parts, rides.streets, planes, order, rows, ride)
        order = _apart(rides, _longer, planes, order, ride, at, _apart(rides, _least_by_pickup, at))
        rows, travel = _scheduled(rides, planes, order)
        vehicle = jnp.where(fits & (number >= 0), vehicle, -1)
        done.append(_Changes(vehicle, order, rows, travel))
        is_complete &= fits | (number < 0)
        if step + 1 < len(numbers):
            parts = _apart(rides, _parts, rides.streets, planes, order, rows, batch)
            least = _apart(rides, _least_by_pickup, parts)
            rank = jnp.where(index == vehicle, jnp.min(least, axis=0)[:, None] - luck, rank)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=-2), *done), is_complete


def _plan(tours: RideTours, done: list[_Changes], vehicle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Order `i32[S, 1, B]` and schedule `f32[7, S + 1, 1, B]` of a vehicle `i32[1, B]` after changes of one each."""
    order, rows = _of(vehicle, tours.order), _of(vehicle, tours.rows)
    for changes in done:
        is_there = changes.vehicle == vehicle
        order, rows = jnp.where(is_there, changes.order, order), jnp.where(is_there, changes.rows, rows)
    return order, rows


def _ride(rides: Rides, number: jax.Array) -> _Ride:
    dropoff_number = jnp.where(number >= 0, _at(rides.dropoff, number), -1)
    last = jnp.where(dropoff_number >= 0, dropoff_number, number)
    pair = jnp.maximum(jnp.concatenate([number, last]), 0)[None]
    pickup, dropoff = jnp.split(jnp.take_along_axis(rides.stops, pair, axis=1, mode="clip"), 2, axis=1)
    return _Ride(number, dropoff_number, pickup, dropoff)


def _parts(streets: jax.Array | None, vehicles: jax.Array, order: jax.Array, rows: jax.Array, ride: _Ride) -> _Position:
    """All positions of plans, each part `[S, R, B]`."""
    ride = ride.replace(pickup=ride.pickup[:, None], dropoff=ride.dropoff[:, None])
    at = _position(streets, vehicles, order >= 0, rows[:, :-1], rows[:2, 1:], ride)
    has_room = jnp.where(ride.has_pickup, order[-2], order[-1]) < 0
    return at.replace(whole=jnp.where(has_room, at.whole, jnp.inf), pushed=jnp.where(has_room, at.pushed, jnp.inf))


def _position(
    streets: jax.Array | None, vehicles: jax.Array, leads_on: jax.Array, row: jax.Array, after: jax.Array, ride: _Ride
) -> _Position:
    """Of planes of a schedule (`row`), and the place `after`, if it leads on to one."""
    stop_time, slack, has_pickup = vehicles[STOP_TIME], vehicles[SLACK], ride.has_pickup

    def fit(stop: jax.Array) -> tuple[jax.Array, ...]:
        way = _minutes(streets, vehicles, row[:2], stop[:2])
        way_on = jnp.where(leads_on, _minutes(streets, vehicles, stop[:2], after), 0.0)
        begin = _later(stop[EARLIEST], row[LEAVE] + way)
        fits = (begin <= stop[DEADLINE] + slack) & (begin + stop_time + way_on <= row[LATEST] + slack)
        return way, way_on, begin, fits

    way = _minutes(streets, vehicles, ride.pickup[:2], ride.dropoff[:2])
    pick_way, pick_on, pick_begin, pick_fits = fit(ride.pickup)
    drop_way, drop_on, _, drop_fits = fit(ride.dropoff)
    is_full = row[CARRIED] + jnp.where(has_pickup, ride.pickup[LOAD], 0.0) > vehicles[CAPACITY]
    begin_next = _later(ride.dropoff[EARLIEST], pick_begin + jnp.where(has_pickup, stop_time + way, 0.0))
    fits = (pick_begin <= ride.pickup[DEADLINE] + slack) & (begin_next <= ride.dropoff[DEADLINE] + slack) & ~is_full
    fits &= begin_next + stop_time + drop_on <= row[LATEST] + slack
    pushed = jnp.where(pick_fits & has_pickup & ~is_full, pick_begin + stop_time + pick_on - row[PATH], jnp.inf)
    room = _sooner(jnp.minimum(ride.dropoff[DEADLINE], NEVER), row[LATEST] - stop_time - drop_on) + slack
    return _Position(
        jnp.where(fits, pick_way + way + drop_on - row[ARC], jnp.inf),
        pick_way + pick_on - row[ARC],
        drop_way + drop_on - row[ARC],
        pushed,
        jnp.where(drop_fits, room - drop_way - (row[PATH] - row[ARC]), -jnp.inf),
        jnp.where(is_full, jnp.float32(jnp.inf), -jnp.inf),
    )


def _sooner(a: Any, b: Any) -> jax.Array:
    """The less; `jnp.minimum` takes five instructions more, as it minds NaN."""
    a, b = jnp.broadcast_arrays(a, b)
    return jax.lax.select(a < b, a, b)  # `jnp.where` is a function to compile, in each of hundreds of places


def _later(a: Any, b: Any) -> jax.Array:
    a, b = jnp.broadcast_arrays(a, b)
    return jax.lax.select(a > b, a, b)


def _least_of_plans(
    streets: jax.Array | None, vehicles: jax.Array, order: jax.Array, rows: jax.Array, ride: _Ride
) -> jax.Array:
    """The least minutes that rides add to plans, inf where they do not fit.

    Position by position and pair by pair: XLA makes one kernel of it, which stores nothing.
    """
    steps = range(order.shape[0])
    positions = [_position(streets, vehicles, order[k] >= 0, rows[:, k], rows[:2, k + 1], ride) for k in steps]
    never = jnp.full_like(positions[0].room, jnp.inf)
    least = never
    for step, at in enumerate(positions):
        pushed, drop = at.pushed, never
        for later in positions[step + 1 :]:
            pushed = _later(pushed, later.barrier)
            drop = _sooner(drop, jax.lax.select(pushed <= later.room, later.drop_added, never))
        least = _sooner(least, _sooner(at.whole, at.pick_added + drop))
    has_room = jnp.where(ride.has_pickup, order[-2], order[-1]) < 0
    return jnp.where(has_room, least, jnp.inf)


def _least_by_pickup(at: _Position) -> jax.Array:
    """The least minutes that a ride adds with its pickup at each position, `[S, ...]`; inf where it can't be."""
    index, least, pushed = _steps(at.whole), jnp.full_like(at.whole, jnp.inf), at.pushed
    for later in range(1, at.whole.shape[0]):
        is_behind = index < later
        pushed = jnp.where(is_behind, jnp.maximum(pushed, at.barrier[later]), pushed)
        fits = is_behind & (pushed <= at.room[later])
        least = jnp.minimum(least, jnp.where(fits, at.drop_added[later], jnp.inf))
    return jnp.minimum(at.whole, at.pick_added + least)


def _longer(vehicles: jax.Array, order: jax.Array, ride: _Ride, at: _Position, least: jax.Array) -> jax.Array:
    """The order of a vehicle (`i32[S, 1, B]`) with a ride where it costs least, the first of about the same."""
    index, size = _steps(order), order.shape[0]

    def first_of(condition: jax.Array) -> jax.Array:
        return jnp.min(jnp.where(condition, index, size - 1), axis=0)

    best = jnp.min(least, axis=0) + vehicles[SLACK]
    first = first_of(least <= best)
    is_first = index == first

    def there(values: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(is_first, values, 0.0), axis=0)

    full_from = jnp.min(jnp.where((at.barrier > 0) & (index > first), index, size), axis=0)
    fits = (index > first) & (index < full_from) & (there(at.pushed) <= at.room)
    by_drop = jnp.where(is_first, at.whole, jnp.where(fits, there(at.pick_added) + at.drop_added, jnp.inf))
    second = first_of(by_drop <= best) + 1
    longer = _put(order, first, ride.number)
    return jnp.where(ride.has_pickup, _put(longer, second, ride.dropoff_number), longer)


def _put(order: jax.Array, position: jax.Array, number: jax.Array) -> jax.Array:
    index = _steps(order)
    behind = jnp.concatenate([order[:1], order[:-1]])
    return jnp.where(index == position, number, jnp.where(index < position, order, behind))
