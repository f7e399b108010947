"""Where entities are: distances between them, and maps that are moved, turned and mirrored.

Shapes: `R` rows of the batch (steps, environments and agents, merged), `M` entities, `K` numbers of an entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp.spaces import EntityKind

FAR = 4.0
"""Distance to the nearest of no others, in units of the coordinates: beyond any real one."""

NEAR = 1e-6
"""Below this a distance counts as none, in the same units."""

SOFTNESS = 8.0
"""Inverse temperature of the soft minimum of distances, per unit of them."""


class Sites(NamedTuple):
    """Where entities are, `f32[R, M, 2]` each: the next place to be visited, and the last."""

    next: jax.Array
    last: jax.Array


def sites(rows: jax.Array, kind: EntityKind) -> Sites:
    """Where each entity is to be visited next (the first of its places that is present, else the last) and at last.

    `rows` are `f32[R, M, K]`, of this kind, which has places.
    """
    *earlier, last = (tuple(kind.index(name) for name in place) for place in kind.places)
    last_place = pair(rows, last[1:])
    next_place = last_place
    for present, *coordinates in reversed(earlier):
        next_place = jnp.where(rows[..., present, None] > 0, pair(rows, coordinates), next_place)
    return Sites(next_place, last_place)


def pair(rows: jax.Array, columns: Sequence[int]) -> jax.Array:
    """Two columns, `f32[..., 2]`."""
    x, y = columns
    return jnp.stack([rows[..., x], rows[..., y]], axis=-1)


def distances(where: Sites, present: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Distances between entities' next places, `f32[R, M, M]`, and five features of each entity, `f32[R, M, 5]`.

    Distance from its next place to the nearest of the others, to the others by a soft minimum, from its last place to
    the nearest of the others, from its next place to the depot, and to its last place; 0 if it is not `present`,
    `bool[R, M]`.
    """
    distance = length(where.next[:, :, None] - where.next[:, None])
    is_other = present[:, None] & ~jnp.eye(present.shape[1], dtype=bool)
    nearness = nn.softmax(jnp.where(is_other, -SOFTNESS * distance, -1e9), axis=-1)
    features = [
        jnp.where(is_other, distance, FAR).min(axis=-1),
        jnp.where(is_other, nearness * distance, 0.0).sum(axis=-1),
        jnp.where(is_other, length(where.last[:, :, None] - where.next[:, None]), FAR).min(axis=-1),
        length(where.next),
        length(where.next - where.last),
    ]
    return distance, jnp.stack(features, axis=-1) * present[..., None]


class Frame(NamedTuple):
    """A map that is moved, turned and mirrored: `origin` `f32[R, 2]`; `axes` `f32[R, 2, 2]`, where x and y go."""

    origin: jax.Array
    axes: jax.Array

    def turn(self, place: jax.Array) -> jax.Array:
        """Places `f32[R, M, 2]` on this map."""
        # Written out: a product of a matrix for each row is slow on a CPU.
        offset = place - self.origin[:, None]
        return offset[..., :1] * self.axes[:, None, 0] + offset[..., 1:] * self.axes[:, None, 1]


def canonical_frame(agent: jax.Array, next_place: jax.Array, present: jax.Array) -> Frame:
    """The map in one position: turning an instance, or looking at it in a mirror, changes nothing on it.

    The agent, `f32[R, 2]`, is at the origin and the depot (0 on the old map) on the positive x-axis (at the depot: the
    centre of the entities' next places, `f32[R, M, 2]`), and most of these are on the side of positive y, the far ones
    counting more. So one instance teaches what to do on all of these.
    """
    offset = jnp.where(present[..., None], next_place - agent[:, None], 0.0)
    ahead = jnp.where(length(agent)[:, None] > NEAR, -agent, offset.sum(axis=1))
    ahead /= jnp.maximum(length(ahead)[:, None], NEAR)
    left = jnp.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    side = (offset * length(offset)[..., None]).sum(axis=1)
    left *= jnp.where((left * side).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    return Frame(agent, jnp.stack([ahead, left], axis=-1))


def turned(rows: jax.Array, kind: EntityKind, frame: Frame) -> jax.Array:
    """Rows `f32[R, M, K]` of a kind with their places on another map; those that are not present at its origin."""
    for place in kind.places:
        present, x, y = (kind.index(name) for name in place)
        moved = frame.turn(pair(rows, (x, y))) * (rows[..., present, None] > 0)
        rows = rows.at[..., x].set(moved[..., 0]).at[..., y].set(moved[..., 1])
    return rows


def length(vector: jax.Array) -> jax.Array:
    """Euclidean length of `f32[..., 2]`, `f32[...]`; written out, since sums of two numbers each are slow on a CPU."""
    return jnp.sqrt(vector[..., 0] ** 2 + vector[..., 1] ** 2)
