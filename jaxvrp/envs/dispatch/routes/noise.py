"""Noise of travel times. A leg is the way to a stop, or the way home.

The time of each leg is drawn, and becomes known when the leg ends. Until then plans count with a quantile of it
(`reserve`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.dispatch.problem.instance import Instance

LEGS_OF_REQUEST = 2
"""The most that a request adds: to its pickup and to its drop-off, or to the customer and home."""


class Factors(struct.PyTreeNode):
    """How long legs take."""

    planned: jax.Array  # `f32[]`, the planned time of a leg, in mean times
    actual: jax.Array  # `f32[V, L]`, the time of the n-th leg of each vehicle, in planned times

    @property
    def of_mean(self) -> jax.Array:
        """`f32[V, L]`, the time of the n-th leg of each vehicle, in mean times."""
        return self.actual * self.planned[..., None, None]


class UnderWay(struct.PyTreeNode):
    """What each of V vehicles has begun last and not ended: a leg and its stop, or with a depot a trip of U stops."""

    stops: jax.Array  # `f32[7, V, U]`, planes as in `Plans`
    count: jax.Array  # `i32[V]`, how many; 0 if all is ended
    origin: jax.Array  # `f32[2, V]`, where its first leg began; along streets with rows of the matrix, `f32[3, V]`
    left: jax.Array  # `f32[V]`, when; with a depot, when it began to load
    leg: jax.Array  # `i32[V]`, the number of that leg; if all is ended, of the next one


class Lateness(struct.PyTreeNode):
    """What came late."""

    minutes: jax.Array  # `f32[]`, of lateness in all
    latest: jax.Array  # `f32[]`, of lateness in the last step
    requests: jax.Array  # `bool[R]`, those that were picked up or dropped off late
    trips: jax.Array  # `f32[]`, trips that were too long, or ended after the horizon


def factors(instance: Instance, travel_noise: float, reserve: float | jax.Array) -> Factors:
    """Lognormal factors of mean 1; the logarithm's standard deviation is `travel_noise`.

    Each follows from the day's `travel_seed`, the number of the vehicle and that of its leg alone.
    """
    seed = jnp.zeros((), jnp.int32) if instance.travel_seed is None else instance.travel_seed
    key = jax.random.key(seed, impl="threefry2x32")
    vehicles, legs = jnp.arange(instance.num_vehicles), jnp.arange(LEGS_OF_REQUEST * instance.max_requests)
    of_vehicles = jax.vmap(jax.random.fold_in, (None, 0))(key, vehicles)
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(of_vehicles, legs)
    normal = jax.vmap(jax.vmap(lambda key: jax.random.normal(key, (), jnp.float32)))(keys)
    quantile = jax.scipy.special.ndtri(jnp.asarray(reserve, jnp.float32))
    return Factors(
        planned=jnp.exp(travel_noise * quantile - 0.5 * travel_noise**2),
        actual=jnp.exp(travel_noise * (normal - quantile)),
    )
