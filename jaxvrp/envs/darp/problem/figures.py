"""What follows from an instance and is needed at every step: computed once, when the instance is drawn or read."""

from __future__ import annotations

import jax.numpy as jnp

from jaxvrp.envs.darp.problem.instance import Figures, Instance, distance, travel_time

SMALLEST = 1e-6
"""Least extent and horizon."""


def with_figures(instance: Instance) -> Instance:
    """The instance (JAX arrays, no leading axes) with its `Figures`; as it is, if it has them."""
    if instance.figures is not None:
        return instance
    is_real = (jnp.arange(instance.num_nodes + 1) == 0) | (instance.demand != 0)
    offset = jnp.abs(instance.locs - instance.locs[0]).max(axis=1)
    extent = jnp.where(is_real, offset, 0.0).max()
    finite = jnp.where(jnp.isfinite(instance.deadline), instance.deadline, 0.0)
    horizon = jnp.where(finite[0] > 0, finite[0], jnp.where(finite.max() > 0, finite.max(), 1.0))
    figures = Figures(
        extent=jnp.maximum(extent, SMALLEST),
        horizon=jnp.maximum(horizon, SMALLEST),
        capacity=jnp.maximum(instance.capacity.max(), 1).astype(jnp.float32),
        num_requests=jnp.maximum(jnp.sum(instance.demand > 0, dtype=jnp.float32), 1.0),
        num_vehicles=jnp.maximum(jnp.sum(instance.capacity > 0, dtype=jnp.float32), 1.0),
        way_home=travel_time(instance, distance(instance.locs, instance.locs[0])),
    )
    return instance.replace(figures=figures)
