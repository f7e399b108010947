"""Many arrays as one vector, and apart again."""

import jax
import jax.numpy as jnp
import numpy as np

from train.learning.vectors import Vector, apart, counts_apart, joined_like, with_counts


def tree(*leading):
    shapes = {"bias": (3,), "deep": {"kernel": (2, 3)}, "scale": ()}
    leaves, structure = jax.tree.flatten(shapes, is_leaf=lambda part: isinstance(part, tuple))
    return jax.tree.unflatten(structure, [jnp.full((*leading, *leaf), number) for number, leaf in enumerate(leaves)])


def same(tree, other):
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, tree, other)


def test_a_vector_holds_the_arrays_of_a_tree_one_after_the_other():
    np.testing.assert_array_equal(Vector.of(tree()).numbers, [0] * 3 + [1] * 6 + [2])
    same(Vector.of(tree()).tree(), tree())


def test_leading_axes_stay_and_those_that_a_vector_gains_its_arrays_gain():
    assert Vector.of(tree(4), leading=1).numbers.shape == (4, 10)
    same(Vector.of(tree(4), leading=1).tree(), tree(4))
    same(jax.lax.map(Vector.of, tree(4)).tree(), tree(4))


def test_a_tree_is_joined_where_another_is_and_comes_apart_whole():
    whole = {"count": jnp.int32(7), "first": tree(), "second": tree(2)}
    like = {"count": 0, "first": Vector.of(tree()), "second": Vector.of(tree(2), leading=1)}
    vectors = joined_like(like, whole)
    assert [leaf.shape for leaf in jax.tree.leaves(vectors)] == [(), (10,), (2, 10)]
    same(apart(vectors), whole)


def test_counts_are_one_vector_beside_the_rest_and_come_back():
    whole = {"count": jnp.int32(7), "mean": jnp.ones((2, 3)), "counts": {"of": jnp.arange(3, dtype=jnp.int32)}}
    rest, counts = counts_apart(whole)
    np.testing.assert_array_equal(counts.numbers, [7, 0, 1, 2])
    same(rest, {"count": None, "mean": whole["mean"], "counts": {"of": None}})
    same(with_counts(rest, counts), whole)
