"""How time passes with noise: vehicles drive leg by leg, and learn when each has ended.

What a vehicle has begun is kept until it has ended, with when and where that began. So what is known at a time follows
from the factors of the legs that have ended by then, and a leg that has not is taken to end when it was planned to,
but not before now.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.dispatch.routes.noise import Lateness, UnderWay
from jaxvrp.envs.dispatch.routes.plans import (
    DEADLINE,
    DUE,
    EARLIEST,
    LOAD,
    REQUEST,
    Begun,
    Plans,
    Prepared,
    Span,
    begins_by,
    depot_of,
    gone_on,
    minutes_of_all,
    places_of,
    without_first,
)
from jaxvrp.envs.dispatch.routes.schedule import index_of


class Drive(struct.PyTreeNode):
    """What vehicles have under way, then their plans, as they come to be: `[V, K]`, K = U + S; 0 where nothing is."""

    stops: jax.Array  # `f32[7, V, K]`
    present: jax.Array  # `bool[V, K]`
    leg: jax.Array  # `i32[V, K]`, the number of the leg to a stop
    ends_trip: jax.Array  # `bool[V, K]`, whether the vehicle drives home from there
    origin: jax.Array  # `f32[2, V, K]`, where that begins, along streets as of `located`
    departs: jax.Array  # `f32[V, K]`, when; with a depot, when the vehicle begins to load for that trip
    minutes: jax.Array  # `f32[V, K]`, of the leg
    arrival: jax.Array  # `f32[V, K]`, when it ends
    start: jax.Array  # `f32[V, K]`, when service begins
    home: jax.Array  # `f32[V, K]`, when it is there
    home_minutes: jax.Array  # `f32[V, K]`, of that leg
    ended: jax.Array  # `f32[V, K]`, when the vehicle is free for what follows
    expected_start: jax.Array  # `f32[V, K]`, what is known of `start`
    expected_ended: jax.Array  # `f32[V, K]`, and of `ended`


class _Carry(NamedTuple):
    """Of each vehicle after a stop: its place, when it is free and is expected to be, and when it last loaded."""

    place: jax.Array
    time: jax.Array
    expected: jax.Array
    loaded: jax.Array


def drive(prepared: Prepared, plans: Plans, until: jax.Array) -> Drive:
    """The stops of all vehicles, driven with the factors of their legs, and what is known of that at `until`."""
    assert prepared.factors is not None and plans.under_way is not None
    under_way = plans.under_way
    is_begun = index_of(under_way.stops.shape[-1]) < under_way.count[:, None]
    present = jnp.concatenate([is_begun, plans.present], axis=-1)
    stops = jnp.concatenate([under_way.stops, plans.stops], axis=-1)
    loads, ends_trip, released = _trips(prepared, plans, present, stops[DUE])
    legs = jnp.cumsum(present.astype(jnp.int32) + ends_trip, axis=-1) + under_way.leg[:, None]
    leg = legs - present - ends_trip
    last_leg = prepared.factors.actual.shape[-1] - 1
    factor, home_factor = (
        jnp.take_along_axis(prepared.factors.actual, jnp.minimum(number, last_leg), axis=-1)
        for number in (leg, leg + 1)
    )
    is_out = under_way.count > 0
    first = jnp.where(is_out, under_way.left, plans.free)
    begin = _Carry(jnp.where(is_out, under_way.origin, plans.place), first, first, first)
    columns = (stops, present, loads, ends_trip, released, factor, home_factor)
    by_column = jax.tree.map(lambda values: jnp.moveaxis(values, -1, 0), columns)
    driven = jax.lax.scan(functools.partial(_served, prepared, until), begin, by_column)[1]
    by_vehicle = {name: jnp.moveaxis(values, 0, -1) for name, values in driven.items()}
    return Drive(stops=stops, present=present, leg=leg, ends_trip=ends_trip, **by_vehicle)


def _trips(
    prepared: Prepared, plans: Plans, present: jax.Array, due: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Before which stops a vehicle loads, behind which its trip ends, and when what it loads is there, `[V, K]` each.

    `due`, `f32[V, K]`, is the plane of that name.
    """
    assert plans.under_way is not None
    if prepared.fleet.depot is None:
        return jnp.zeros_like(present), jnp.zeros_like(present), due
    num_begun, is_drone = plans.under_way.stops.shape[-1], prepared.fleet.is_drone[:, None]
    number = jnp.concatenate([index_of(num_begun), index_of(plans.start.shape[-1])])
    is_under_way = index_of(number.size) < num_begun
    of_trip = jnp.where(is_under_way, plans.under_way.count[:, None], plans.num_stops[:, None])
    loads = present & (is_drone | (number == 0))
    ends_trip = present & (is_drone | (number == of_trip - 1))
    of_begun, of_plan = (jnp.max(each, axis=-1, keepdims=True) for each in jnp.split(due, [num_begun], axis=-1))
    released = jnp.where(is_drone, due, jnp.where(is_under_way, of_begun, of_plan))
    return loads, ends_trip, jnp.where(loads, released, -jnp.inf)


