"""When stops are served, and at the latest may be: what insertion and re-planning compute with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.dispatch.plans import DEADLINE, EARLIEST, Plans, Prepared, at_position, distance, way_home


class Positions(struct.PyTreeNode):
    """Where a stop could be inserted: position k is before stop k, or after the last one; all `[V, S + 1]`.

    Attributes:
        legal: whether a stop may be inserted there.
        before, after: `f32[2, V, S + 1]`, the places between which it would be.
        leave: when the vehicle can leave `before`.
        leads_on: whether there is anything to go to `after`.
        arc: minutes from `before` to `after`, 0 where there is nothing.
        path: minutes of travel and stops from the first stop to what is `after`.
        latest: when the vehicle must begin there at the latest, inf where there is nothing. With noise a stop, or the
            way home, can be late already; then not later than it is planned.
    """

    legal: jax.Array
    before: jax.Array
    after: jax.Array
    leave: jax.Array
    leads_on: jax.Array
    arc: jax.Array
    path: jax.Array
    latest: jax.Array


def index_of(size: int) -> jax.Array:
    return jnp.arange(size, dtype=jnp.int32)


def sums(values: jax.Array) -> jax.Array:
    """Cumulative sums along the last axis; as a product with a triangle, which takes one kernel."""
    size = values.shape[-1]
    triangle = (index_of(size)[:, None] <= index_of(size)).astype(jnp.float32)
    return jnp.matmul(values, triangle, precision=jax.lax.Precision.HIGHEST)


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


def positions(prepared: Prepared, plans: Plans) -> Positions:
    instance, stop_time = prepared.fleet, prepared.fleet.stop_time[:, None]
    vehicles, size = plans.start.shape
    index, count = index_of(size + 1), plans.num_stops[:, None]
    places = plans.stops[:2]
    before, leave = followed_by(plans.place, places), followed_by(plans.free, plans.start + stop_time)
    nothing = jnp.zeros((2, vehicles, 1), jnp.float32)
    after = jnp.concatenate([places, nothing], axis=-1)
    is_noisy, deadline = prepared.factors is not None, plans.stops[DEADLINE]
    if is_noisy:
        deadline = jnp.where(plans.present, jnp.maximum(deadline, plans.start), deadline)
    deadline = jnp.concatenate([deadline, nothing[0]], axis=-1)
    legal, leads_on, end = index <= count, index < count, jnp.full((vehicles, 1), jnp.inf, jnp.float32)
    if instance.depot is not None:
        before, after, leave, legal = _between_trips(prepared, plans, before, after, leave)
        leads_on = index <= count
        began = jnp.where(instance.is_drone, at_position(plans.num_stops, jnp.where(legal, leave, 0.0)), leave[:, 0])
        end = jnp.minimum(instance.horizon, began + instance.max_trip)[:, None]
    arc = jnp.where(leads_on, distance(before, after) * prepared.pace[:, None], 0.0)
    if is_noisy and instance.depot is not None:
        home = at_position(plans.num_stops, leave + arc)[:, None]
        end = jnp.where(instance.is_drone[:, None] | (count == 0), end, jnp.maximum(end, home))
    path = sums(jnp.where(leads_on & (index > 0), arc + stop_time, 0.0))
    bound = jnp.where(index < count, deadline, jnp.where(index == count, end, jnp.inf))
    return Positions(legal, before, after, leave, leads_on, arc, path, least_from(bound - path) + path)


def _between_trips(
    prepared: Prepared, plans: Plans, before: jax.Array, after: jax.Array, leave: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """`before`, `after`, `leave` and `legal` of vehicles with a depot, where every trip begins and ends.

    A vehicle has one trip ahead. A drone makes one for each parcel, in the order in which it got them, so that only the
    last position is legal.
    """
    instance = prepared.fleet
    assert instance.depot is not None
    depot, is_drone = instance.depot[:, None, None], instance.is_drone[:, None]
    stop_time = instance.stop_time[:, None]
    index, count = index_of(before.shape[-1]), plans.num_stops[:, None]
    back = plans.start + stop_time + way_home(prepared, plans) + instance.turnaround[:, None]
    loads = followed_by(plans.free, back)
    leave = jnp.where(is_drone | (index == 0), loads + stop_time, leave)
    before = jnp.where(is_drone | (index == 0), depot, before)
    after = jnp.where(is_drone | (index >= count), depot, after)
    return before, after, leave, (index <= count) & ~(is_drone & (index < count))


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
    instance, at, present = prepared.fleet, positions(prepared, plans), plans.present
    path = at.path[:, :-1]
    first = at.leave[:, 0] + at.arc[:, 0]
    if instance.depot is not None:
        way = way_home(prepared, plans)
        cycle = 2.0 * instance.stop_time[:, None] + instance.turnaround[:, None] + way
        gap = jnp.concatenate([jnp.zeros_like(way[:, :1]), cycle[:, :-1] + way[:, 1:]], axis=-1)
        is_drone = instance.is_drone[:, None]
        path = jnp.where(is_drone, sums(jnp.where(present, gap, 0.0)), path)
        first = jnp.where(instance.is_drone, plans.free + instance.stop_time + way[:, 0], first)
    earliest = jnp.maximum(plans.stops[EARLIEST], followed_by(first, jnp.zeros_like(path[:, 1:])))
    start = path - least_until(path - earliest)
    return plans.replace(start=jnp.where(present, start, jnp.inf))


def in_order(prepared: Prepared, plans: Plans, stops: jax.Array, order: jax.Array) -> Plans:
    """The plans with other stops: numbers `i32[V, S]` in a table `f32[7, N]`, -1 where there is none."""
    exists = order >= 0
    found = jnp.where(exists, jnp.take(stops, order, axis=1, mode="clip"), 0.0)
    return rescheduled(prepared, plans.replace(stops=found, start=jnp.where(exists, 0.0, jnp.inf)))
