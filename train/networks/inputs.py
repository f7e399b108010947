"""What networks read: vectors, or, for those that read entities, a context and planes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.spaces import ByKind, EntityKind


class EntityInput(struct.PyTreeNode):
    """What agents alone see, and what all of them see.

    Attributes:
        context: `f32[L, B, A, C]`.
        static, dynamic: planes, `{kind: f32[L, B, features, count]}`.
    """

    context: jax.Array
    static: ByKind
    dynamic: ByKind


Inputs = jax.Array | EntityInput
"""Observations `f32[L, B, A, F]`, or these."""


def joined(context: jax.Array, static: ByKind, dynamic: ByKind) -> Inputs:
    """The input of a network: `context` alone, `f32[L, B, A, C]`, if no entities are seen."""
    return EntityInput(context, static, dynamic) if dynamic else context


def rows_of(table: ByKind, row: jax.Array) -> ByKind:
    """Planes `{kind: f32[*shape, features, count]}` at rows `i32[*shape]` of a table `{kind: f32[rows, ...]}`."""
    return jax.tree.map(lambda planes: planes[row], table)


def blank(context_size: int, agents: int, kinds: tuple[EntityKind, ...]) -> Inputs:
    """Zeros, of one step of one environment: what parameters are initialised with."""

    def planes(count: int, features: int) -> jax.Array:
        return jnp.zeros((1, 1, features, count), jnp.float32)

    static = {kind.name: planes(kind.count, len(kind.static)) for kind in kinds}
    dynamic = {kind.name: planes(kind.count, len(kind.dynamic)) for kind in kinds}
    return joined(jnp.zeros((1, 1, agents, context_size), jnp.float32), static, dynamic)
