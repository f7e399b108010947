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
from jaxvrp.envs.dispatch.routes.schedule import index_of, sums, with_new

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
    return Row(with_new(row.number, position, number), with_new(row.mark, position, mark))


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


def _is_last(row: Row) -> jax.Array:
    """`bool[..., L]`, the last stop of each trip."""
    exists, index = row.number >= 0, index_of(row.number.shape[-1])
    count = jnp.sum(exists, axis=-1, keepdims=True, dtype=jnp.int32)
    return exists & (jnp.roll(row.mark, -1, axis=-1) | (index == count - 1))


def _at_first(row: Row, values: jax.Array) -> jax.Array:
    """`f32[L]`, what the first stop of each stop's trip has, of values that never fall."""
    return jax.lax.cummax(jnp.where(row.mark, values, -jnp.inf))


def _at_last(row: Row, values: jax.Array) -> jax.Array:
    """The same of the last stop."""
    return jax.lax.cummin(jnp.where(_is_last(row), values, jnp.inf), reverse=True)


def _time_parcels(prepared: Prepared, vehicle: jax.Array, row: Row) -> Routes:
    instance, exists, is_first = prepared.instance, row.number >= 0, row.mark
    loading, stop_time = instance.minutes_to_load[vehicle], instance.stop_time[vehicle]
    turnaround, home_by = instance.turnaround[vehicle], instance.latest_return[vehicle]
    table = jnp.take(prepared.table, jnp.maximum(row.number, 0), axis=0).T
    opens, x, y, load, earliest, deadline = table[jnp.array([6, 3, 4, 5, 8, 9])]
    leg, home = _legs_of_parcels(prepared, vehicle, row, x, y)
    count, index = jnp.sum(exists, dtype=jnp.int32), index_of(exists.shape[0])
    is_last, is_end = _is_last(row), index == count
    back = jnp.where(index > 0, stop_time + jnp.roll(home, 1) + turnaround, 0.0)
    service = jnp.where(is_first, loading, stop_time)
    path = sums(jnp.where(exists, leg + service + jnp.where(is_first, back, 0.0), 0.0))
    loads_at = jax.lax.cummax(jnp.where(is_first, path - loading - leg, 0.0))
    shifts = _shifts(row, path, earliest, opens - loads_at)
    ends = path + stop_time + home
    due = jnp.where(is_last, jnp.minimum(deadline, home_by - stop_time - home), deadline)
    spare = jax.lax.cummin(jnp.where(exists, due - path, jnp.inf), reverse=True)
    carried = sums(jnp.where(exists, load, 0.0))
    begin = jnp.where(count > 0, jnp.max(jnp.where(exists, ends, 0.0)) + turnaround, 0.0)
    planes = {
        "start": jnp.where(exists, path + shifts["shift"], jnp.inf),
        "x": x,
        "y": y,
        "home": home,
        "leg": leg,
        "path": path,
        "loads_at": jnp.where(is_end, begin, loads_at),
        **shifts,
        "spare": jnp.where(is_end, home_by + turnaround - begin, spare),
        "spare_of_trip": _at_first(row, spare),
        "spare_after": jnp.where(index == count - 1, home_by - ends, jnp.roll(spare, -1)),
        "duration": _at_last(row, ends) - loads_at - loading,
        "carried": _at_last(row, carried) - _at_first(row, carried - load),
    }
    return Routes(row, planes, jnp.sum(leg) + jnp.sum(jnp.where(is_last, home, 0.0)))


