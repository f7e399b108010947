"""Ruin: which requests are taken out of a plan together, and the plan without them.

Requests are chosen in one of these manners: any; those related to one, in space and time (Shaw 1998); those next to one
in its tour; or those next to one in several tours that come near it, a string of each (Christiaens and Vanden Berghe
2020).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp.baselines.lanes import Lanes, between, least, of_nodes, pick
from jaxvrp.rows import entries_put

MOST_REMOVED = 15
"""No round removes more requests; nor more than three of five, since what is left guides those that return."""

MANNERS = (0.1, 0.4, 0.5)
"""Shares of rounds in which any requests are removed; those, or related ones; those, or neighbours in one tour."""

MOST_TOURS = 3  # from which strings are removed
FAR = 1e6  # farther than any number of stops


def most_removed(requests: int) -> int:
    """The most requests that a round takes out of a plan; both of two, since both may belong in another vehicle."""
    return max(min(requests, 2), min(MOST_REMOVED, 3 * requests // 5))


def chosen(lanes: Lanes, sequence: jax.Array, count: jax.Array, uniform: jax.Array, dice: jax.Array) -> jax.Array:
    """`bool[R, B]`: so many requests (`i32[]`) of each plan.

    `uniform` is `f32[R, B]`, `dice` `f32[3, B]`, both in [0, 1).
    """
    requests = len(uniform)
    number = (dice[0] * lanes.exists.sum(axis=0)).astype(jnp.int32)
    first = (jnp.cumsum(lanes.exists, axis=0, dtype=jnp.int32) <= number).sum(axis=0, dtype=jnp.int32)
    first = jnp.minimum(first, requests - 1)
    related = jnp.where(lanes.exists, _relatedness(lanes, first), jnp.inf)
    place, tour = _places(sequence, requests)
    apart = jnp.abs(place - pick(place, first)).astype(jnp.float32)
    strings = _from_strings(lanes, related, place, tour, 1 + (dice[2] * MOST_TOURS).astype(jnp.int32))
    scores = [uniform, related * (0.5 + uniform), apart + 2 * uniform]
    score = jnp.select([dice[1] < share for share in MANNERS], scores, strings + 2 * uniform)
    rows = jnp.arange(requests, dtype=jnp.int32)[:, None]

    def take_lowest(_: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        score, taken = carry
        minimum, row = least(score)
        here = (rows == row) & jnp.isfinite(minimum)
        return jnp.where(here, jnp.inf, score), taken | here

    start = (jnp.where(lanes.exists, score, jnp.inf), jnp.zeros(score.shape, bool))
    return jax.lax.fori_loop(0, count, take_lowest, start)[1]


def _relatedness(lanes: Lanes, request: jax.Array) -> jax.Array:
    """How far all requests are from one (`i32[B]`), `f32[R, B]`: ways between pickups and between drop-offs, and how
    far could be driven between their windows.
    """
    nodes = jnp.arange(1, len(lanes.instance.demand), dtype=jnp.int32)[:, None]
    other = 2 * request + 2 - nodes % 2
    earliest, deadline = (of_nodes(table, other) for table in (lanes.instance.earliest, lanes.instance.deadline))
    wait = jnp.maximum(jnp.maximum(lanes.instance.earliest[1:] - deadline, earliest - lanes.instance.deadline[1:]), 0.0)
    apart = between(lanes, nodes, other) + wait * lanes.instance.vehicle_speed
    return apart[0::2] + apart[1::2]


def _places(sequence: jax.Array, requests: int) -> tuple[jax.Array, jax.Array]:
    """Where in the sequence requests are picked up, and in which tour, `i32[R, B]` each; 0 and -1: nowhere."""
    positions = jnp.broadcast_to(jnp.arange(len(sequence), dtype=jnp.int32)[:, None], sequence.shape)

    def count(depots: jax.Array, node: jax.Array) -> tuple[jax.Array, jax.Array]:
        depots = depots + (node == 0)
        return depots, depots

    _, tours = jax.lax.scan(count, jnp.full_like(sequence[0], -1), sequence)
    nowhere = jnp.zeros((2 * requests + 1, sequence.shape[1]), jnp.int32)
    place, tour = (
        entries_put(table, sequence, of_stop)[1::2] for table, of_stop in ((nowhere, positions), (nowhere - 1, tours))
    )
    return place, tour


def _from_strings(lanes: Lanes, related: jax.Array, place: jax.Array, tour: jax.Array, tours: jax.Array) -> jax.Array:
    """How many stops requests are from the most related one of their tour, if that is one of so many (`i32[B]`) tours
    that come nearest; `FAR` if not.
    """
    vehicle = jnp.arange(len(lanes.instance.capacity), dtype=jnp.int32)[:, None, None]
    in_tour = jnp.where(tour == vehicle, related, jnp.inf)
    nearest = in_tour.min(axis=1)
    middle = jnp.where(in_tour == nearest[:, None], place, 0).max(axis=1)
    is_near = (nearest[:, None] > nearest).sum(axis=1) < tours
    number = jnp.maximum(tour, 0)
    apart = jnp.abs(place - of_nodes(middle, number)).astype(jnp.float32)
    return jnp.where(of_nodes(is_near, number) & (tour >= 0), apart, FAR)


def without(sequence: jax.Array, removed: jax.Array) -> jax.Array:
    """The sequences without the nodes of some requests, `bool[R, B]`."""
    stops, batch = sequence.shape
    of_node = jnp.concatenate([jnp.zeros((1, batch), bool), jnp.repeat(removed, 2, axis=0)])
    kept = ~of_nodes(of_node, sequence)

    def count(before: jax.Array, kept: jax.Array) -> tuple[jax.Array, jax.Array]:
        return before + kept, before

    _, target = jax.lax.scan(count, jnp.zeros(batch, jnp.int32), kept)
    target = jnp.where(kept, target, stops)
    return entries_put(jnp.zeros_like(sequence), target, sequence)
