"""Moves of parcels between the trips that vehicles and drones of a depot have not begun.

A move takes one of four forms: a parcel goes to its cheapest place in another plan, or in its own; two parcels change
plans; two plans change ends (2-opt*, Potvin and Rousseau 1995); a part of one plan turns round (2-opt). Most moves join
parcels that are neighbours. A move computes two plans alone, so it costs a fraction of a round of ruin and recreate.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.environment import select
from jaxvrp.envs.dispatch.baselines.annealing import Tours, annealed
from jaxvrp.envs.dispatch.routes.plans import (
    DEADLINE,
    DUE,
    EARLIEST,
    LOAD,
    Plans,
    Prepared,
    at_position,
    depot_of,
    distance,
    minutes,
    places_of,
)
from jaxvrp.envs.dispatch.routes.replan import FAR, Planned
from jaxvrp.envs.dispatch.routes.schedule import (
    first_where,
    followed_by,
    in_order,
    index_of,
    least_from,
    least_until,
    sums,
    with_new,
)

MOVES = 40
"""Moves of a round; they take about as long as a round of ruin and recreate."""

SWAPS, EXCHANGES = 0.45, 0.2
"""Share of moves that swap two parcels, and of those that exchange ends or turn a part round."""

NEIGHBOURS, NEAR = 10, 0.8
"""Neighbours of a parcel, and share of moves that join one of them; others join any parcel or vehicle."""

DIVERTED = 0.9
"""Share of moves between two drones, which change no travel, that go from a drone to a vehicle on the road instead."""

DICE = 6
"""Random numbers of a move: parcel, partner, form, whether it is a neighbour, whether a worse plan is kept, and to
which vehicle it is diverted."""


class Vehicles(struct.PyTreeNode):
    """Numbers of vehicles as in the day, all `[V, 1]`; of the two plans of a move, `[2, 1]`."""

    pace: jax.Array
    stop_time: jax.Array
    loading: jax.Array
    turnaround: jax.Array
    max_trip: jax.Array
    is_drone: jax.Array
    capacity: jax.Array
    free: jax.Array  # when a vehicle can load
    home_by: jax.Array  # when it must be home


class Parcels(struct.PyTreeNode):
    """What moves read: N stops of all plans, those that exist and how many, and their neighbours."""

    prepared: Prepared  # the day
    vehicles: Vehicles  # all vehicles
    stops: jax.Array  # `f32[7, N]`
    open: jax.Array  # `i32[N]`, numbers of stops that exist come first
    count: jax.Array  # `i32[]`
    near: jax.Array  # `i32[N, K]`, the nearest first; the stop itself where there are fewer
    on_road: jax.Array  # `i32[V]`, numbers of vehicles that are no drones come first
    num_on_road: jax.Array  # `i32[]`


class _Schedule(struct.PyTreeNode):
    """Two plans; `before` to `legal` as in `jaxvrp.envs.dispatch.routes.schedule.Positions`."""

    before: jax.Array  # `f32[2, 2, S + 1]`, along streets as of `located`
    after: jax.Array  # likewise
    arc: jax.Array  # `f32[2, S + 1]`
    leave: jax.Array  # `f32[2, S + 1]`
    latest: jax.Array  # `f32[2, S + 1]`
    legal: jax.Array  # `bool[2, S + 1]`, whether a stop may be inserted there
    between: jax.Array  # `f32[2, S + 1]`, minutes between the flights of a drone that an insertion there adds
    load: jax.Array  # `f32[2, 1]`, of the trip, for drones 0
    travel: jax.Array  # `f32[2]`
    is_kept: jax.Array  # `bool[2]`, whether each keeps all promises
    waits: jax.Array  # `bool[2]`, whether the trip waits for the parcel to come


def advance(
    prepared: Prepared, now: Planned, best: Planned, key: jax.Array, heats: jax.Array
) -> tuple[Planned, Planned]:
    """The plans of fleets `[B]`, and the best so far, after a round of moves for each temperature.

    `heats`, `f32[rounds, B]`, are in minutes.
    """
    keys = jax.vmap(lambda key: jax.random.split(key, heats.shape[0]))(jax.random.split(key, heats.shape[1]))
    return jax.vmap(_advance_single, in_axes=(0, 0, 0, 0, 1))(prepared, now, best, keys, heats)


def _advance_single(
    prepared: Prepared, now: Planned, best: Planned, keys: jax.Array, heats: jax.Array
) -> tuple[Planned, Planned]:
    order = jnp.where(now.plans.present, index_of(now.plans.start.size).reshape(now.plans.start.shape), -1)
    parcels, first = _parcels(prepared, now.plans), Tours(order, now.travel)
    move = functools.partial(_moved, parcels)
    found, shortest = annealed(move, (MOVES, DICE), first, best.travel, keys, heats, prepared.slack)
    shorter = _planned(parcels, now.plans, shortest)
    return _planned(parcels, now.plans, found), select(shorter.total < best.total, shorter, best)


def _parcels(prepared: Prepared, plans: Plans) -> Parcels:
    size = plans.start.size
    stops, exists = plans.stops.reshape(-1, size), plans.present.ravel()
    way = distance(stops[:2, :, None], stops[:2, None, :])
    way = jnp.where(exists & (index_of(size)[:, None] != index_of(size)), way, jnp.inf)
    near = jnp.argsort(way, axis=1)[:, :NEIGHBOURS].astype(jnp.int32)
    near = jnp.where(exists[near], near, index_of(size)[:, None])
    present_first = jnp.argsort(~exists, stable=True).astype(jnp.int32)
    fleet, is_drone = prepared.fleet, prepared.fleet.is_drone
    minutes = prepared.pace, fleet.stop_time, fleet.minutes_to_load, fleet.turnaround, fleet.max_trip
    columns = *minutes, is_drone, prepared.capacity, plans.free, fleet.latest_return
    return Parcels(
        prepared,
        Vehicles(*(jnp.broadcast_to(column, plans.free.shape)[:, None] for column in columns)),
        stops,
        present_first,
        jnp.sum(exists, dtype=jnp.int32),
        near,
        jnp.argsort(is_drone, stable=True).astype(jnp.int32),
        jnp.sum(~is_drone, dtype=jnp.int32),
    )


def _planned(parcels: Parcels, plans: Plans, tours: Tours) -> Planned:
    return Planned(in_order(parcels.prepared, plans, parcels.stops, tours.order), tours.travel)


def _drawn(parcels: Parcels, order: jax.Array, draws: jax.Array) -> tuple[jax.Array, ...]:
    """Parcel, partner, their vehicles (`i32[2]`, the last is where the parcel goes), and whether the two change plans,
    or the plans change ends, in a move of plans in this order (`i32[V, S]`).
    """
    vehicles = order.shape[0]

    def any_parcel(uniform: jax.Array) -> jax.Array:
        return parcels.open[jnp.minimum((uniform * parcels.count).astype(jnp.int32), parcels.count - 1)]

    def vehicle_of(parcel: jax.Array) -> jax.Array:
        return jnp.max(jnp.where(order == parcel, index_of(vehicles)[:, None], 0))

    parcel, is_near = any_parcel(draws[0]), draws[3] < NEAR
    neighbour = parcels.near[parcel, (draws[1] * parcels.near.shape[1]).astype(jnp.int32)]
    partner = jnp.where(is_near, neighbour, any_parcel(draws[1]))
    source, target = vehicle_of(parcel), vehicle_of(partner)
    is_exchange = draws[2] > 1.0 - EXCHANGES
    is_swap = (draws[2] < SWAPS) & (source != target)
    by_chance = jnp.minimum((draws[1] * vehicles).astype(jnp.int32), vehicles - 1)
    target = jnp.where(is_near | is_swap | is_exchange, target, by_chance)
    between_drones = jnp.take(parcels.prepared.fleet.is_drone, jnp.stack([source, target])).all()
    share = draws[5] / DIVERTED
    is_diverted = between_drones & (share < 1.0) & (parcels.num_on_road > 0)
    by_road = jnp.minimum((share * parcels.num_on_road).astype(jnp.int32), parcels.num_on_road - 1)
    target = jnp.where(is_diverted, jnp.take(parcels.on_road, by_road, mode="clip"), target)
    return parcel, partner, jnp.stack([source, target]), is_swap & ~is_diverted, is_exchange & ~is_diverted


def _moved(parcels: Parcels, now: Tours, draws: jax.Array, heat: jax.Array) -> Tours:
    """The trips after one move, if it is possible and short enough for the temperature."""
    parcel, partner, pair, is_swap, is_exchange = _drawn(parcels, now.order, draws)
    both, (source, target) = (now.order, parcels.vehicles), pair
    orders, rows = jax.tree.map(lambda values: jnp.take(values, pair, axis=0, mode="clip"), both)
    exchanged, has_room = _exchanged(orders, parcel, partner, source == target)
    taken = _taken_out(orders, (orders == parcel) | ((orders == partner) & is_swap))
    orders = jnp.where(is_exchange, exchanged, taken)
    incoming = jnp.where(is_exchange, -1, jnp.stack([jnp.where(is_swap, partner, -1), parcel]))
    plans = _scheduled(parcels, rows, orders, incoming)
    orders, travel, is_possible = _inserted(parcels, rows, plans, orders, incoming)
    is_possible &= (plans.is_kept.all() & has_room) | ~is_exchange

    is_alone = source == target
    growth = travel[1] - now.travel[target] + jnp.where(is_alone, 0.0, travel[0] - now.travel[source])
    is_kept = is_possible & (parcels.count > 0) & (growth < -heat * jnp.log(draws[4]))
    vehicle = index_of(now.order.shape[0])
    is_target, is_source = is_kept & (vehicle == target), is_kept & (vehicle == source)
    return Tours(
        jnp.where(is_target[:, None], orders[1], jnp.where(is_source[:, None], orders[0], now.order)),
        jnp.where(is_target, travel[1], jnp.where(is_source, travel[0], now.travel)),
    )


def _taken_out(orders: jax.Array, is_out: jax.Array) -> jax.Array:
    """The orders (`i32[2, S]`) without at most one stop each."""
    size = orders.shape[1]
    first = jnp.min(jnp.where(is_out, index_of(size), size), axis=1, keepdims=True)
    later = jnp.concatenate([orders[:, 1:], jnp.full((2, 1), -1, jnp.int32)], axis=1)
    return jnp.where(index_of(size) >= first, later, orders)


def _exchanged(
    orders: jax.Array, parcel: jax.Array, partner: jax.Array, is_alone: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Two orders after an exchange of ends that puts `partner` behind `parcel`, and if they have room.

    If both are in one plan, the part behind the earlier one turns round up to the later one.
    """
    size = orders.shape[1]
    index, count = index_of(size), jnp.sum(orders >= 0, axis=1, dtype=jnp.int32)
    first = jnp.max(jnp.where(orders[0] == parcel, index, 0))
    second = jnp.max(jnp.where(orders[1] == partner, index, 0))

    def at(order: jax.Array, position: jax.Array) -> jax.Array:
        inside = (position >= 0) & (position < size)
        return jnp.where(inside, jnp.take(order, position, mode="clip"), -1)

    shift = first + 1 - second
    ends = jnp.stack(
        [
            jnp.where(index <= first, orders[0], at(orders[1], index - shift)),
            jnp.where(index < second, orders[1], at(orders[0], index + shift)),
        ]
    )
    low, high = jnp.minimum(first, second), jnp.maximum(first, second)
    turned = jnp.where((index > low) & (index <= high), at(orders[1], low + high + 1 - index), orders[1])
    has_room = (count[1] + shift <= size) & (count[0] - shift <= size)
    return jnp.where(is_alone, turned, ends), is_alone | has_room


