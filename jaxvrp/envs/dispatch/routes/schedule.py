"""When stops are served, and at the latest may be: what insertion and re-planning compute with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.dispatch.routes.plans import (
    DEADLINE,
    DUE,
    EARLIEST,
    Plans,
    Prepared,
    at_position,
    depot_of,
    loads_at,
    minutes_of_all,
    places_of,
    way_home,
)


class Positions(struct.PyTreeNode):
    """Where a stop could be inserted: position k is before stop k, or after the last one; all `[V, S + 1]`.

    With noise a stop, or the way home, can be late already; then it is not later than it is planned. `shifted` is -inf
    of drones, too, and None if no parcel comes.
    """

    legal: jax.Array  # whether a stop may be inserted there
    before: jax.Array  # `f32[2, V, S + 1]`, the place before it, along streets as of `located`
    after: jax.Array  # and behind it
    leave: jax.Array  # when the vehicle can leave `before`
    leads_on: jax.Array  # whether there is anything to go to `after`
    arc: jax.Array  # minutes from `before` to `after`, 0 where there is nothing
    path: jax.Array  # minutes of travel and stops from the first stop to what is `after`
    latest: jax.Array  # when the vehicle must begin there at the latest, inf where there is nothing
    shifted: jax.Array | None  # `f32[V]`, when a trip begins its first stop that waits for the parcel; -inf of others


def index_of(size: int) -> jax.Array:
    return jnp.arange(size, dtype=jnp.int32)


def first_where(condition: jax.Array) -> jax.Array:
    """`i32[...]`, the first index along the last axis where it holds; the last one if it holds nowhere."""
    size = condition.shape[-1]
    return jnp.min(jnp.where(condition, index_of(size), size - 1), axis=-1)


def with_new(values: jax.Array, position: jax.Array, new: jax.Array | bool) -> jax.Array:
    """Values with a new one at a position along the last axis, those from there on one place further."""
    index = index_of(values.shape[-1])
    further = jnp.concatenate([values[..., :1], values[..., :-1]], axis=-1)
    return jnp.where(index < position, values, jnp.where(index == position, new, further))


def sums(values: jax.Array) -> jax.Array:
    """Cumulative sums along the last axis; as a product with a triangle, which takes a CPU one kernel."""
    size = values.shape[-1]
    triangle = index_of(size)[:, None] <= index_of(size)

    def by_product(values: jax.Array) -> jax.Array:
        return jnp.matmul(values, triangle.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)

    def by_sums(values: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(triangle, values[..., :, None], 0.0), axis=-2)

    return jax.lax.platform_dependent(values, cpu=by_product, default=by_sums)


def least_from(values: jax.Array) -> jax.Array:
    """The least of the values from each position on, along the last axis."""
    size = values.shape[-1]
    from_here = index_of(size)[:, None] >= index_of(size)
    return jnp.min(jnp.where(from_here, values[..., :, None], jnp.inf), axis=-2)


def least_until(values: jax.Array) -> jax.Array:
    """The least of the values up to each position, along the last axis."""
    size = values.shape[-1]
    until_here = index_of(size)[:, None] <= index_of(size)
    return jnp.min(jnp.where(until_here, values[..., :, None], jnp.inf), axis=-2)


def followed_by(first: jax.Array, rest: jax.Array) -> jax.Array:
    """`[..., V, S + 1]` from `[..., V]` and `[..., V, S]`."""
    return jnp.concatenate([first[..., None], rest], axis=-1)


def positions(prepared: Prepared, plans: Plans, released: jax.Array | None = None) -> Positions:
    """Where stops could be inserted; with a depot, of a parcel that can be loaded from `released` (`f32[]`) on."""
    instance, stop_time = prepared.fleet, prepared.fleet.stop_time[:, None]
    vehicles, size = plans.start.shape
    index, count = index_of(size + 1), plans.num_stops[:, None]
    places = places_of(prepared, plans.stops)
    nothing = jnp.zeros((places.shape[0], vehicles, 1), jnp.float32)
    before = followed_by(plans.place, places)
    after = jnp.concatenate([places, nothing], axis=-1)
    deadline = plans.stops[DEADLINE]
    if prepared.factors is not None:
        deadline = jnp.where(plans.present, jnp.maximum(deadline, plans.start), deadline)
    deadline = jnp.concatenate([deadline, nothing[0]], axis=-1)
    legal, leads_on = index <= count, index < count
    if instance.depot is not None:
        before, after, legal = _between_trips(prepared, plans, before, after)
        leads_on = index <= count
    arc = jnp.where(leads_on, minutes_of_all(prepared, before, after), 0.0)
    path = sums(jnp.where(leads_on & (index > 0), arc + stop_time, 0.0))
    leave, shifted = followed_by(plans.free, plans.start + stop_time), None
    end = jnp.full((vehicles, 1), jnp.inf, jnp.float32)
    if instance.depot is not None:
        home = leave + arc
        leave = _after_loading(prepared, plans, leave)
        if released is not None:
            leave, shifted = _waiting(prepared, plans, released, leave, arc, path)
        began = at_position(jnp.where(instance.is_drone, plans.num_stops, 0), leave)
        end = jnp.minimum(instance.latest_return, began + instance.max_trip)[:, None]
        if prepared.factors is not None:
            is_on_trip = ~instance.is_drone[:, None] & (count > 0)
            end = jnp.where(is_on_trip, jnp.maximum(end, at_position(plans.num_stops, home)[:, None]), end)
    bound = jnp.where(index < count, deadline, jnp.where(index == count, end, jnp.inf))
    latest = least_from(bound - path) + path
    if shifted is not None:
        legal &= shifted[:, None] <= latest[:, :1] + prepared.slack
    return Positions(legal, before, after, leave, leads_on, arc, path, latest, shifted)


def _between_trips(
    prepared: Prepared, plans: Plans, before: jax.Array, after: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`before`, `after` and `legal` of vehicles with a depot, where every trip begins and ends.

    A vehicle has one trip ahead. A drone makes one for each parcel, in the order in which it got them, so that only the
    last position is legal.
    """
    depot, is_drone = depot_of(prepared, 2), prepared.fleet.is_drone[:, None]
    index, count = index_of(before.shape[-1]), plans.num_stops[:, None]
    before = jnp.where(is_drone | (index == 0), depot, before)
    after = jnp.where(is_drone | (index >= count), depot, after)
    return before, after, (index <= count) & ~(is_drone & (index < count))


