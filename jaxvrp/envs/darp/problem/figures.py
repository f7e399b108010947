"""What follows from an instance and is needed at every step: figures, and windows without moments of no use."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.darp.problem.instance import Instance, distance, street_lengths, times_to, times_to_next, travel_time
from jaxvrp.io.arrays import unit_of

SLACK = 2e-6
"""Share of the latest clock of a tour that is granted on every comparison of times: 16 times what `float32` resolves at
a clock that is as late, and published routes are tight."""


class Figures(struct.PyTreeNode):
    """What follows from one instance."""

    extent: jax.Array  # `f32[]`, the largest |x - x0| or |y - y0| of a node that is no padding, from the depot
    horizon: jax.Array  # `f32[]`, the depot's deadline; the largest finite one if it has none; else the longest tour
    slack: jax.Array  # `f32[]`, time that is granted on every comparison
    capacity: jax.Array  # `f32[]`, of the largest vehicle
    num_requests: jax.Array  # `f32[]`, without padding; at least 1
    num_vehicles: jax.Array  # `f32[]`, without padding; at least 1
    way_home: jax.Array  # `f32[N+1]`, time to drive from each node to the depot
    earliest: jax.Array  # `f32[N+1]`, of the windows that count: the instance's, or as `tightened` leaves them
    deadline: jax.Array  # `f32[N+1]`, likewise
    street_span: jax.Array | None = None  # `f32[]`, mean length of streets for straight ways as long as `extent`; None
    street_pace: jax.Array | None = None  # `f32[]`, mean time along them; both None without streets

    @property
    def span(self) -> jax.Array:
        """`f32[]`, what lengths of ways are measured by."""
        return self.extent if self.street_span is None else self.street_span

    def pace(self, instance: Instance) -> jax.Array:
        """`f32[]`, time for a way as long as `span`."""
        return self.extent / instance.vehicle_speed if self.street_pace is None else self.street_pace

    def bound(self, instance: Instance) -> Instance:
        """The instance that these are the figures of, with the windows that count."""
        return instance.replace(earliest=self.earliest, deadline=self.deadline)


def figures_of(instance: Instance, *, tighten: bool = False) -> Figures:
    """What follows from an instance (JAX arrays, no leading axes); `tighten` says whether its windows are cut."""
    windows = tightened(instance) if tighten else instance
    is_real = _is_real(instance)
    offset = jnp.abs(instance.locs - instance.locs[0]).max(axis=1)
    extent = jnp.where(is_real, offset, 0.0).max()
    span, pace = _street_figures(instance, is_real, unit_of(extent))
    finite = jnp.where(jnp.isfinite(instance.deadline), instance.deadline, 0.0)
    of_nodes = is_real.sum() * (extent / instance.vehicle_speed if pace is None else pace)
    longest = jnp.minimum(instance.max_route_duration, of_nodes)
    horizon = jnp.where(finite[0] > 0, finite[0], jnp.where(finite.max() > 0, finite.max(), longest))
    return Figures(
        extent=unit_of(extent),
        horizon=unit_of(horizon),
        slack=SLACK * jnp.minimum(unit_of(horizon), all_served(instance)),
        capacity=jnp.maximum(instance.capacity.max(), 1).astype(jnp.float32),
        num_requests=jnp.maximum(jnp.sum(instance.demand > 0, dtype=jnp.float32), 1.0),
        num_vehicles=jnp.maximum(jnp.sum(instance.capacity > 0, dtype=jnp.float32), 1.0),
        way_home=_ways_home(instance),
        earliest=windows.earliest,
        deadline=windows.deadline,
        street_span=span,
        street_pace=pace,
    )


def all_served(instance: Instance) -> Any:
    """`f[]`, a clock by which a vehicle that serves all requests in any order, as early as possible, is home.

    Of NumPy or JAX arrays, without leading axes. No tour of use ends later, however late the depot closes.
    """
    is_real = _is_real(instance)
    if instance.travel_time is None:
        gap = instance.locs - instance.locs[0]
        way_out = way_home = (gap * gap).sum(axis=1) ** 0.5 / instance.vehicle_speed
    else:
        way_out, way_home = instance.travel_time[0], instance.travel_time[:, 0]
    # No way takes longer than that by way of the depot.
    longest = (way_out * is_real).max() + (way_home * is_real).max() + 0.5 * instance.round_travel_time
    opens, service = abs(instance.earliest * is_real).max(), (instance.service_time * is_real).sum()
    return opens + service + is_real.sum() * longest


def _is_real(instance: Instance) -> Any:
    """`bool[N+1]`, the depot, and nodes that are no padding; of NumPy or JAX arrays."""
    return (np.arange(instance.num_nodes + 1) == 0) | (instance.demand != 0)


def _street_figures(
    instance: Instance, is_real: jax.Array, extent: jax.Array
) -> tuple[jax.Array | None, jax.Array | None]:
    """`street_span` and `street_pace`; without places, of the mean way."""
    if instance.travel_time is None:
        return None, None
    pairs = is_real[:, None] & is_real
    lines, lengths, times = (
        jnp.sum(jnp.where(pairs, ways, 0.0))
        for ways in (distance(instance.locs[:, None], instance.locs), street_lengths(instance), instance.travel_time)
    )
    share = jnp.where(lines > 0, lines / extent, jnp.sum(pairs, dtype=jnp.float32))
    return unit_of(lengths / share), unit_of(times / share)


def _ways_home(instance: Instance) -> jax.Array:
    if instance.travel_time is None:
        return travel_time(instance, distance(instance.locs, instance.locs[0]))
    return times_to(instance, jnp.zeros((), jnp.int32))


def tightened(instance: Instance) -> Instance:
    """The instance (JAX arrays, no leading axes) with windows cut to what a plan can keep that keeps all limits.

    A node is served no sooner than a vehicle can be there, and not after the last moment to be home in time; a pickup
    at most the ride time before its drop-off's window, and in time for the direct way to it; a drop-off likewise after
    its pickup's window. These are the window reductions of Cordeau (2006), for both ends of a request. The depot and
    padding stay as they are. Where travel times are rounded, a detour can take less time than the direct way, so that
    the ride time alone is used. A window that is empty afterwards belongs to a request that cannot be served.
    """
    way_home = _ways_home(instance)
    if instance.travel_time is None:
        direct = travel_time(instance, distance(instance.locs[1::2], instance.locs[2::2]))
    else:
        direct = times_to_next(instance)[1::2]
    way_home, direct = (jnp.where(instance.round_travel_time, 0.0, way) for way in (way_home, direct))
    way_out = way_home
    if instance.travel_time is not None:
        way_out = jnp.where(instance.round_travel_time, 0.0, instance.travel_time[0])
    service = instance.service_time
    earliest = jnp.maximum(instance.earliest, instance.earliest[0] + way_out)
    deadline = jnp.minimum(instance.deadline, instance.deadline[0] - service - way_home)
    ride = service[1::2] + instance.max_ride_time
    way = service[1::2] + direct
    # The cuts of a pickup never change those of its drop-off, nor the other way round, if the direct way keeps the ride
    # time; so one pass, from the windows as they are, is enough.
    pickup_earliest = jnp.maximum(earliest[1::2], earliest[2::2] - ride)
    pickup_deadline = jnp.minimum(deadline[1::2], deadline[2::2] - way)
    drop_off_earliest = jnp.maximum(earliest[2::2], earliest[1::2] + way)
    drop_off_deadline = jnp.minimum(deadline[2::2], deadline[1::2] + ride)
    earliest = earliest.at[1::2].set(pickup_earliest).at[2::2].set(drop_off_earliest)
    deadline = deadline.at[1::2].set(pickup_deadline).at[2::2].set(drop_off_deadline)
    is_real = instance.demand != 0
    return instance.replace(
        earliest=jnp.where(is_real, earliest, instance.earliest),
        deadline=jnp.where(is_real, deadline, instance.deadline),
    )
