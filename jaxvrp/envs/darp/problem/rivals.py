"""Requests that no vehicle can serve together: what decides whether the vehicles to come can serve all that is left."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp.problem.instance import Instance, distance, travel_time

ORDERS = ((0, 1, 2, 3), (2, 3, 0, 1), (0, 2, 1, 3), (0, 2, 3, 1), (2, 0, 1, 3), (2, 0, 3, 1))
"""All orders of a pickup, its drop-off, another pickup and its drop-off; in all but two, both are on board at once."""

NUM_APART = 2
"""So many orders, the first ones, never have both on board."""

SWEEPS = 4
"""Through the bounds of a tour of two requests until none falls any more: two rides and the duration, and once more."""


def rivals(instance: Instance, slack: float) -> jax.Array:
    """Which requests of one instance no vehicle can serve both, even if it serves nobody else: `bool[N/2, N/2]`.

    A tour of two requests is tested as in `jaxvrp.envs.darp.schedule`: a delay at each stop that never falls, between
    the bounds of windows, rides and duration. These have a greatest delay each, which must not be less than the
    earliest.

    Args:
        instance: JAX arrays, no leading axes; with the windows that count.
        slack: granted on every upper bound.

    Returns:
        Symmetric; false for padding, and for a request and itself.
    """
    count = instance.demand.shape[0] // 2
    pair = _Pair(*map(_of_pair, (instance.locs, instance.earliest, instance.deadline, instance.service_time)))
    possible = [_is_tour(instance, pair, order, slack) for order in ORDERS]
    load = instance.demand[1::2]
    fits = load[:, None] + load <= instance.capacity.max()
    together = jnp.stack(possible[:NUM_APART]).any(axis=0) | (fits & jnp.stack(possible[NUM_APART:]).any(axis=0))
    is_real = load != 0
    return ~together & is_real[:, None] & is_real & ~jnp.eye(count, dtype=bool)


class _Pair(NamedTuple):
    """What the four stops of two requests have, in the order of `ORDERS`; each to broadcast to `[N/2, N/2, ...]`."""

    locs: tuple[jax.Array, ...]
    earliest: tuple[jax.Array, ...]
    deadline: tuple[jax.Array, ...]
    service: tuple[jax.Array, ...]


def _of_pair(leaf: jax.Array) -> tuple[jax.Array, ...]:
    """A field of `_Pair`."""
    pickup, drop_off = leaf[1::2], leaf[2::2]
    return pickup[:, None], drop_off[:, None], pickup[None], drop_off[None]


def _is_tour(instance: Instance, pair: _Pair, order: tuple[int, ...], slack: float) -> jax.Array:
    """Whether a vehicle can serve two requests in an order, `bool[N/2, N/2]`, apart from its capacity."""
    places = [instance.locs[0], *(pair.locs[stop] for stop in order), instance.locs[0]]
    legs = [travel_time(instance, distance(a, b)) for a, b in itertools.pairwise(places)]
    elapsed, earliest, greatest = [], [], []
    driven, clock = legs[0], instance.earliest[0] + legs[0]
    for stop, leg in zip(order, legs[1:], strict=True):
        start = jnp.maximum(clock, pair.earliest[stop])
        elapsed.append(driven)
        earliest.append(start - driven)
        greatest.append(pair.deadline[stop] + slack - driven)
        driven, clock = driven + pair.service[stop] + leg, start + pair.service[stop] + leg
    greatest[-1] = jnp.minimum(greatest[-1], instance.deadline[0] + slack - driven)
    # A vehicle leaves the depot so late that it does not wait at its first stop.
    bounds = [(0, 3, instance.max_route_duration + slack - driven)]
    for pickup in (0, 2):
        begin, end = order.index(pickup), order.index(pickup + 1)
        ride = elapsed[end] - elapsed[begin] - pair.service[pickup]
        bounds.append((begin, end, instance.max_ride_time + slack - ride))
    for _ in range(SWEEPS):
        for place in (2, 1, 0):
            greatest[place] = jnp.minimum(greatest[place], greatest[place + 1])
        for begin, end, allowance in bounds:
            greatest[end] = jnp.minimum(greatest[end], greatest[begin] + allowance)
    kept = [least <= most for least, most in zip(earliest, greatest, strict=True)]
    kept += [allowance >= 0 for *_, allowance in bounds]
    return jnp.stack(jnp.broadcast_arrays(*kept)).all(axis=0)
