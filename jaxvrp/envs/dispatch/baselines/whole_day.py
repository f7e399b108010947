"""Routes of a whole day whose requests are all known: when stops are served, and where one more request fits best.

A vehicle without a depot may drive to a pickup before the request arrives, and picks up no earlier. A parcel is loaded
no earlier than it is there; a vehicle may wait for it at the depot. So whatever a player does can be done here, too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.dispatch.routes.insertion import offers
from jaxvrp.envs.dispatch.routes.plans import Plans, Prepared, Request, distance, driven, located
from jaxvrp.envs.dispatch.routes.schedule import index_of, sums

WINDOW = 12
"""Stops of a ride's vehicle among which a request is inserted: those around its time."""

Planes = dict[str, jax.Array]


class Row(struct.PyTreeNode):
    """The stops of a vehicle in their order."""

    number: jax.Array  # `i32[L]`, of which request; -1 behind the last stop
    mark: jax.Array  # `bool[L]`: a pickup, or with a depot the first stop of a trip


class Routes(struct.PyTreeNode):
    """Stops of V vehicles."""

    row: Row  # `[V, L]`
    planes: Planes  # `f32[V, L]` each, what insertion reads; `start` is when service begins
    travel: jax.Array  # `f32[V]`, minutes


class Place(struct.PyTreeNode):
    """Where a request fits best: whether anywhere (`bool[]`), with which vehicle (`i32[]`), and its stops then."""

    exists: jax.Array
    vehicle: jax.Array
    row: Row


def timed(prepared: Prepared, vehicle: jax.Array, row: Row) -> Routes:
    """The route of one vehicle (`i32[]`), every stop as early as it can be."""
    time = _time_rides if prepared.fleet.depot is None else _time_parcels
    return time(prepared, vehicle, row)


def best_place(prepared: Prepared, routes: Routes, request: Request, luck: jax.Array) -> Place:
    """Where the request adds least minutes, times `luck` (`f32[V]`)."""
    find = _place_rides if prepared.fleet.depot is None else _place_parcels
    return find(prepared, routes, request, luck)


def _put(row: Row, position: jax.Array, number: jax.Array, mark: jax.Array | bool) -> Row:
    """The row with one stop more, before the one at `position`."""
    index = index_of(row.number.shape[-1])

    def put(old: jax.Array, new: jax.Array | bool) -> jax.Array:
        return jnp.where(index < position, old, jnp.where(index == position, new, jnp.roll(old, 1)))

    return Row(put(row.number, number), put(row.mark, mark))


def _row_of(routes: Routes, vehicle: jax.Array) -> Row:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, vehicle, keepdims=False), routes.row)


def _shifted(values: jax.Array, first: jax.Array | float) -> jax.Array:
    """The values of the stops before, along the last axis."""
    first = jnp.broadcast_to(first, values[..., :1].shape)
    return jnp.concatenate([first, values[..., :-1]], axis=-1)


# Rides.


def _time_rides(prepared: Prepared, vehicle: jax.Array, row: Row) -> Routes:
    instance, exists = prepared.instance, row.number >= 0
    pace, stop_time, origin = prepared.pace[vehicle], instance.stop_time[vehicle], instance.start[vehicle]
    table = jnp.take(prepared.table, jnp.maximum(row.number, 0), axis=0).T
    pick, drop = table[jnp.array([1, 2, 5, 6, 7])], table[jnp.array([3, 4, 5, 8, 9])]
    x, y, load, earliest, deadline = jnp.where(row.mark, pick, drop)
    load = jnp.where(exists, jnp.where(row.mark, load, -load), 0.0)
    leg = jnp.hypot(x - _shifted(x, origin[0]), y - _shifted(y, origin[1])) * pace
    place = prepared.row_of(row.number.astype(jnp.float32), row.mark)
    leg = driven(prepared, leg, _shifted(place, vehicle.astype(jnp.float32)), place, jnp.zeros_like(exists))
    leg = jnp.where(exists, leg, 0.0)
    path = sums(jnp.where(exists, leg + _shifted(jnp.full_like(leg, stop_time), 0.0), 0.0))
    start = path + jax.lax.cummax(jnp.maximum(jnp.where(exists, earliest - path, 0.0), 0.0))
    latest = path + jax.lax.cummin(jnp.where(exists, deadline - path, jnp.inf), reverse=True)
    planes = {
        "start": jnp.where(exists, start, jnp.inf),
        "x": x,
        "y": y,
        "earliest": earliest,
        "latest": latest,
        "load": load,
        "carried": sums(load),
    }
    if prepared.fleet.travel_time is not None:
        planes |= {"number": row.number.astype(jnp.float32), "place": place}
    return Routes(row, planes, jnp.sum(leg))


