"""A row of a table by an index that is known at run time, in the form that suits the device."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def row_at(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]`, `[...]` of `[N, ...]`; the index, `i32[]`, lies within it, and N is small.

    On a TPU every row is read and all but one are dropped: what a gather by batched indices reads has a minor axis of
    few numbers, which a TPU pads to 128.
    """
    return jax.lax.platform_dependent(table, index, tpu=_selected, default=_gathered)


def _gathered(table: jax.Array, index: jax.Array) -> jax.Array:
    return table[index]


def _selected(table: jax.Array, index: jax.Array) -> jax.Array:
    rows = jnp.arange(table.shape[0], dtype=jnp.int32).reshape(-1, *[1] * (table.ndim - 1))
    kept = jnp.where(rows == index, table, jnp.zeros((), table.dtype))
    return kept.any(axis=0) if table.dtype == bool else kept.sum(axis=0, dtype=table.dtype)
