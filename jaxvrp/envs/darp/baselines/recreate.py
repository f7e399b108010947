"""Recreate: requests without a place are inserted, one by one, where they add the least distance and some noise.

Windows and capacity are exact at every insertion. Where limits are enforced, the tour that changed is tested.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp.baselines.lanes import (
    Lanes,
    between,
    following,
    least,
    length_of,
    of_nodes,
    pick,
    time_between,
)
from jaxvrp.envs.darp.baselines.limits import keep_limits

MOST_TESTS = 4  # places that are tested for one request where limits are enforced, the cheapest first; then it waits
LATEST = 1e30  # later than any time


class Plans(struct.PyTreeNode):
    """Plans, the last axis."""

    sequence: jax.Array  # `i32[T, B]`, T = N + V + 1: V + 1 depots with the tours between them; 0 behind the last
    waiting: jax.Array  # `bool[R, B]`, requests without a place
    cost: jax.Array  # `f32[B]`, distance and penalties


class Stops(struct.PyTreeNode):
    """Along the sequences, `[T, B]` each."""

    node: jax.Array  # `i32`
    length: jax.Array  # `f32`, distance to the next stop
    leg: jax.Array  # `f32`, time to the next stop
    earliest: jax.Array  # `f32`, of the node
    deadline: jax.Array  # `f32`, of the node
    service: jax.Array  # `f32`, of the node
    start: jax.Array  # `f32`, of service, as early as possible
    latest: jax.Array  # `f32`, start of service after which a deadline further on is missed
    room: jax.Array  # `i32`, places that are free after the stop; -1 behind the last tour


def recreated(lanes: Lanes, sequence: jax.Array, waiting: jax.Array, turn: jax.Array, noise: jax.Array) -> Plans:
    """The plans after waiting requests have been inserted, as far as there are places.

    Args:
        lanes: the problems.
        sequence, waiting: as in `Plans`.
        turn: `f32[R, B]` in [0, 1); the least comes first.
        noise: `f32[2 T, B]`, from which the noise of each place is taken.
    """
    numbers = jnp.arange(len(waiting), dtype=jnp.int32)[:, None]

    def insert(carry: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> Any:
        index, sequence, waiting, turn = carry
        next_turn, request = least(turn)
        stops = make_stops(lanes, sequence)
        # Other rows of noise for each insertion, for pickups and for drop-offs.
        rows = (7 * (index + 1) % len(sequence), 17 * (index + 1) % len(sequence))
        of_ends = tuple(jax.lax.dynamic_slice_in_dim(noise, row, len(sequence)) for row in rows)
        cost, drop = places(lanes, stops, request, of_ends)
        cost = jnp.where(next_turn < 2.0, cost, jnp.inf)
        inserted, found = _inserted(lanes, sequence, request, cost, drop)
        is_next = numbers == request
        return index + 1, inserted, waiting & ~(is_next & found), jnp.where(is_next, 2.0, turn)

    start = (jnp.zeros((), jnp.int32), sequence, waiting, jnp.where(waiting, turn, 2.0))
    _, sequence, waiting, _ = jax.lax.while_loop(lambda carry: (carry[3] < 2.0).any(), insert, start)
    return Plans(sequence, waiting, length_of(lanes, sequence) + 2.0 * lanes.penalty * waiting.sum(axis=0))


def _inserted(
    lanes: Lanes, sequence: jax.Array, request: jax.Array, cost: jax.Array, drop: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The sequences with a request each (`i32[B]`), and whether there was a place (`bool[B]`), by `places`."""

    def best(cost: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        cheapest, before = least(cost)
        return _with(sequence, request, before, pick(drop, before)), before, jnp.isfinite(cheapest)

    if not lanes.limits:
        inserted, _, found = best(cost)
        return jnp.where(found, inserted, sequence), found

    def test(loop: Any) -> Any:
        tests, cost, result, done, pending = loop
        inserted, before, possible = best(cost)
        keeps = keep_limits(lanes, inserted, before) & possible
        taken = keeps & pending
        row = jnp.arange(len(cost), dtype=jnp.int32)[:, None] == before
        result, cost = jnp.where(taken, inserted, result), jnp.where(row, jnp.inf, cost)
        return tests + 1, cost, result, done | taken, pending & possible & ~keeps

    pending = jnp.isfinite(cost).any(axis=0)
    start = (jnp.zeros((), jnp.int32), cost, sequence, jnp.zeros_like(pending), pending)
    _, _, result, found, _ = jax.lax.while_loop(lambda loop: (loop[0] < MOST_TESTS) & loop[4].any(), test, start)
    return result, found


def make_stops(lanes: Lanes, sequence: jax.Array) -> Stops:
    """Times and loads along the sequences."""
    is_depot = sequence == 0
    instance = lanes.instance
    tables = (instance.earliest, instance.deadline, instance.service_time, instance.demand)
    earliest, deadline, service, demand = (of_nodes(table, sequence) for table in tables)
    length = between(lanes, sequence, following(sequence))
    leg = time_between(lanes, sequence, following(sequence), length)

    def forward(clock: tuple[jax.Array, jax.Array, jax.Array], stop: tuple[jax.Array, ...]) -> Any:
        leave, load, vehicle = clock
        is_depot, earliest, service, leg, demand = stop
        start = jnp.where(is_depot, earliest, jnp.maximum(leave, earliest))
        load, vehicle = load + demand, vehicle + is_depot
        return (start + service + leg, load, vehicle), (start, load, vehicle)

    def backward(latest: jax.Array, stop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        is_depot, deadline, service, leg = stop
        latest = jnp.where(is_depot, deadline, jnp.minimum(deadline, latest - service - leg))
        return latest, latest

    zero, none = jnp.zeros_like(lanes.penalty), jnp.zeros_like(lanes.origin)
    # Whole requests are inserted, so no passenger is on board at a depot, and the load needs no reset there.
    along = (is_depot, earliest, service, leg, demand)
    start, load, vehicle = jax.lax.scan(forward, (zero, none, none - 1), along)[1]
    latest = jax.lax.scan(backward, zero, (is_depot, deadline, service, leg), reverse=True)[1]
    vehicles = len(lanes.instance.capacity)
    capacity = of_nodes(lanes.instance.capacity, jnp.minimum(vehicle, vehicles - 1))
    room = jnp.where(vehicle < vehicles, capacity - load, -1)
    return Stops(sequence, length, leg, earliest, deadline, service, start, latest, room)


class _Places(struct.PyTreeNode):
    """All places of one request in each sequence, `[T, B]` each, of the pickup or the drop-off right after a stop."""

    boards: jax.Array  # `f32`, service of the pickup, as early as possible; inf where it is too late, or has no room
    detour: jax.Array  # `f32`, distance for the pickup
    follows: jax.Array  # `bool`, whether the request can be on board when the stop is visited
    last_leg: jax.Array  # `f32`, time to the drop-off
    latest: jax.Array  # `f32`, of the drop-off's service; finite, since a passenger who is not on board arrives at inf
    dropped: jax.Array  # `f32`, distance for the drop-off, with noise
    first_leg: jax.Array  # `f32`, time from the pickup to the next stop
    direct: jax.Array  # `f32[1, B]`, time from the pickup to the drop-off
    both: jax.Array  # `f32`, distance for pickup and drop-off at once, with noise


class _Ways(NamedTuple):
    """Lengths and times of ways from each stop of a sequence to a node, and on from it, `f32[T, B]`."""

    there: jax.Array
    on: jax.Array
    time_there: jax.Array
    time_on: jax.Array


def _both_ways(lanes: Lanes, node: jax.Array, stops: jax.Array) -> _Ways:
    """The ways to and from a node of each plan, `i32[B]`; without streets, both are the same."""
    on = between(lanes, node, stops)
    time_on = time_between(lanes, node, stops, on)
    if lanes.time is None:
        return _Ways(on, on, time_on, time_on)
    there = between(lanes, stops, node)
    return _Ways(there, on, time_between(lanes, stops, node, there), time_on)


def _all_places(lanes: Lanes, stops: Stops, request: jax.Array, noise: jax.Array) -> _Places:
    """The places of one request of each plan, `i32[B]`; `noise`, `f32[T, B]`, is added to what a drop-off costs."""
    pickup, drop_off = 2 * request + 1, 2 * request + 2
    has_room = pick(lanes.instance.demand, pickup) <= stops.room
    pickup_ways, drop_off_ways = _both_ways(lanes, pickup, stops.node), _both_ways(lanes, drop_off, stops.node)
    direct = between(lanes, pickup, drop_off)
    boards = jnp.maximum(stops.start + stops.service + pickup_ways.time_there, pick(lanes.instance.earliest, pickup))
    in_time = boards <= pick(lanes.instance.deadline, pickup)
    latest = following(stops.latest - drop_off_ways.time_on) - pick(lanes.instance.service_time, drop_off)
    from_then_on = following(drop_off_ways.on) - stops.length + noise
    return _Places(
        boards=jnp.where(in_time & has_room, boards, jnp.inf),
        detour=pickup_ways.there + following(pickup_ways.on) - stops.length,
        # No passenger rides beyond the depot.
        follows=has_room & (stops.node != 0),
        last_leg=drop_off_ways.time_there,
        latest=jnp.minimum(jnp.minimum(pick(lanes.instance.deadline, drop_off), latest), LATEST),
        dropped=drop_off_ways.there + from_then_on,
        first_leg=following(pickup_ways.time_on),
        direct=time_between(lanes, pickup, drop_off, direct)[None],
        both=pickup_ways.there + direct + from_then_on,
    )


def places(lanes: Lanes, stops: Stops, request: jax.Array, noise: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """The cheapest drop-off for the pickup of a request (`i32[B]`) right after each stop.

    One walk goes on from all pickups at once, stop by stop, as far as any of them can get. Windows and capacity are
    exact; of the ride, only the time on the way must fit, and `limits` decides about the rest.

    `noise`, `f32[T, B]` each, is added to what a pickup and a drop-off cost after each stop.

    Returns:
        What pickup and drop-off add, with noise, `f32[T, B]`, inf where there is no place; and the stop before the
        drop-off, `i32[T, B]`.
    """
    place = _all_places(lanes, stops, request, noise[1])
    position = jnp.broadcast_to(jnp.arange(len(stops.node), dtype=jnp.int32)[:, None], stops.node.shape)
    earliest = pick(lanes.instance.earliest, 2 * request + 2)
    leave = place.boards + pick(lanes.instance.service_time, 2 * request + 1)
    at_once = (jnp.maximum(leave + place.direct, earliest) <= place.latest) & (
        place.direct <= lanes.instance.max_ride_time
    )
    # What the walk reads of stops, `f32[2 T, B]`: void in the second half, beyond the sequence.
    # Rounded, a detour may take less time than the direct way.
    in_time = jnp.where(lanes.instance.round_travel_time, stops.deadline, stops.latest)
    ahead = {
        "leg": jnp.roll(stops.leg, 1, axis=0),
        "earliest": stops.earliest,
        "service": stops.service,
        "last_leg": place.last_leg,
        "latest_drop_off": place.latest,
        "dropped": place.dropped,
        "latest": jnp.where(place.follows, in_time, -jnp.inf),
    }
    beyond = ((0, len(stops.node)), (0, 0))
    ahead = {
        name: jnp.pad(leaf, beyond, constant_values=-jnp.inf if name == "latest" else 0.0)
        for name, leaf in ahead.items()
    }

    def visit(walk: Any) -> Any:
        offset, leave, ride, cheapest, drop = walk
        stop = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, offset, len(position)), ahead)
        leg = jnp.where(offset == 1, place.first_leg, stop["leg"])
        start, ride = jnp.maximum(leave + leg, stop["earliest"]), ride + leg + stop["service"]
        # A request that is not on board any more leaves at inf, and stays there whatever is added.
        is_kept = (start <= stop["latest"]) & (ride <= lanes.instance.max_ride_time)
        leave = jnp.where(is_kept, start + stop["service"], jnp.inf)
        arrives = jnp.maximum(leave + stop["last_leg"], earliest)
        is_kept = (arrives <= stop["latest_drop_off"]) & (ride + stop["last_leg"] <= lanes.instance.max_ride_time)
        cost = jnp.where(is_kept, place.detour + stop["dropped"], jnp.inf)
        return offset + 1, leave, ride, jnp.minimum(cost, cheapest), jnp.where(cost < cheapest, position + offset, drop)

    start = (jnp.ones((), jnp.int32), leave, jnp.zeros_like(leave), jnp.where(at_once, place.both, jnp.inf), position)
    *_, cheapest, drop = jax.lax.while_loop(
        lambda walk: (walk[0] < len(position)) & jnp.isfinite(walk[1]).any(), visit, start
    )
    return cheapest + noise[0], drop


def _with(sequence: jax.Array, request: jax.Array, before: jax.Array, drop: jax.Array) -> jax.Array:
    """The sequences with a pickup right after stop `before`, and the drop-off after `drop`, all `i32[B]`."""
    position, drop_off = jnp.arange(len(sequence), dtype=jnp.int32)[:, None], 2 * request + 2
    by_one, by_two = jnp.roll(sequence, 1, axis=0), jnp.roll(sequence, 2, axis=0)
    cases = [position <= before, position == before + 1, position <= drop + 1, position == drop + 2]
    return jnp.select(cases, [sequence, 2 * request + 1, by_one, drop_off], by_two)