def _place_rides(prepared: Prepared, routes: Routes, request: Request, luck: jax.Array) -> Place:
    """By the test of the environment, on the stops around the time of the request, whose deadlines are the latest
    times that all later stops allow.
    """
    planes, size = routes.planes, routes.row.number.shape[-1]
    first = jnp.sum(planes["latest"] < request.pickup_earliest, axis=-1, dtype=jnp.int32)
    source = first[:, None] + index_of(WINDOW)
    along = prepared.fleet.travel_time is not None
    names = ("x", "y", "earliest", "latest", "load", "start", *(("number",) if along else ()))
    window = _take(jnp.stack([planes[name] for name in names]), source)
    number = window[6:] if along else jnp.zeros_like(window[:1])
    present = (source < size) & (index_of(WINDOW) < WINDOW - 2) & (window[5] < jnp.inf)
    names = ("x", "y", "start", "carried", *(("place",) if along else ()))
    last = _take(jnp.stack([planes[name] for name in names]), first[:, None] - 1)[..., 0]
    start = located(prepared, prepared.fleet.start.T, index_of(first.shape[0]))
    place = jnp.where(first > 0, jnp.concatenate([last[:2], last[4:]]) if along else last[:2], start)
    plans = Plans(
        place=place,
        free=jnp.where(first > 0, last[2] + prepared.fleet.stop_time, 0.0),
        aboard=jnp.where(first > 0, last[3], 0.0),
        goal=place,
        stops=jnp.where(present, jnp.concatenate([window[:5], number, jnp.zeros_like(window[:1])]), 0.0),
        start=jnp.where(present, window[5], jnp.inf),
    )
    found = offers(prepared, plans, request)
    goes_on = jnp.sum(planes["start"] < jnp.inf, axis=-1) > first + WINDOW - 2
    feasible = found.feasible & ~(goes_on & (found.dropoff_position >= WINDOW - 2))
    feasible &= jnp.sum(planes["start"] < jnp.inf, axis=-1) + 2 <= size
    rank = jnp.where(feasible, found.added * luck, jnp.inf)
    vehicle = jax.lax.argmin(rank, 0, jnp.int32)
    chosen = index_of(rank.shape[0]) == vehicle
    pick, drop = (
        jnp.sum(jnp.where(chosen, first + position, 0))
        for position in (found.pickup_position, found.dropoff_position + 1)
    )
    number = request.index.astype(jnp.int32)
    row = _put(_put(_row_of(routes, vehicle), pick, number, True), drop, number, False)
    return Place(feasible.any(), vehicle, row)


def _take(values: jax.Array, index: jax.Array) -> jax.Array:
    """`[..., V, W]` from `[..., V, L]`, at positions `[V, W]`, or at the nearest ones that there are."""
    index = jnp.clip(index, 0, values.shape[-1] - 1)
    return jnp.take_along_axis(values, index.reshape((1,) * (values.ndim - 2) + index.shape), axis=-1)


# Parcels. The time of a stop is its `path`, as if nothing had to be waited for, and its `shift`: how much later it
# begins because of the parcels of its trip, and of all before it, and because of windows that open later. A trip leaves
# the depot as late as its first stop allows.


