"""Many arrays as one vector: what works on numbers one by one then launches few kernels, not some for every array."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


class Vector(struct.PyTreeNode):
    """A tree of arrays of one dtype as a single array, `[..., n]`: their leading axes, and all others as the last.

    `shapes` are those of the arrays without their leading axes; `structure` is that of the tree.
    """

    numbers: jax.Array
    shapes: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    structure: Any = struct.field(pytree_node=False)

    @classmethod
    def of(cls, tree: Any, leading: int = 0) -> Vector:
        """Of a tree whose arrays have so many leading axes in common."""
        leaves, structure = jax.tree.flatten(tree)
        flat = [leaf.reshape(*leaf.shape[:leading], -1) for leaf in leaves]
        return cls(jnp.concatenate(flat, axis=-1), tuple(leaf.shape[leading:] for leaf in leaves), structure)

    def tree(self) -> Any:
        """The arrays apart; axes that the vector has gained in front, those have too."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        pieces = jnp.split(self.numbers, ends.tolist(), axis=-1)
        leading = self.numbers.shape[:-1]
        leaves = [piece.reshape(*leading, *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


def apart(tree: Any) -> Any:
    """The tree with the arrays of every `Vector` in it."""
    return jax.tree.map(lambda part: part.tree() if _is_vector(part) else part, tree, is_leaf=_is_vector)


def joined_like(vectors: Any, tree: Any) -> Any:
    """The tree with a `Vector` wherever `vectors` has one, which may be of shapes; else the same."""

    def join(like: Any, part: Any) -> Any:
        return Vector.of(part, like.numbers.ndim - 1) if _is_vector(like) else part

    return jax.tree.map(join, vectors, tree, is_leaf=_is_vector)


def counts_apart(tree: Any) -> tuple[Any, Vector]:
    """The tree with None for every array of integers, and all of these, which an optimiser counts its steps by."""
    counts = [leaf for leaf in jax.tree.leaves(tree) if _is_count(leaf)]
    return jax.tree.map(lambda leaf: None if _is_count(leaf) else leaf, tree), Vector.of(counts)


def with_counts(tree: Any, counts: Vector) -> Any:
    """The tree that `counts_apart` made these of."""
    arrays = iter(counts.tree())
    return jax.tree.map(lambda leaf: next(arrays) if leaf is None else leaf, tree, is_leaf=lambda leaf: leaf is None)


def _is_count(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.integer)


def _is_vector(part: Any) -> bool:
    return isinstance(part, Vector)
