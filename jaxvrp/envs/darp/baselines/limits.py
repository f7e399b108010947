"""Whether tours keep ride times and durations, if departure and service may be late: exact, many tours side by side.

With `elapsed`, what a vehicle has driven and served before a stop, and `delay`, the start of service there minus
`elapsed`, a schedule is a sequence of delays that never falls, each within its window's bounds, and with
`delay[j] <= delay[i] + allowance` for a drop-off j and its pickup i, and for the return and the departure
(see `jaxvrp.envs.darp.schedule`). Delays that meet all upper bounds have a greatest among them. It is found by going
through the bounds until none falls any more, and there is a schedule if and only if it is nowhere less than the delay
of a vehicle that serves as early as possible.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp.baselines.lanes import Lanes, between, of_nodes, time_between
from jaxvrp.rows import entries_put

SHORT = 62  # nodes of a tour that fit into the smaller of two programs, which tests nearly all tours of large instances


def keep_limits(lanes: Lanes, sequence: jax.Array, stop: jax.Array) -> jax.Array:
    """`bool[B]`, whether the tour that a stop (`i32[B]`) of a sequence (`i32[T, B]`) lies in, or begins, keeps limits.

    Where travel times are rounded, the duration's test is stricter if the way home from halfway is longer.
    """
    position = jnp.arange(len(sequence), dtype=jnp.int32)[:, None]
    is_depot = sequence == 0
    begin = jnp.max(jnp.where(is_depot & (position <= stop), position, 0), axis=0)
    end = jnp.min(jnp.where(is_depot & (position > begin), position, len(sequence) - 1), axis=0)
    nodes = len(lanes.instance.demand) - 1
    if nodes <= SHORT:
        return _keep(lanes, sequence, begin, end, nodes)
    short, whole = (functools.partial(_keep, lanes, sequence, begin, end, size) for size in (SHORT, nodes))
    return jax.lax.cond((end - begin).max() - 1 <= SHORT, short, whole)


def _keep(lanes: Lanes, sequence: jax.Array, begin: jax.Array, end: jax.Array, size: int) -> jax.Array:
    """The test of tours from a depot (`i32[B]`) to the next, with at most `size` nodes between them."""
    count = end - begin
    stop = jnp.arange(size + 2, dtype=jnp.int32)[:, None]
    nodes = of_nodes(sequence, jnp.minimum(begin + stop, len(sequence) - 1))
    nodes = jnp.where(stop < count, nodes, 0)
    service = jnp.where(nodes == 0, 0.0, of_nodes(lanes.instance.service_time, nodes))
    ahead = jnp.roll(nodes, -1, axis=0)
    gap = service + time_between(lanes, nodes, ahead, between(lanes, nodes, ahead))

    def drive(clock: tuple[jax.Array, jax.Array], stop: tuple[jax.Array, jax.Array]) -> Any:
        elapsed, arrival = clock
        earliest, gap = stop
        start = jnp.maximum(arrival, earliest)
        return (elapsed + gap, start + gap), (elapsed, start - elapsed)

    depart = (jnp.zeros_like(lanes.penalty), jnp.full_like(lanes.penalty, -jnp.inf))
    _, (elapsed, earliest) = jax.lax.scan(drive, depart, (of_nodes(lanes.instance.earliest, nodes), gap))
    partner, allowance = _allowances(lanes, nodes, count, elapsed, service)
    bound = jnp.where(stop <= count, of_nodes(lanes.instance.deadline, nodes) - elapsed, jnp.inf)

    def fall(loop: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        greatest, _, _ = loop
        fallen = _least_from_here(jnp.minimum(bound, of_nodes(greatest, partner) + allowance))
        kept = (earliest <= fallen).all(axis=0) & is_possible
        return fallen, kept, kept & (fallen < greatest).any(axis=0)

    is_possible = (allowance >= 0).all(axis=0)
    start = (_least_from_here(bound), is_possible, is_possible)
    return jax.lax.while_loop(lambda loop: loop[2].any(), fall, start)[1]


def _allowances(
    lanes: Lanes, nodes: jax.Array, count: jax.Array, elapsed: jax.Array, service: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """By which stop a stop's delay is bounded (`i32[S, B]`), and by how much it may exceed that (`f32[S, B]`)."""
    stop = jnp.arange(len(nodes), dtype=jnp.int32)[:, None]
    nowhere = jnp.zeros((len(lanes.instance.demand), nodes.shape[1]), jnp.int32)
    stop_of = entries_put(nowhere, nodes, jnp.broadcast_to(stop, nodes.shape))
    is_drop_off = (nodes > 0) & (nodes % 2 == 0)
    pickup = of_nodes(stop_of, jnp.maximum(nodes - 1, 0))
    left = lanes.instance.max_ride_time - (elapsed - of_nodes(elapsed + service, pickup))
    # Rounded, the way home from halfway may be longer than the rest of the tour; the environment measures that too.
    depot = jnp.zeros_like(nodes)
    way_home = time_between(lanes, nodes, depot, between(lanes, nodes, depot))
    home = jnp.where(lanes.instance.round_travel_time & (stop < count), elapsed + service + way_home, 0.0)
    longest = jnp.maximum(elapsed, home.max(axis=0))
    is_return = stop == count
    partner = jnp.where(is_drop_off, pickup, jnp.where(is_return, 0, stop))
    return partner, jnp.where(
        is_drop_off, left, jnp.where(is_return, lanes.instance.max_route_duration - longest, jnp.inf)
    )


def _least_from_here(array: jax.Array) -> jax.Array:
    """The least of a row and all behind it, `[S, B]`."""

    def step(least: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        least = jnp.minimum(least, row)
        return least, least

    return jax.lax.scan(step, jnp.full_like(array[0], jnp.inf), array, reverse=True)[1]