def _time_parcels(prepared: Prepared, vehicle: jax.Array, row: Row) -> Routes:
    instance, exists, is_first = prepared.instance, row.number >= 0, row.mark
    assert instance.depot is not None
    pace, stop_time, turnaround = prepared.pace[vehicle], instance.stop_time[vehicle], instance.turnaround[vehicle]
    loading = instance.minutes_to_load[vehicle]
    home_by = jnp.broadcast_to(instance.latest_return, instance.stop_time.shape)[vehicle]
    table = jnp.take(prepared.table, jnp.maximum(row.number, 0), axis=0).T
    opens, x, y, load, earliest, deadline = table[jnp.array([6, 3, 4, 5, 8, 9])]
    count = jnp.sum(exists, dtype=jnp.int32)
    index = index_of(exists.shape[0])
    is_last = exists & (jnp.roll(is_first, -1) | (index == count - 1))
    is_drone, place, depot = instance.is_drone[vehicle], 1 + row.number, jnp.zeros_like(row.number)
    straight = jnp.hypot(x - instance.depot[0], y - instance.depot[1]) * pace
    out = driven(prepared, straight, depot, place, is_drone)
    home = jnp.where(exists, driven(prepared, straight, place, depot, is_drone), 0.0)
    straight = jnp.hypot(x - jnp.roll(x, 1), y - jnp.roll(y, 1)) * pace
    leg = driven(prepared, straight, jnp.roll(place, 1), place, is_drone)
    leg = jnp.where(exists, jnp.where(is_first, out, leg), 0.0)
    back = jnp.where(index > 0, stop_time + jnp.roll(home, 1) + turnaround, 0.0)
    service = jnp.where(is_first, loading, stop_time)
    path = sums(jnp.where(exists, leg + service + jnp.where(is_first, back, 0.0), 0.0))
    loads_at = jax.lax.cummax(jnp.where(is_first, path - loading - leg, 0.0))
    released = jax.lax.cummax(jnp.maximum(jnp.where(exists, opens - loads_at, 0.0), 0.0))
    loaded = jax.lax.cummin(jnp.where(is_last, released, jnp.inf), reverse=True)
    opened = jax.lax.cummax(jnp.where(exists, earliest - path, -jnp.inf))
    on_the_way = jnp.maximum(loaded, _shifted(opened, -jnp.inf))
    shift = jnp.maximum(loaded, opened)
    ends = path + stop_time + home
    due = jnp.where(is_last, jnp.minimum(deadline, home_by - stop_time - home), deadline)
    spare = jax.lax.cummin(jnp.where(exists, due - path, jnp.inf), reverse=True)
    carried = sums(jnp.where(exists, load, 0.0))
    begin = jnp.where(count > 0, jnp.max(jnp.where(exists, ends, 0.0)) + turnaround, 0.0)
    shift_before = jnp.where(index > 0, jnp.roll(jnp.where(exists, shift, -jnp.inf), 1), 0.0)
    shift_before = jax.lax.cummax(jnp.where(index <= count, shift_before, 0.0))
    is_end = index == count
    planes = {
        "start": jnp.where(exists, path + shift, jnp.inf),
        "x": x,
        "y": y,
        "home": home,
        "leg": leg,
        "path": path,
        "loads_at": jnp.where(is_end, begin, loads_at),
        "shift": jnp.where(exists, shift, 0.0),
        "shift_on_the_way": jnp.where(exists, on_the_way, 0.0),
        "shift_of_trip": jax.lax.cummax(jnp.where(is_first, shift, -jnp.inf)),
        "shift_of_end": jax.lax.cummin(jnp.where(is_last, shift, jnp.inf), reverse=True),
        "shift_before": shift_before,
        "spare": jnp.where(is_end, home_by + turnaround - begin, spare),
        "spare_of_trip": jax.lax.cummax(jnp.where(is_first, spare, -jnp.inf)),
        "spare_after": jnp.where(index == count - 1, home_by - ends, jnp.roll(spare, -1)),
        "duration": jax.lax.cummin(jnp.where(is_last, ends, jnp.inf), reverse=True) - loads_at - loading,
        "carried": jax.lax.cummin(jnp.where(is_last, carried, jnp.inf), reverse=True)
        - jax.lax.cummax(jnp.where(is_first, carried - load, 0.0)),
        "is_last": is_last.astype(jnp.float32),
        "is_end": is_end.astype(jnp.float32),
    }
    return Routes(row, planes, jnp.sum(leg) + jnp.sum(jnp.where(is_last, home, 0.0)))


