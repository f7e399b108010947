"""Rows by their indices are the same rows in each form, and a TPU gathers nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import rows

SELECTED = (
    lambda table, index: rows._selected(table, index, axis=0),
    lambda table, index: rows._selected(table, index, axis=np.ndim(index)),
)
"""As on a GPU, and as on a TPU."""

TABLES = {
    "times without end": np.array([0.0, np.inf, -3.5, 1e12], np.float32),
    "places": np.array([[1, -2], [np.pi, 0], [-np.inf, 5e-12]], np.float32),
    "counts": np.array([2**31 - 1, -(2**31), 0], np.int32),
    "flags": np.array([True, False, True]),
}


@pytest.mark.parametrize("name", TABLES)
def test_both_forms_give_the_row_to_the_last_bit(name):
    table = jnp.asarray(TABLES[name])
    for index, expected in enumerate(TABLES[name]):
        for form in (rows.rows_at, *SELECTED, rows._gathered):
            found = form(table, jnp.int32(index))
            assert found.dtype == table.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", TABLES)
def test_both_forms_give_rows_in_the_shape_of_the_indices(name):
    table, index = TABLES[name], np.array([[0], [2]], np.int32)
    for form in (rows.rows_at, *SELECTED, rows._gathered):
        np.testing.assert_array_equal(form(jnp.asarray(table), jnp.asarray(index)), table[index])


@pytest.mark.parametrize(
    ("num_rows", "num_indices", "gathering"),
    [(3, 1, {"cpu"}), (rows.FEW, 1, {"cpu", "cuda"}), (3, 1 + rows.READ // 6, {"cpu", "cuda"})],
)
def test_a_tpu_gathers_nothing_and_a_gpu_where_much_would_be_read(num_rows, num_indices, gathering):
    shapes = ((8, num_rows, 2), jnp.float32), ((8, num_indices), jnp.int32)
    batch = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    program = jax.jit(jax.vmap(rows.rows_at)).trace(*batch)
    text = {name: program.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda", "tpu")}
    assert {name for name in text if "stablehlo.gather" in text[name]} == gathering


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_entries_and_columns_are_those_of_numpy(platform):
    values, shared = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[3, 0], [1, 1]], np.int32)
    each = np.array([[[2, 0], [3, 3], [1, 2]]], np.int32)
    entries, columns = {
        "cpu": (rows._gathered_entries, rows._gathered_columns),
        "cuda": (rows._selected_entries, rows._selected_columns),
    }[platform]
    found = entries(jnp.asarray(values), jnp.asarray(each))
    np.testing.assert_array_equal(found, np.take_along_axis(values, np.broadcast_to(each, (2, 3, 2)), axis=-1))
    np.testing.assert_array_equal(columns(jnp.asarray(values), jnp.asarray(shared)), values[..., shared])
    np.testing.assert_array_equal(columns(jnp.asarray(values), jnp.int32(2)), values[..., 2])


def test_an_entry_has_an_index_for_each_axis():
    table = np.array([[[0.5, np.inf], [-1, 2]], [[3, 4], [5, -np.inf]], [[6, 7], [8, 9]]], np.float32)
    index = tuple(map(np.int32, ([[2], [0]], [1, 0], 1)))
    np.testing.assert_array_equal(rows.entry_at(jnp.asarray(table), *map(jnp.asarray, index)), table[index])


@pytest.mark.parametrize("form", [rows._gathered_within, rows._selected_entries])
def test_entries_beyond_the_end_are_0(form):
    values, index = np.array([[1.5, np.inf, 3.0]], np.float32), np.array([[0, 1, 3, 5]], np.int32)
    np.testing.assert_array_equal(form(jnp.asarray(values), jnp.asarray(index)), [[1.5, np.inf, 0.0, 0.0]])


@pytest.mark.parametrize("form", [rows.entries_put, rows._put_in_turn, rows._scattered])
@pytest.mark.parametrize("name", ["times without end", "counts", "flags"])
def test_entries_are_put_in_their_columns(form, name):
    table = np.stack([TABLES[name]] * 2, axis=1)
    values, index = table[[2, 0]][:, ::-1] != 0, np.array([[1, 5], [0, 2]], np.int32)
    values = values.astype(table.dtype)
    expected = table.copy()
    expected[1, 0], expected[0, 0], expected[2, 1] = values[0, 0], values[1, 0], values[1, 1]
    np.testing.assert_array_equal(form(jnp.asarray(table), jnp.asarray(index), jnp.asarray(values)), expected)


def test_an_accelerator_alone_scatters_what_is_put():
    shapes = ((8, 2), jnp.float32), ((3, 2), jnp.int32), ((3, 2), jnp.float32)
    program = jax.jit(rows.entries_put).trace(*(jax.ShapeDtypeStruct(*shape) for shape in shapes))
    text = {name: program.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda", "tpu")}
    assert {name for name in text if "stablehlo.scatter" in text[name]} == {"cuda", "tpu"}


@pytest.mark.parametrize("form", [rows.rows_replaced, rows._overwritten])
def test_rows_are_replaced_where_they_are_new(form):
    old, is_new = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([True, False, False, True])
    found = form(jnp.asarray(old), jnp.asarray(-old), jnp.asarray(is_new))
    np.testing.assert_array_equal(found, np.where(is_new[:, None], -old, old))


@pytest.mark.parametrize(("length", "scattering"), [(rows.LONG - 1, set()), (rows.LONG, {"cuda"})])
def test_a_gpu_alone_writes_single_rows_and_only_long_ones(length, scattering):
    rows_of = jax.ShapeDtypeStruct((8, length), jnp.float32)
    program = jax.jit(rows.rows_replaced).trace(rows_of, rows_of, jax.ShapeDtypeStruct((8,), bool))
    text = {name: program.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda", "tpu")}
    assert {name for name in text if "stablehlo.scatter" in text[name]} == scattering