def _after_loading(prepared: Prepared, plans: Plans, leave: jax.Array) -> jax.Array:
    """`leave` (`f32[V, S + 1]`) of vehicles with a depot, which load first; a drone for each parcel."""
    instance, stop_time = prepared.fleet, prepared.fleet.stop_time[:, None]
    is_drone, index = instance.is_drone[:, None], index_of(leave.shape[-1])
    back = plans.start + stop_time + way_home(prepared, plans) + instance.turnaround[:, None]
    loads = followed_by(loads_at(plans), back)
    return jnp.where(is_drone | (index == 0), loads + instance.minutes_to_load[:, None], leave)


def _waiting(
    prepared: Prepared, plans: Plans, released: jax.Array, leave: jax.Array, arc: jax.Array, path: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`leave` and `shifted` if a parcel comes that can be loaded from `released` on.

    All stops of a trip are later if it has to wait for it. A drone first flies what it got before.
    """
    is_drone, loaded = prepared.fleet.is_drone, released + prepared.fleet.minutes_to_load
    waits = ~is_drone & (released > loads_at(plans))
    shifted = jnp.where(waits, loaded + arc[:, 0], -jnp.inf)
    after_waiting = jnp.where(is_drone[:, None], loaded[:, None], shifted[:, None] + path - arc)
    return jnp.maximum(leave, after_waiting), shifted


def planned_travel(prepared: Prepared, plans: Plans) -> jax.Array:
    """`f32[V]`, minutes of travel that are planned."""
    at = positions(prepared, plans)
    by_vehicle = jnp.sum(at.arc, axis=-1)
    if prepared.fleet.depot is None:
        return by_vehicle
    flights = 2.0 * jnp.sum(jnp.where(plans.present, way_home(prepared, plans), 0.0), axis=-1)
    return jnp.where(prepared.fleet.is_drone, flights, by_vehicle)


def rescheduled(prepared: Prepared, plans: Plans) -> Plans:
    """The plans with every stop served as early as it can be; in the order that they have."""
    instance, present = prepared.fleet, plans.present
    if instance.depot is not None:
        plans = plans.replace(released=jnp.max(plans.stops[DUE], axis=-1))
    at = positions(prepared, plans)
    path, opens = at.path[:, :-1], plans.stops[EARLIEST]
    first = at.leave[:, 0] + at.arc[:, 0]
    if instance.depot is not None:
        way = way_home(prepared, plans)
        loading = instance.minutes_to_load
        cycle = (instance.stop_time + loading + instance.turnaround)[:, None] + way
        gap = jnp.concatenate([jnp.zeros_like(way[:, :1]), cycle[:, :-1] + way[:, 1:]], axis=-1)
        is_drone = instance.is_drone[:, None]
        path = jnp.where(is_drone, sums(jnp.where(present, gap, 0.0)), path)
        first = jnp.where(instance.is_drone, plans.free + loading + way[:, 0], first)
        flown = plans.stops[DUE] + loading[:, None] + way
        opens = jnp.where(is_drone, jnp.maximum(opens, flown), opens)
    earliest = jnp.maximum(opens, followed_by(first, jnp.zeros_like(path[:, 1:])))
    start = path - least_until(path - earliest)
    return plans.replace(start=jnp.where(present, start, jnp.inf))


def in_order(prepared: Prepared, plans: Plans, stops: jax.Array, order: jax.Array) -> Plans:
    """The plans with other stops: numbers `i32[V, S]` in a table `f32[7, N]`, -1 where there is none."""
    exists = order >= 0
    found = jnp.where(exists, jnp.take(stops, order, axis=1, mode="clip"), 0.0)
    return rescheduled(prepared, plans.replace(stops=found, start=jnp.where(exists, 0.0, jnp.inf)))