def _scheduled(parcels: Parcels, rows: Vehicles, orders: jax.Array, incoming: jax.Array) -> _Schedule:
    """The plans, their trips loaded when all their parcels and those to come (`i32[2]`, -1 for none) are there."""
    prepared, slack, size = parcels.prepared, parcels.prepared.slack, orders.shape[1]
    index, exists = index_of(size + 1), orders >= 0
    count = jnp.sum(exists, axis=1, keepdims=True, dtype=jnp.int32)
    stops = jnp.take(parcels.stops, orders, axis=1, mode="clip")
    before, after, arc, home = _ways(prepared, rows, stops, exists)
    returns = jnp.where(rows.is_drone, home + rows.turnaround + rows.loading, 0.0)
    released = jnp.max(jnp.where(exists, stops[DUE], 0.0), axis=1, keepdims=True)
    comes_at = jnp.where(incoming >= 0, jnp.take(parcels.stops[DUE], incoming, mode="clip"), 0.0)
    loaded = jnp.where(rows.is_drone, rows.free, jnp.maximum(rows.free, released))
    loads_then = jnp.where(rows.is_drone, loaded, jnp.maximum(loaded, comes_at[:, None]))
    service = jnp.where(index == 0, rows.loading, rows.stop_time)
    path = sums(jnp.where(index <= count, arc + service + followed_by(loads_then[:, 0], returns), 0.0))[:, :-1]
    flown = jnp.where(rows.is_drone & (stops[DUE] > rows.free), stops[DUE] + rows.loading + home, 0.0)
    opens = jnp.maximum(stops[EARLIEST], flown)
    start = path - jnp.minimum(least_until(path - jnp.where(exists, opens, -FAR)), 0.0)
    leave = followed_by((loads_then + rows.loading)[:, 0], start + rows.stop_time + returns)
    end = jnp.where(rows.is_drone, rows.home_by, jnp.minimum(rows.home_by, leave[:, :1] + rows.max_trip))

    load, flight = jnp.where(exists, -stops[LOAD], 0.0), home + rows.stop_time
    loads = jnp.where(rows.is_drone, load, jnp.sum(load, axis=1, keepdims=True))
    on_time = (start <= stops[DEADLINE] + slack) & (loads <= rows.capacity)
    flies = (start + flight <= rows.home_by + slack) & (home + flight <= rows.max_trip + slack)
    is_home = at_position(count[:, 0], leave + arc)[:, None] <= end + slack
    is_kept = jnp.where(exists, on_time & jnp.where(rows.is_drone, flies, is_home), True).all(axis=1)

    # A drone is back by the horizon from each flight; a vehicle, from its only trip.
    deadline = jnp.minimum(stops[DEADLINE], jnp.where(rows.is_drone, rows.home_by - flight, jnp.inf))
    deadline = jnp.concatenate([deadline, jnp.zeros((2, 1), jnp.float32)], axis=1)
    is_end = index == count
    bound = jnp.where(index < count, deadline, jnp.where(is_end & ~rows.is_drone, end, jnp.inf))
    step = arc + rows.stop_time + followed_by(jnp.zeros(2, jnp.float32), returns)
    ahead = sums(jnp.where((index > 0) & (index <= count), step, 0.0))
    latest = jnp.where(is_end, end, least_from(bound - ahead) + ahead)
    travel = jnp.where(rows.is_drone[:, 0], 2.0 * jnp.sum(home, axis=1), jnp.sum(arc, axis=1))
    legal = (index <= count) & (count < size)
    between = jnp.where(rows.is_drone & (index < count), rows.turnaround + rows.loading, 0.0)
    trip_load = jnp.where(rows.is_drone, 0.0, loads)[:, :1]
    waits = (loads_then > loaded)[:, 0]
    return _Schedule(before, after, arc, leave, latest, legal, between, trip_load, travel, is_kept, waits)