def _served(
    prepared: Prepared, until: jax.Array, before: _Carry, column: tuple[jax.Array, ...]
) -> tuple[_Carry, dict[str, jax.Array]]:
    """Each vehicle after its next stop, and the numbers of this in `Drive`."""
    instance, (stop, present, loads, ends_trip, released, factor, home_factor) = prepared.fleet, column
    place, time, expected, loaded = before.place, before.time, before.expected, before.time
    if instance.depot is not None:
        time, expected = jnp.maximum(time, released), jnp.maximum(expected, released)
        loaded = jnp.where(loads, time, before.loaded)
        place = jnp.where(loads, depot_of(prepared, 1), place)
        time, expected = (jnp.where(loads, free + instance.minutes_to_load, free) for free in (time, expected))
    there, earliest = places_of(prepared, stop), stop[EARLIEST]
    arrival, minutes, expected = _leg(minutes_of_all(prepared, place, there), factor, time, expected, until)
    start, expected_start = jnp.maximum(earliest, arrival), jnp.maximum(earliest, expected)
    time, expected = start + instance.stop_time, expected_start + instance.stop_time
    home, home_minutes = jnp.zeros_like(time), jnp.zeros_like(time)
    if instance.depot is not None:
        way_home = minutes_of_all(prepared, there, depot_of(prepared, 1))
        home, home_minutes, back = _leg(way_home, home_factor, time, expected, until)
        time = jnp.where(ends_trip, home + instance.turnaround, time)
        expected = jnp.where(ends_trip, back + instance.turnaround, expected)
    after = _Carry(there, time, expected, loaded)
    after = jax.tree.map(lambda new, old: jnp.where(present, new, old), after, before)
    return after, {
        "origin": place,
        "departs": loaded,
        "minutes": minutes,
        "arrival": arrival,
        "start": start,
        "home": home,
        "home_minutes": home_minutes,
        "ended": time,
        "expected_start": expected_start,
        "expected_ended": expected,
    }