def _place_parcels(prepared: Prepared, routes: Routes, request: Request, luck: jax.Array) -> Place:
    """Before or behind a stop of its trip, or on a trip of its own."""
    ranks = _added_to_parcels(prepared, routes, request) * luck[:, None, None]
    at = jax.lax.argmin(ranks.ravel(), 0, jnp.int32)
    vehicle, rest = at // (ranks.shape[1] * ranks.shape[2]), at % (ranks.shape[1] * ranks.shape[2])
    how, position = rest // ranks.shape[2], rest % ranks.shape[2]
    row = _row_of(routes, vehicle)
    is_first = (how == 2) | ((how == 0) & jnp.any(row.mark & (index_of(row.mark.shape[0]) == position)))
    number = request.index.astype(jnp.int32)
    added = _put(row, position + (how == 1), number, is_first)
    # The stop that was the first of the trip is now the second.
    is_second = (index_of(row.mark.shape[0]) == position + 1) & (how == 0)
    return Place(jnp.min(ranks) < jnp.inf, vehicle, Row(added.number, added.mark & ~is_second))


def _added_to_parcels(prepared: Prepared, routes: Routes, request: Request) -> jax.Array:
    """`f32[V, 3, L]`: minutes that the request adds before or behind a stop of its trip, or on a trip before it.

    Infinite where it does not fit; exact, but that a trip with a limit to its length, if it has to wait on its way, is
    taken to leave no later than its first stop allows.
    """
    instance, planes, mark = prepared.instance, routes.planes, routes.row.mark
    assert instance.depot is not None
    stop_time, loading, pace = instance.stop_time[:, None], instance.minutes_to_load[:, None], prepared.pace[:, None]
    exists = planes["start"] < jnp.inf
    is_last, is_end = planes["is_last"] > 0, planes["is_end"] > 0
    is_drone, stops = instance.is_drone[:, None], 1 + routes.row.number
    place, depot = 1.0 + request.index, jnp.zeros(())
    straight = distance(request.dropoff, instance.depot) * pace
    out, home = (driven(prepared, straight, *ends, is_drone) for ends in ((depot, place), (place, depot)))
    straight = jnp.hypot(planes["x"] - request.dropoff[0], planes["y"] - request.dropoff[1]) * pace
    there, on = (driven(prepared, straight, *ends, is_drone) for ends in ((stops, place), (place, stops)))
    from_before = jnp.where(mark, out, jnp.roll(there, 1, axis=-1))
    has_room = ~is_end[:, -1:] & (planes["start"][:, -1:] == jnp.inf) & request.exists
    fits = planes["carried"] + request.load <= prepared.capacity[:, None]
    fits &= exists & ~instance.is_drone[:, None] & has_room
    loaded = request.pickup_earliest - planes["loads_at"]
    fits &= loaded <= planes["spare_of_trip"] + prepared.slack

    def served(begin: jax.Array, shift: jax.Array) -> jax.Array:
        """The shift of the request, whose path has it `begin`, after stops with this shift."""
        return jnp.maximum(jnp.maximum(shift, loaded), request.dropoff_earliest - begin)

    def joined(
        added: jax.Array, begin: jax.Array, shift: jax.Array, spare: jax.Array, is_first: jax.Array
    ) -> jax.Array:
        possible = shift + begin <= request.dropoff_deadline + prepared.slack
        moved = shift + added + stop_time
        possible &= moved <= spare + prepared.slack
        leaves = jnp.where(is_first, shift, jnp.maximum(planes["shift_of_trip"], loaded))
        longer = jnp.maximum(moved, planes["shift_of_end"]) - leaves
        possible &= planes["duration"] + longer <= instance.max_trip[:, None] + prepared.slack
        return jnp.where(possible & fits, added, jnp.inf)

    begin = planes["path"] - planes["leg"] + from_before
    shift = served(begin, planes["shift_on_the_way"])
    before = joined(from_before + on - planes["leg"], begin, shift, planes["spare"], mark)
    begin = planes["path"] + stop_time + there
    shift = served(begin, planes["shift"])
    behind = joined(there + home - planes["home"], begin, shift, planes["spare_after"], jnp.zeros_like(mark))
    behind = jnp.where(is_last, behind, jnp.inf)
    begin = planes["loads_at"] + loading + out
    shift = served(begin, planes["shift_before"])
    cycle = (out + home) + (stop_time + loading) + instance.turnaround[:, None]
    alone = (exists & mark | is_end) & has_room & (request.load <= prepared.capacity[:, None])
    alone &= shift + begin <= request.dropoff_deadline + prepared.slack
    alone &= shift + cycle <= planes["spare"] + prepared.slack
    alone &= out + home + stop_time <= instance.max_trip[:, None] + prepared.slack
    return jnp.stack([before, behind, jnp.where(alone, out + home, jnp.inf)], axis=1)