def _ways(prepared: Prepared, rows: Vehicles, stops: jax.Array, exists: jax.Array) -> tuple[jax.Array, ...]:
    """`before`, `after` and `arc` of a schedule, and minutes home from each stop, `f32[2, S]`."""
    depot, index = depot_of(prepared, 2), index_of(exists.shape[1] + 1)
    count, places = jnp.sum(exists, axis=1, keepdims=True, dtype=jnp.int32), places_of(prepared, stops)
    at_depot = jnp.broadcast_to(depot, (len(depot), 2, 1))
    before = jnp.where(rows.is_drone | (index == 0), depot, jnp.concatenate([at_depot, places], axis=-1))
    after = jnp.where(index < count, jnp.concatenate([places, at_depot], axis=-1), depot)
    arc = jnp.where(index <= count, minutes(prepared, before, after, rows.pace, rows.is_drone), 0.0)
    home = jnp.where(exists, minutes(prepared, places, depot, rows.pace, rows.is_drone), 0.0)
    return before, after, arc, home


def _inserted(
    parcels: Parcels, rows: Vehicles, plans: _Schedule, orders: jax.Array, incoming: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Two orders with one stop more each (-1: none) at its cheapest place, their travel, and if all promises are kept.

    As in `jaxvrp.envs.dispatch.routes.insertion`; a stop that noise has made late already lets nothing in before it.
    """
    slack = parcels.prepared.slack
    stop = jnp.take(parcels.stops, incoming, axis=1, mode="clip")[:, :, None]
    there = places_of(parcels.prepared, stop)
    way_there = minutes(parcels.prepared, plans.before, there, rows.pace, rows.is_drone)
    way_on = minutes(parcels.prepared, there, plans.after, rows.pace, rows.is_drone)
    way_on = jnp.where(rows.is_drone, way_there + plans.arc, way_on)
    leave = jnp.maximum(plans.leave, stop[DUE] + rows.loading)
    begin = jnp.maximum(stop[EARLIEST], leave + way_there)
    fits = (
        (plans.is_kept | ~plans.waits)[:, None]
        & plans.legal
        & (plans.load - stop[LOAD] <= rows.capacity)
        & (begin <= stop[DEADLINE] + slack)
    )
    fits &= ~rows.is_drone | (2.0 * way_there + rows.stop_time <= rows.max_trip + slack)
    fits &= begin + rows.stop_time + way_on + plans.between <= plans.latest + slack
    added = jnp.where(fits, way_there + way_on - plans.arc, jnp.inf)
    least = jnp.min(added, axis=1, keepdims=True)
    position = first_where(added <= least + slack)[:, None]
    comes = incoming[:, None] >= 0
    longer = with_new(orders, position, incoming[:, None])
    travel = plans.travel + jnp.where(comes, least, 0.0)[:, 0]
    return jnp.where(comes, longer, orders), travel, (travel < jnp.inf).all()