def _leg(
    planned: jax.Array, factor: jax.Array, leaves: jax.Array, expected: jax.Array, until: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """When a leg ends, its minutes, and when it is expected to end, at `until`; all `f32[V]`."""
    minutes = planned * factor
    arrival = leaves + minutes
    return arrival, minutes, jnp.where(arrival <= until, arrival, jnp.maximum(expected + planned, until))


# Jitted, so that a program that asks several times traces it once.
@jax.jit
def advance(prepared: Prepared, plans: Plans, span: Span) -> tuple[Plans, Begun]:
    """As `advance` of plans without noise: what plans are left, and what became known meanwhile."""
    until = span.until
    driven, size = drive(prepared, plans, until), plans.start.shape[-1]
    begun = driven.present & begins_by(prepared, driven.departs, driven.start, until)
    of_plan, index = begun[:, -size:], index_of(begun.shape[-1])
    is_last = begun & (index == jnp.max(jnp.where(begun, index, -1), axis=-1, keepdims=True))

    def at_last(values: jax.Array, otherwise: jax.Array) -> jax.Array:
        found = jnp.sum(jnp.where(is_last, values, 0), axis=-1, dtype=values.dtype)
        return jnp.where(is_last.any(axis=-1), found, otherwise)

    under_way = _begun_last(prepared, plans, driven, of_plan)
    has_ended = at_last(driven.ended, plans.free) <= until
    following = at_last(driven.leg + 1 + driven.ends_trip, under_way.leg)
    under_way = under_way.replace(
        count=jnp.where(has_ended, 0, under_way.count), leg=jnp.where(has_ended, following, under_way.leg)
    )
    left = plans.replace(start=jnp.where(plans.present, driven.expected_start[:, -size:], jnp.inf))
    left = without_first(left, jnp.sum(of_plan, axis=-1, dtype=jnp.int32))
    left = left.replace(free=at_last(driven.expected_ended, plans.free), under_way=under_way)
    place = at_last(places_of(prepared, driven.stops), plans.place)
    left, drift = gone_on(prepared, plans, left, of_plan, place, span)
    return left, _known(prepared, driven, begun, drift, span.since, until)


def _begun_last(prepared: Prepared, plans: Plans, driven: Drive, begun: jax.Array) -> UnderWay:
    """What vehicles have begun last: of their plans, where `begun` (`bool[V, S]`), else what they had under way."""
    before, size, count = plans.under_way, begun.shape[-1], jnp.sum(begun, axis=-1, dtype=jnp.int32)
    assert before is not None
    first = count - 1
    if prepared.fleet.depot is not None:
        first = jnp.where(prepared.fleet.is_drone, first, 0)
    is_first = begun & (index_of(size) == first[:, None])
    any_begun = count > 0

    def at_first(values: jax.Array, otherwise: jax.Array) -> jax.Array:
        found = jnp.sum(jnp.where(is_first, values[..., -size:], 0), axis=-1, dtype=values.dtype)
        return jnp.where(any_begun, found, otherwise)

    stops = without_first(plans, jnp.maximum(first, 0)).stops[..., : before.stops.shape[-1]]
    return UnderWay(
        stops=jnp.where(any_begun[:, None], stops, before.stops),
        count=jnp.where(any_begun, count - first, before.count),
        origin=at_first(driven.origin, before.origin),
        left=at_first(driven.departs, before.left),
        leg=at_first(driven.leg, before.leg),
    )


def _known(
    prepared: Prepared, driven: Drive, begun: jax.Array, drift: jax.Array, since: jax.Array, until: jax.Array
) -> Begun:
    """What became known between `since` and `until` of the stops that have `begun`."""
    instance, load, granted = prepared.fleet, driven.stops[LOAD], 2 * prepared.slack

    def is_new(time: jax.Array) -> jax.Array:
        return begun & (time > since) & (time <= until)

    served, is_home = is_new(driven.start), driven.ends_trip & is_new(driven.home)
    travel = jnp.where(is_new(driven.arrival), driven.minutes, 0.0) + jnp.where(is_home, driven.home_minutes, 0.0)
    after_due = jnp.where(served, driven.start - driven.stops[DUE], 0.0)
    delay = jnp.sum(jnp.where(load > 0, 0.0, after_due))
    wait = jnp.sum(jnp.where(load > 0, after_due, 0.0))
    late_trip = jnp.zeros_like(is_home)
    if instance.depot is not None:
        wait = jnp.sum(jnp.where(served, driven.departs - driven.stops[DUE], 0.0))
        length = driven.home - driven.departs - instance.minutes_to_load[:, None]
        is_late_home = driven.home > instance.latest_return[:, None] + granted
        late_trip = is_home & (is_late_home | (length > instance.max_trip[:, None] + granted))
    late = driven.start - driven.stops[DEADLINE]
    is_late = served & (late > granted)
    minutes = jnp.sum(jnp.where(is_late, late, 0.0))
    request = driven.stops[REQUEST].astype(jnp.int32)
    requests = jnp.zeros(prepared.table.shape[0], bool).at[request].max(is_late)
    return Begun(
        wait=wait,
        delay=delay,
        by_drone=jnp.sum(served & (load < 0) & instance.is_drone[:, None], dtype=jnp.float32),
        broken=jnp.zeros((), jnp.float32),
        travel=drift + jnp.sum(travel, axis=-1),
        late=Lateness(minutes, minutes, requests, jnp.sum(late_trip, dtype=jnp.float32)),
    )