def _legs_of_parcels(
    prepared: Prepared, vehicle: jax.Array, row: Row, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Minutes to each stop, of a trip's first from the depot, and from each home; `f32[L]`."""
    instance, exists = prepared.instance, row.number >= 0
    assert instance.depot is not None
    is_drone, pace = instance.is_drone[vehicle], prepared.pace[vehicle]
    place, depot = 1 + row.number, jnp.zeros_like(row.number)
    straight = jnp.hypot(x - instance.depot[0], y - instance.depot[1]) * pace
    out = driven(prepared, straight, depot, place, is_drone)
    home = driven(prepared, straight, place, depot, is_drone)
    straight = jnp.hypot(x - jnp.roll(x, 1), y - jnp.roll(y, 1)) * pace
    leg = driven(prepared, straight, jnp.roll(place, 1), place, is_drone)
    return jnp.where(exists, jnp.where(row.mark, out, leg), 0.0), jnp.where(exists, home, 0.0)


def _shifts(row: Row, path: jax.Array, earliest: jax.Array, released: jax.Array) -> Planes:
    """How much later stops begin than by their path, and what they have to wait for before; parcels are there so much
    after (`released`) the vehicle could load them.
    """
    exists, index = row.number >= 0, index_of(row.number.shape[0])
    released = jax.lax.cummax(jnp.maximum(jnp.where(exists, released, 0.0), 0.0))
    loaded = _at_last(row, released)
    opened = jax.lax.cummax(jnp.where(exists, earliest - path, -jnp.inf))
    on_the_way = jnp.maximum(loaded, _shifted(opened, -jnp.inf))
    shift = jnp.maximum(loaded, opened)
    before = jnp.where(index > 0, jnp.roll(jnp.where(exists, shift, -jnp.inf), 1), 0.0)
    before = jnp.where(index <= jnp.sum(exists, dtype=jnp.int32), before, 0.0)
    return {
        "shift": jnp.where(exists, shift, 0.0),
        "shift_on_the_way": jnp.where(exists, on_the_way, 0.0),
        "shift_of_trip": _at_first(row, shift),
        "shift_of_end": _at_last(row, shift),
        "shift_before": jax.lax.cummax(before),
    }


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
    stop_time, loading = instance.stop_time[:, None], instance.minutes_to_load[:, None]
    out, home, there, on = _ways_of(prepared, routes, request)
    fits, alone = _has_room(prepared, routes, request)
    from_before = jnp.where(mark, out, jnp.roll(there, 1, axis=-1))
    loaded = request.pickup_earliest - planes["loads_at"]
    fits &= loaded <= planes["spare_of_trip"] + prepared.slack
    leaves = jnp.maximum(planes["shift_of_trip"], loaded)

    def served(begin: jax.Array, shift: jax.Array) -> jax.Array:
        """The shift of the request, whose path has it `begin`, after stops with this shift."""
        return jnp.maximum(jnp.maximum(shift, loaded), request.dropoff_earliest - begin)

    def joined(added: jax.Array, begin: jax.Array, shift: jax.Array, spare: jax.Array, leaves: jax.Array) -> jax.Array:
        moved = shift + added + stop_time
        possible = (shift + begin <= request.dropoff_deadline + prepared.slack) & (moved <= spare + prepared.slack)
        longer = jnp.maximum(moved, planes["shift_of_end"]) - leaves
        possible &= planes["duration"] + longer <= instance.max_trip[:, None] + prepared.slack
        return jnp.where(possible & fits, added, jnp.inf)

    begin = planes["path"] - planes["leg"] + from_before
    shift = served(begin, planes["shift_on_the_way"])
    leaves_then = jnp.where(mark, shift, leaves)
    before = joined(from_before + on - planes["leg"], begin, shift, planes["spare"], leaves_then)
    begin = planes["path"] + stop_time + there
    shift = served(begin, planes["shift"])
    behind = joined(there + home - planes["home"], begin, shift, planes["spare_after"], leaves)
    behind = jnp.where(_is_last(routes.row), behind, jnp.inf)
    begin = planes["loads_at"] + loading + out
    shift = served(begin, planes["shift_before"])
    cycle = (out + home) + (stop_time + loading) + instance.turnaround[:, None]
    alone &= shift + begin <= request.dropoff_deadline + prepared.slack
    alone &= shift + cycle <= planes["spare"] + prepared.slack
    alone &= out + home + stop_time <= instance.max_trip[:, None] + prepared.slack
    return jnp.stack([before, behind, jnp.where(alone, out + home, jnp.inf)], axis=1)


def _has_room(prepared: Prepared, routes: Routes, request: Request) -> tuple[jax.Array, jax.Array]:
    """Whether the trip of a stop can hold the request, too, and whether it can have a trip there; `bool[V, L]`."""
    exists, index = routes.row.number >= 0, index_of(routes.row.number.shape[-1])
    is_end = index == jnp.sum(exists, axis=-1, keepdims=True, dtype=jnp.int32)
    has_room = ~(is_end | exists)[:, -1:] & request.exists
    fits = routes.planes["carried"] + request.load <= prepared.capacity[:, None]
    alone = (exists & routes.row.mark | is_end) & (request.load <= prepared.capacity[:, None])
    return fits & exists & ~prepared.fleet.is_drone[:, None] & has_room, alone & has_room


def _ways_of(prepared: Prepared, routes: Routes, request: Request) -> tuple[jax.Array, ...]:
    """Minutes of each vehicle from the depot to the request and back (`f32[V, 1]`), and from each stop and to it."""
    instance, planes = prepared.instance, routes.planes
    assert instance.depot is not None
    pace, is_drone = prepared.pace[:, None], instance.is_drone[:, None]
    stops, place, depot = 1 + routes.row.number, 1.0 + request.index, jnp.zeros(())
    straight = distance(request.dropoff, instance.depot) * pace
    out, home = (driven(prepared, straight, *ends, is_drone) for ends in ((depot, place), (place, depot)))
    straight = jnp.hypot(planes["x"] - request.dropoff[0], planes["y"] - request.dropoff[1]) * pace
    there, on = (driven(prepared, straight, *ends, is_drone) for ends in ((stops, place), (place, stops)))
    return out, home, there, on
