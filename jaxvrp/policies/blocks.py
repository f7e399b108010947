"""Rows of a batch in blocks, so that those in which there is nothing to compute can be left out."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Blocks(NamedTuple):
    """Rows in blocks, those that are needed first.

    Attributes:
        row: `i32[N, S]`, the row of each place in the blocks; the last row again where none is left.
        place: `i32[rows]`, likewise the place of each row, counted over all blocks.
    """

    row: jax.Array
    place: jax.Array

    @classmethod
    def of(cls, needed: jax.Array, most: int) -> Blocks:
        """Of rows `bool[rows]`, at most so many in a block."""
        rows = needed.size
        count = -(-rows // most)
        size = -(-rows // count)
        # Not `argsort`: a sort is the slowest thing that an accelerator can be asked for.
        before = jnp.cumsum(needed, dtype=jnp.int32)
        number = jnp.arange(rows, dtype=jnp.int32)
        place = jnp.where(needed, before - 1, before[-1] + number - before)
        order = jnp.zeros(rows, jnp.int32).at[place].set(number, unique_indices=True)
        return cls(jnp.pad(order, (0, count * size - rows), mode="edge").reshape(count, size), place)

    @property
    def size(self) -> int:
        """Rows of a block."""
        return self.row.shape[1]

    @property
    def is_again(self) -> jax.Array:
        """`bool[N, S]`, which places repeat the last row."""
        return jnp.arange(self.row.size).reshape(self.row.shape) >= len(self.place)

    def cut(self, leaf: jax.Array) -> jax.Array:
        """Rows `[rows, ...]` in blocks, `[N, S, ...]`."""
        return leaf[self.row]
