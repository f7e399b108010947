"""Time windows without the moments that no feasible plan uses."""

from __future__ import annotations

import jax.numpy as jnp

from jaxvrp.envs.darp.problem.instance import Instance, distance, travel_time


def tightened(instance: Instance) -> Instance:
    """The instance (JAX arrays, no leading axes) with windows cut to what a plan can keep that keeps all limits.

    A node is served no sooner than a vehicle can be there, and not after the last moment to be home in time; a pickup
    at most the ride time before its drop-off's window, and in time for the direct way to it; a drop-off likewise after
    its pickup's window. These are the window reductions of Cordeau (2006), for both ends of a request. The depot and
    padding stay as they are. Where travel times are rounded, a detour can take less time than the direct way, so that
    the ride time alone is used. A window that is empty afterwards belongs to a request that cannot be served.
    """
    way_home = travel_time(instance, distance(instance.locs, instance.locs[0]))
    direct = travel_time(instance, distance(instance.locs[1::2], instance.locs[2::2]))
    way_home, direct = (jnp.where(instance.round_travel_time, 0.0, way) for way in (way_home, direct))
    service = instance.service_time
    earliest = jnp.maximum(instance.earliest, instance.earliest[0] + way_home)
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
