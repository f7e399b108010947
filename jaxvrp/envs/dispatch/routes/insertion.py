"""Where a request fits into the plans of all vehicles, exactly, and at which cost.

A plan is served as early as it can be. Its least service times `t` are what it will come to, its greatest `u` what its
deadlines allow. Pushing the stop at position k to a later time x pushes the stop at m > k to `max(t_m, x + path_m -
path_k)`, where `path` sums travel and stop times; it is feasible if and only if `x <= u_k`. So one comparison tells of
each pair of positions whether a pickup and a drop-off fit there: `X_i <= room_j`, where `X_i` depends on the pickup and
`room_j` on the drop-off alone (Savelsbergh 1992; `u` are his latest times).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.routes.plans import (
    DEADLINE,
    LOAD,
    Plans,
    Prepared,
    Request,
    at_position,
    ends_of,
    mean_minutes,
    minutes_of_all,
)
from jaxvrp.envs.dispatch.routes.schedule import Positions, first_where, followed_by, index_of, positions, sums

NEVER = float(np.finfo(np.float32).max)
"""Minutes; beyond all times."""


class Offers(struct.PyTreeNode):
    """What each of V vehicles would do with the request; all else is 0 where it can't take it.

    With a depot, only the position of the drop-off counts, and the start of the pickup is when it would load.
    """

    feasible: jax.Array  # `bool[V]`, whether all promises can be kept
    added: jax.Array  # `f32[V]`, minutes of travel beyond those planned
    pickup_position: jax.Array  # `i32[V]`, before which stop of the plan the pickup would be inserted
    dropoff_position: jax.Array  # `i32[V]`, and the drop-off
    pickup_start: jax.Array  # `f32[V]`, when service would begin there
    dropoff_start: jax.Array  # `f32[V]`, likewise
    slack: jax.Array  # `f32[V]`, the least of the minutes that are left before the deadlines of the plan, then
    moved: jax.Array  # `f32[V, S]`, when service of the planned stops would begin, inf where there is none


class _Fit(struct.PyTreeNode):
    """A stop at every position by itself, all `[V, S + 1]`: ways, when it and the next stop begin, and if it fits."""

    way_there: jax.Array
    way_on: jax.Array
    begin: jax.Array
    reach: jax.Array
    fits: jax.Array


# Jitted, so that a program that asks several times traces it once.
@jax.jit
def offers(prepared: Prepared, plans: Plans, request: Request) -> Offers:
    """The cheapest feasible insertion into each plan: least added travel, then the earliest pair of positions."""
    find = _offer_rides if prepared.fleet.depot is None else _offer_deliveries
    return find(prepared, plans, request)


def insert(prepared: Prepared, plans: Plans, found: Offers, request: Request, chosen: jax.Array) -> Plans:
    """The plans after the chosen vehicles (`bool[V]`) have taken their offers."""
    plans = plans.replace(start=jnp.where(chosen[:, None], found.moved, plans.start))
    of_dropoff = (*request.dropoff, request.dropoff_earliest, request.dropoff_deadline, -request.load, request.index)
    if plans.released is not None:
        plans = plans.replace(released=jnp.where(chosen, jnp.maximum(plans.released, request.released), plans.released))
        drop = _Stop(found.dropoff_position, (*of_dropoff, request.released), found.dropoff_start)
        return _put(plans, chosen, [drop])
    due = request.arrival + mean_minutes(prepared, *ends_of(prepared, request))
    drop = _Stop(found.dropoff_position, (*of_dropoff, due), found.dropoff_start)
    of_pickup = (*request.pickup, request.pickup_earliest, request.pickup_deadline, request.load, request.index)
    pick = _Stop(found.pickup_position, (*of_pickup, request.arrival), found.pickup_start)
    return _put(plans, chosen, [pick, drop])


class _Stop(NamedTuple):
    """A stop to come before the stop `position` (`i32[V]`) of each plan: its planes, and when it starts (`f32[V]`)."""

    position: jax.Array
    planes: tuple[jax.Array, ...]
    start: jax.Array


def _put(plans: Plans, chosen: jax.Array, new: Sequence[_Stop]) -> Plans:
    """The plans of the chosen vehicles with new stops, in ascending order of their positions.

    All at once, so that an accelerator writes the stops once.
    """
    stops, start = plans.stops, plans.start
    vehicles, size = start.shape
    for number, stop in enumerate(new):
        at = jnp.where(chosen, stop.position + number, size)[:, None]
        planes = jnp.stack([jnp.broadcast_to(plane, (vehicles,)) for plane in stop.planes])
        stops = _joined(stops, at, planes[:, :, None], plans.stops, 1 + number)
        start = _joined(start, at, stop.start[:, None], plans.start, 1 + number)
    return plans.replace(stops=stops, start=start)


def _joined(before: jax.Array, at: jax.Array, new: jax.Array, old: jax.Array, places: int) -> jax.Array:
    """`before` up to a position (`i32[V, 1]`), `new` there, and then `old`, so many places later (`f32[..., V, S]`)."""
    index = index_of(old.shape[-1])
    later = jnp.concatenate([old[..., :places], old[..., :-places]], axis=-1)
    return jnp.where(index < at, before, jnp.where(index == at, new, later))


def _fit(prepared: Prepared, at: Positions, place: jax.Array, earliest: jax.Array, deadline: jax.Array) -> _Fit:
    """A stop at `place` (`f32[2]`, along streets as of `located`) at each position."""
    stop_time, place = prepared.fleet.stop_time[:, None], place[:, None, None]
    way_there = minutes_of_all(prepared, at.before, place)
    way_on = jnp.where(at.leads_on, minutes_of_all(prepared, place, at.after), 0.0)
    begin = jnp.maximum(earliest, at.leave + way_there)
    reach = begin + stop_time + way_on
    fits = at.legal & (begin <= deadline + prepared.slack) & (reach <= at.latest + prepared.slack)
    return _Fit(way_there, way_on, begin, reach, fits)


def _offer_deliveries(prepared: Prepared, plans: Plans, request: Request) -> Offers:
    """A drop-off at one position of the trip that has not left; the trip waits for the parcel."""
    instance, at = prepared.fleet, positions(prepared, plans, request.released)
    assert at.shifted is not None
    _, place = ends_of(prepared, request)
    fit = _fit(prepared, at, place, request.dropoff_earliest, request.dropoff_deadline)
    planned = jnp.where(instance.is_drone, 0.0, -jnp.sum(plans.stops[LOAD], axis=-1))
    has_room = (planned + request.load <= prepared.capacity) & (plans.num_stops < plans.start.shape[-1])
    possible = fit.fits & has_room[:, None] & request.exists
    added = jnp.where(possible, fit.way_there + fit.way_on - at.arc, jnp.inf)
    position = first_where(added <= jnp.min(added, axis=-1, keepdims=True) + prepared.slack)
    begin, pushed = at_position(position, fit.begin), at_position(position, fit.reach - at.path)
    is_before = index_of(plans.start.shape[-1]) < position[:, None]
    moved = _pushed(plans, at, jnp.where(is_before, at.shifted[:, None], pushed[:, None]))
    loads = jnp.where(instance.is_drone, at_position(position, at.leave), at.leave[:, 0])
    loads -= instance.minutes_to_load
    end = plans.num_stops
    home_slack = at_position(end, at.latest) - jnp.maximum(
        at_position(end, at.leave + at.arc), pushed + at_position(end, at.path)
    )
    slack = jnp.minimum(home_slack, request.dropoff_deadline - begin)
    return _checked(plans, at_position(position, added), (position, position, loads, begin, slack, moved))


def _offer_rides(prepared: Prepared, plans: Plans, request: Request) -> Offers:
    """A pickup and a drop-off, each at one position of the plan."""
    at, index = positions(prepared, plans), index_of(plans.start.shape[-1] + 1)
    stop_time, granted = prepared.fleet.stop_time[:, None], prepared.slack
    pickup, dropoff = ends_of(prepared, request)
    carried = followed_by(plans.aboard, plans.aboard[:, None] + sums(plans.stops[LOAD]))
    is_full = carried + request.load > prepared.capacity[:, None]
    has_room = (plans.num_stops + 2 <= plans.start.shape[-1]) & request.exists
    enters = at.replace(legal=at.legal & has_room[:, None] & ~is_full)
    pick = _fit(prepared, enters, pickup, request.pickup_earliest, request.pickup_deadline)
    drop = _fit(prepared, at, dropoff, request.dropoff_earliest, request.dropoff_deadline)
    begin_next, added_next = _right_behind(prepared, enters, request, pick, drop)
    added_pick, added_drop = pick.way_there + pick.way_on - at.arc, drop.way_there + drop.way_on - at.arc
    pushed = jnp.where(pick.fits, pick.reach - at.path, jnp.inf)
    path_before = followed_by(jnp.zeros_like(plans.free), at.path[:, :-1])
    deadline = jnp.minimum(request.dropoff_deadline, NEVER)  # finite, so that it refuses a pickup that does not fit
    room = jnp.minimum(deadline, at.latest - stop_time - drop.way_on)
    room = jnp.where(drop.fits, room - stop_time - drop.way_there - path_before + granted, -jnp.inf)
    least = jnp.minimum(added_next, added_pick + _least_behind(pushed, room, added_drop, is_full))
    added = jnp.min(least, axis=-1)
    first = first_where(least <= added[:, None] + granted)
    pushed_there, behind_first = at_position(first, pushed), index > first[:, None]
    full_from = jnp.min(jnp.where(is_full & behind_first, index, index.size), axis=-1, keepdims=True)
    fits = behind_first & (index < full_from) & (pushed_there[:, None] <= room)
    by_drop = jnp.where(fits, at_position(first, added_pick)[:, None] + added_drop, jnp.inf)
    by_drop = jnp.where(index == first[:, None], added_next, by_drop)
    second = first_where(by_drop <= added[:, None] + granted)

    def there(values: jax.Array) -> jax.Array:
        return at_position(second, values)

    arrive = jnp.maximum(there(at.leave), pushed_there + there(path_before) + stop_time[:, 0])
    begin_later = jnp.maximum(request.dropoff_earliest, arrive + there(drop.way_there))
    pickup_start = at_position(first, pick.begin)
    dropoff_start = jnp.where(first == second, at_position(first, begin_next), begin_later)
    reach = dropoff_start + stop_time[:, 0] + there(drop.way_on)
    between = _pushed(plans, at, pushed_there[:, None])
    behind = _pushed(plans, at, (reach - there(at.path))[:, None])
    stop = index[:-1]
    moved = jnp.where(stop < first[:, None], plans.start, jnp.where(stop < second[:, None], between, behind))
    slack = jnp.minimum(request.pickup_deadline - pickup_start, request.dropoff_deadline - dropoff_start)
    return _checked(plans, there(by_drop), (first, second, pickup_start, dropoff_start, slack, moved))


def _right_behind(
    prepared: Prepared, at: Positions, request: Request, pick: _Fit, drop: _Fit
) -> tuple[jax.Array, jax.Array]:
    """When a drop-off right behind its pickup begins, and the minutes that both add; inf where they do not fit."""
    stop_time, granted = prepared.fleet.stop_time[:, None], prepared.slack
    pickup, dropoff = ends_of(prepared, request)
    ride = minutes_of_all(prepared, pickup[:, None, None], dropoff[:, None, None])
    begin = jnp.maximum(request.dropoff_earliest, pick.begin + stop_time + ride)
    fits = (pick.begin <= request.pickup_deadline + granted) & (begin <= request.dropoff_deadline + granted)
    fits &= at.legal & (begin + stop_time + drop.way_on <= at.latest + granted)
    return begin, jnp.where(fits, pick.way_there + ride + drop.way_on - at.arc, jnp.inf)


def _least_behind(pushed: jax.Array, room: jax.Array, added: jax.Array, is_full: jax.Array) -> jax.Array:
    """The least that a drop-off adds at a later position than the pickup's; inf where none fits."""
    index, least, is_open = index_of(added.shape[-1]), jnp.full_like(added, jnp.inf), jnp.ones_like(is_full)
    for later in range(1, index.size):  # not as a table of pairs, which takes longer to write than to fill
        is_open &= (index >= later) | ~is_full[:, later, None]
        fits = (index < later) & is_open & (pushed <= room[:, later, None])
        least = jnp.minimum(least, jnp.where(fits, added[:, later, None], jnp.inf))
    return least


def _pushed(plans: Plans, at: Positions, to: jax.Array) -> jax.Array:
    """`f32[V, S]`, when service begins at the planned stops if the vehicle comes to the first of them at `to` (or each
    at its own, `f32[V, 1 or S]`), less its path.
    """
    return jnp.maximum(plans.start, to + at.path[:, :-1])


def _checked(plans: Plans, added: jax.Array, numbers: tuple[jax.Array, ...]) -> Offers:
    """The offers, with 0 for those that are none: inf in `added`; `slack` is that of the new stops.

    Only the position that was chosen decides. XLA repeats a comparison in each program that needs it, with other
    roundings, so that an insertion right at its deadline may fit for one and not for another.
    """
    found = Offers(added < jnp.inf, added, *numbers)
    left = jnp.min(jnp.where(plans.present, plans.stops[DEADLINE] - found.moved, jnp.inf), axis=-1)
    found = found.replace(slack=jnp.minimum(found.slack, left))
    none = {
        name: jnp.where(found.feasible, value, jnp.zeros((), value.dtype))
        for name, value in vars(found).items()
        if name not in ("feasible", "moved")
    }
    moved = jnp.where(found.feasible[:, None], found.moved, plans.start)
    return found.replace(**none, moved=moved)
