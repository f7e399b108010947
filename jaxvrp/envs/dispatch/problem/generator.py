"""What random days are drawn from: when requests come, where passengers go, and how long legs take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.dispatch.problem.instance import Instance
from jaxvrp.geography.streets import drawn_detours
from jaxvrp.io.limits import LARGEST_WHOLE
from jaxvrp.rows import rows_at

CENTRES = ((0.5, 0.5), (0.2, 0.75), (0.8, 0.8), (0.25, 0.2), (0.75, 0.3))
"""Where demand is dense, as shares of the side of the square: the middle of the city, then where people live."""

PICKUP_WEIGHTS = (0.1, 0.3, 0.2, 0.25, 0.15)
DROPOFF_WEIGHTS = (0.6, 0.05, 0.1, 0.1, 0.15)
"""The share of each centre in pickups and in drop-offs: in the morning most people go to the middle."""

SPREAD = 0.08
"""Standard deviation of places around their centre, as a share of the side."""

SCATTERED = 0.2
"""Share of places that are anywhere in the square."""

PEAK = (0.4, 0.15)
"""When most requests come, and the standard deviation of the peak, as shares of the horizon."""

REACH = 3.0
"""How many standard deviations the area around a depot extends from it, each way."""


def travel_seed(key: jax.Array, travel_noise: float) -> jax.Array | None:
    """Of days with noise; their requests are those of the day without."""
    if travel_noise == 0:
        return None
    return jax.random.randint(jax.random.fold_in(key, 1), (), 0, LARGEST_WHOLE, jnp.int32)


def day_of(arrival: jax.Array, preparation: float = 0.0, **arrays: Any) -> Instance:
    """A day of loads of 1; what arrives at inf is void, and its numbers are finite.

    With a time of `preparation`, static, pickups are no earlier than that after the arrival.
    """
    exists = jnp.isfinite(arrival)
    numbers = {name: arrays.pop(name) for name in ("value", "pickup", "dropoff", "pickup_deadline", "dropoff_deadline")}
    shaped = {name: jnp.where(exists.reshape(-1, *[1] * (a.ndim - 1)), a, 0.0) for name, a in numbers.items()}
    return Instance(
        arrival=arrival,
        load=exists.astype(jnp.int32),
        pickup_earliest=jnp.where(exists, arrival + preparation, 0.0) if preparation else jnp.zeros_like(arrival),
        dropoff_earliest=jnp.zeros_like(arrival),
        **shaped,
        **arrays,
    )


def streets(
    key: jax.Array, places: Sequence[jax.Array], pace: float | jax.Array, detour: float | jax.Array
) -> jax.Array:
    """`f32[L, L]`, minutes along random streets between places (`f32[L, 2]` in all), drawn beside the rest of a day.

    Each way, in each direction by itself, is up to `2 * detour - 1` straight ways long, uniform, if no other way is
    shorter; `pace` is in minutes for a kilometre.
    """
    points = jnp.concatenate(places)
    gap = points[:, None] - points
    straight = jnp.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)
    return pace * (straight + drawn_detours(jax.random.fold_in(key, 2), points, 2.0 * (detour - 1.0)))


def each(number: float | jax.Array, count: int) -> jax.Array:
    """`f32[count]`, the same number for each."""
    return jnp.broadcast_to(jnp.asarray(number, jnp.float32), (count,))


def arrivals(key: jax.Array, count: int, expected: float, until: float, peak: float) -> jax.Array:
    """`f32[count]`, ascending: a Poisson process from 0 to `until`, inf from where it ends.

    Its rate is that of an even process and, around `PEAK`, up to `1 + peak` times that; `expected` in all.
    """
    share = jnp.linspace(0.0, 1.0, 129, dtype=jnp.float32)
    rate = 1.0 + peak * jnp.exp(-0.5 * ((share - PEAK[0]) / PEAK[1]) ** 2)
    passed = jnp.concatenate([jnp.zeros(1, jnp.float32), jnp.cumsum(0.5 * (rate[1:] + rate[:-1]))])
    passed = passed / passed[-1]
    # In the time that makes the process an even one of rate 1 (Çinlar 1975).
    events = jnp.cumsum(jax.random.exponential(key, (count,), jnp.float32)) / expected
    return jnp.where(events < 1.0, until * jnp.interp(events, passed, share), jnp.inf)


def places(key: jax.Array, count: int, weights: tuple[float, ...]) -> jax.Array:
    """`f32[count, 2]` in the unit square: around a centre, or anywhere."""
    draw_key, near_key, far_key = jax.random.split(key, 3)
    drawn = jax.random.uniform(draw_key, (count, 2), jnp.float32)
    centre = jnp.sum(drawn[:, :1] >= np.cumsum(weights)[:-1].astype(np.float32), axis=1)
    middle = rows_at(jnp.asarray(CENTRES, jnp.float32), centre)
    near = middle + SPREAD * jax.random.normal(near_key, (count, 2), jnp.float32)
    far = jax.random.uniform(far_key, (count, 2), jnp.float32)
    return jnp.clip(jnp.where(drawn[:, 1:] < SCATTERED, far, near), 0.0, 1.0)
