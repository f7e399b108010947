"""What networks read: vectors, or, for those that read entities, a context and planes."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.spaces import ByKind, EntityKind

Tree = TypeVar("Tree")


class EntityInput(struct.PyTreeNode):
    """What agents alone see, `f32[L, B, A, C]`, and what all of them see, planes `{kind: f32[L, B, features, count]}`.

    `encoded` is what an encoder that the roles share made of these, `f32[L, B, M, H]`; None without one.
    """

    context: jax.Array
    static: ByKind
    entities: ByKind
    encoded: jax.Array | None = None


Inputs = jax.Array | EntityInput
"""Observations `f32[L, B, A, F]`, or these."""


def joined(context: jax.Array, static: ByKind, entities: ByKind, encoded: jax.Array | None = None) -> Inputs:
    """The input of a network: `context` alone, `f32[L, B, A, C]`, if no entities are seen."""
    return EntityInput(context, static, entities, encoded) if entities else context


def rows_of(table: Tree, row: jax.Array) -> Tree:
    """Arrays `[*shape, ...]` at rows `i32[*shape]` of a table of arrays `[rows, ...]`."""
    return jax.tree.map(lambda leaf: leaf[row], table)


def blank(context_size: int, agents: int, kinds: tuple[EntityKind, ...], encoded: jax.Array | None = None) -> Inputs:
    """Zeros, of one step of one environment: what parameters are initialised with; `encoded` is as in `EntityInput`."""

    def planes(count: int, features: int) -> jax.Array:
        return jnp.zeros((1, 1, features, count), jnp.float32)

    static = {kind.name: planes(kind.count, len(kind.static)) for kind in kinds}
    entities = {kind.name: planes(kind.count, len(kind.dynamic)) for kind in kinds}
    return joined(jnp.zeros((1, 1, agents, context_size), jnp.float32), static, entities, encoded)
