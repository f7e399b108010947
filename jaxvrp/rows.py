"""Rows of a table by indices that are known at run time, in the form that suits the device."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp

FEW = 128
"""Numbers of a table that a GPU reads whole, for each row that is asked for."""

READ = 512
"""Most numbers that it reads so for all rows; a gather takes it a second kernel, but reads no more than it needs."""

LONG = 1024
"""Numbers of a row that a GPU writes by itself."""

traced_once = functools.partial(jax.jit, inline=True)
"""Lookups, asked for many times in a program, are traced once for each shape; the program is the same without this."""


@traced_once
def rows_at(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]`, `[*I, ...]` of a small table `[N, ...]`, for indices `i32[*I]` within it.

    On a TPU every row is read and all but one are dropped: what a gather by batched indices reads has a minor axis of
    few numbers, which a TPU pads to 128. A GPU does so with few numbers, to start fewer kernels.
    """
    numbers = math.prod(jnp.shape(table))
    is_little = numbers <= FEW and numbers * jnp.size(index) <= READ
    on_gpu = functools.partial(_selected, axis=0) if is_little else _gathered
    on_tpu = functools.partial(_selected, axis=jnp.ndim(index))
    return jax.lax.platform_dependent(table, index, cpu=_gathered, tpu=on_tpu, default=on_gpu)


def _gathered(table: jax.Array, index: jax.Array) -> jax.Array:
    return table[index]


def _selected(table: jax.Array, index: jax.Array, axis: int) -> jax.Array:
    """By comparing with the number of every row, on this axis among those of the index."""
    behind = jnp.ndim(index) - axis
    is_row = jnp.expand_dims(index, axis) == jnp.arange(table.shape[0], dtype=jnp.int32).reshape(-1, *(1,) * behind)
    rows = jnp.expand_dims(table, range(1, 1 + behind))
    return _sum_of(rows, jnp.expand_dims(is_row, range(is_row.ndim, rows.ndim + axis)), axis)


def entry_at(table: jax.Array, *index: jax.Array) -> jax.Array:
    """`table[index]`, `[*I]` of a small table, by an index `i32[*I]` within it for each of its axes, as `rows_at`."""
    flat = index[0]
    for size, along in zip(table.shape[1:], index[1:], strict=True):
        flat = flat * size + along
    return rows_at(table.ravel(), flat)


@traced_once
def entries_at(values: jax.Array, index: jax.Array) -> jax.Array:
    """`[*I, K]`, of each row of `values` (`[*I, N]`) the entries at `i32[*I, K]` within it, as `rows_at`.

    Leading axes of `index` may be 1. On a GPU, too, all entries are read: batched indices take it a kernel of their
    own, beside that of the gather.
    """
    return jax.lax.platform_dependent(values, index, cpu=_gathered_entries, default=_selected_entries)


@traced_once
def entries_within(values: jax.Array, index: jax.Array) -> jax.Array:
    """The same for any indices from 0 on: 0 beyond the end of a row."""
    return jax.lax.platform_dependent(values, index, cpu=_gathered_within, default=_selected_entries)


