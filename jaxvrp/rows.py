"""Rows of a table by indices that are known at run time, in the form that suits the device."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def rows_at(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]`, `[*I, ...]` of a small table `[N, ...]`, for indices `i32[*I]` within it.

    On a TPU every row is read and all but one are dropped: what a gather by batched indices reads has a minor axis of
    few numbers, which a TPU pads to 128.
    """
    return jax.lax.platform_dependent(table, index, tpu=_selected, default=_gathered)


def _gathered(table: jax.Array, index: jax.Array) -> jax.Array:
    return table[index]


def _selected(table: jax.Array, index: jax.Array) -> jax.Array:
    axis = jnp.ndim(index)
    is_row = jnp.expand_dims(index, axis) == jnp.arange(table.shape[0], dtype=jnp.int32)
    kept = jnp.where(jnp.expand_dims(is_row, range(axis + 1, axis + table.ndim)), table, jnp.zeros((), table.dtype))
    return kept.any(axis=axis) if table.dtype == bool else kept.sum(axis=axis, dtype=table.dtype)
