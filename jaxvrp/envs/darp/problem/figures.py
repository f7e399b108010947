"""What follows from an instance and is needed at every step: computed once, before it is played."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.darp.problem.instance import Instance, distance, travel_time
from jaxvrp.envs.darp.problem.windows import tightened

SLACK = 1e-3
"""On every comparison of times: float32 resolves 1.2e-4 at a clock of 1440, and published routes are tight."""

SMALLEST = 1e-6
"""Least extent and horizon."""


class Figures(struct.PyTreeNode):
    """What follows from one instance.

    Attributes:
        extent: `f32[]`, the largest |x - x0| or |y - y0| of a node that is no padding, from the depot.
        horizon: `f32[]`, the depot's deadline; the largest finite one if it has none; 1 if there is none.
        capacity: `f32[]`, of the largest vehicle.
        num_requests, num_vehicles: `f32[]`, without padding; at least 1.
        way_home: `f32[N+1]`, time to drive from each node to the depot.
        earliest, deadline: `f32[N+1]`, the windows that count: the instance's, or as `tightened` leaves them.
    """

    extent: jax.Array
    horizon: jax.Array
    capacity: jax.Array
    num_requests: jax.Array
    num_vehicles: jax.Array
    way_home: jax.Array
    earliest: jax.Array
    deadline: jax.Array

    def bound(self, instance: Instance) -> Instance:
        """The instance that these are the figures of, with the windows that count."""
        return instance.replace(earliest=self.earliest, deadline=self.deadline)


def figures_of(instance: Instance, *, tighten: bool = False) -> Figures:
    """The figures of an instance (JAX arrays, no leading axes).

    Args:
        instance: what is to be played.
        tighten: whether its windows are cut.
    """
    windows = tightened(instance) if tighten else instance
    is_real = (jnp.arange(instance.num_nodes + 1) == 0) | (instance.demand != 0)
    offset = jnp.abs(instance.locs - instance.locs[0]).max(axis=1)
    extent = jnp.where(is_real, offset, 0.0).max()
    finite = jnp.where(jnp.isfinite(instance.deadline), instance.deadline, 0.0)
    horizon = jnp.where(finite[0] > 0, finite[0], jnp.where(finite.max() > 0, finite.max(), 1.0))
    return Figures(
        extent=jnp.maximum(extent, SMALLEST),
        horizon=jnp.maximum(horizon, SMALLEST),
        capacity=jnp.maximum(instance.capacity.max(), 1).astype(jnp.float32),
        num_requests=jnp.maximum(jnp.sum(instance.demand > 0, dtype=jnp.float32), 1.0),
        num_vehicles=jnp.maximum(jnp.sum(instance.capacity > 0, dtype=jnp.float32), 1.0),
        way_home=travel_time(instance, distance(instance.locs, instance.locs[0])),
        earliest=windows.earliest,
        deadline=windows.deadline,
    )