@traced_once
def columns_at(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[..., index]`, `[*R, *I]` from `[*R, N]` and indices `i32[*I]` within it, as `entries_at`."""
    return jax.lax.platform_dependent(values, index, cpu=_gathered_columns, default=_selected_columns)


def _gathered_entries(values: jax.Array, index: jax.Array) -> jax.Array:
    return jnp.take_along_axis(values, index, axis=-1, mode="clip")


def _gathered_within(values: jax.Array, index: jax.Array) -> jax.Array:
    return jnp.where(index < values.shape[-1], _gathered_entries(values, index), jnp.zeros((), values.dtype))


def _selected_entries(values: jax.Array, index: jax.Array) -> jax.Array:
    is_entry = index[..., None, :] == jnp.arange(values.shape[-1], dtype=jnp.int32)[:, None]
    return _sum_of(values[..., None], is_entry, axis=-2)


def _gathered_columns(values: jax.Array, index: jax.Array) -> jax.Array:
    return values[..., index]


def _selected_columns(values: jax.Array, index: jax.Array) -> jax.Array:
    number = jnp.arange(values.shape[-1], dtype=jnp.int32)
    columns, number = (numbers.reshape(*numbers.shape, *(1,) * jnp.ndim(index)) for numbers in (values, number))
    return _sum_of(columns, number == index, axis=values.ndim - 1)


def _sum_of(values: jax.Array, is_chosen: jax.Array, axis: int) -> jax.Array:
    """The sum of those chosen along an axis, the last one only where none is behind it.

    A GPU sums along a last axis of a few numbers, a power of two, by a warp for each sum.
    """
    kept = jnp.where(is_chosen, values, jnp.zeros((), values.dtype))
    return kept.any(axis=axis) if values.dtype == bool else kept.sum(axis=axis, dtype=values.dtype)


@traced_once
def count_until(ascending: jax.Array, bound: jax.Array) -> jax.Array:
    """`i32[]`, how many of `ascending` (`f32[N]`) are no greater than `bound` (`f32[]`).

    A CPU halves the interval; an accelerator reads all, since it gathers as many times as the interval is halved.
    """
    return jax.lax.platform_dependent(ascending, bound, cpu=_counted_by_halves, default=_counted)


def _counted_by_halves(ascending: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.searchsorted(ascending, bound, side="right", method="scan_unrolled").astype(jnp.int32)


def _counted(ascending: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.sum(ascending <= bound, dtype=jnp.int32)


def rows_replaced(rows: jax.Array, new: jax.Array, is_new: jax.Array) -> jax.Array:
    """`where(is_new, new, rows)` of rows, `[N, ...]` each, by `bool[N]`.

    A GPU writes the new ones among long rows in their place: it neither reads nor writes the others.
    """
    if math.prod(rows.shape[1:]) < LONG:
        return _chosen(rows, new, is_new)
    return jax.lax.platform_dependent(rows, new, is_new, cpu=_chosen, tpu=_chosen, default=_overwritten)


def entries_put(table: jax.Array, index: jax.Array, values: jax.Array) -> jax.Array:
    """`table` (`[N, B]`) with `values` (`[T, B]`) in their columns, in rows `i32[T, B]`, from 0 on; from N on nowhere.

    Of several values for one place any. On a CPU number by number: XLA makes no kernel of a loop that scatters.
    """
    return jax.lax.platform_dependent(table, index, values, cpu=_put_in_turn, default=_scattered)


def _put_in_turn(table: jax.Array, index: jax.Array, values: jax.Array) -> jax.Array:
    rows, columns = table.shape
    place = (jnp.minimum(index, rows) * columns + jnp.arange(columns, dtype=jnp.int32)).ravel()
    numbers = values.ravel()

    def put(turn: jax.Array, table: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_index_in_dim(table, numbers[turn], place[turn], 0)

    with_nowhere = jnp.concatenate([table.ravel(), jnp.zeros(columns, table.dtype)])
    return jax.lax.fori_loop(0, numbers.size, put, with_nowhere)[: table.size].reshape(table.shape)


def _scattered(table: jax.Array, index: jax.Array, values: jax.Array) -> jax.Array:
    return table.at[index, jnp.arange(table.shape[1], dtype=jnp.int32)].set(values, mode="drop")


def where_leading(condition: jax.Array, on_true: jax.Array, on_false: jax.Array) -> jax.Array:
    """`where` with a condition on the leading axes."""
    behind = (1,) * (jnp.ndim(on_true) - condition.ndim)
    return jnp.where(condition.reshape(condition.shape + behind), on_true, on_false)


def _chosen(rows: jax.Array, new: jax.Array, is_new: jax.Array) -> jax.Array:
    return where_leading(is_new, new, rows)


def _overwritten(rows: jax.Array, new: jax.Array, is_new: jax.Array) -> jax.Array:
    number = jnp.arange(len(rows), dtype=jnp.int32)
    beyond_the_end = len(rows) + number
    return rows.at[jnp.where(is_new, number, beyond_the_end)].set(new, mode="drop", unique_indices=True)
