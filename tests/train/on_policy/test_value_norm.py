"""ValueNorm: debiased running moments of the returns."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.on_policy.value_norm import ValueNorm


def after(batches, decay):
    """A `ValueNorm` that has seen the batches one after the other."""
    norm = ValueNorm.create()
    for batch in batches:
        norm = norm.update(jnp.float32(np.mean(batch)), jnp.float32(np.mean(np.square(batch))), decay)
    return norm


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=6), min_size=1, max_size=6),
    decay=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
)
def test_moments_are_weighted_averages(batches, decay):
    mean, deviation = after(batches, decay).moments()
    ages = np.arange(len(batches))[::-1]
    values = np.concatenate(batches)
    weights = np.concatenate([np.full(len(b), decay**age / len(b)) for b, age in zip(batches, ages, strict=True)])
    wanted_mean = np.average(values, weights=weights)
    variance = np.average((values - wanted_mean) ** 2, weights=weights)
    np.testing.assert_allclose(mean, wanted_mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(deviation, np.sqrt(max(variance, 0.01)), rtol=1e-2, atol=1e-3)


def test_the_first_batch_counts_in_full():
    batch = np.array([-130.0, -110.0])
    norm = after([batch], 0.99)
    np.testing.assert_allclose(norm.moments(), (-120.0, 10.0), rtol=1e-3)
    np.testing.assert_allclose(norm.normalize(jnp.asarray(batch)), [-1.0, 1.0], rtol=1e-3)


def test_old_batches_fade():
    mean, deviation = after([[100.0, 102.0], *[[-3.0, 3.0]] * 40], 0.5).moments()
    np.testing.assert_allclose((mean, deviation), (0.0, 3.0), atol=1e-3)


def test_equal_returns_do_not_blow_up():
    norm = after([[4.0, 4.0]], 0.99)
    np.testing.assert_allclose(norm.normalize(jnp.array([4.0, 4.5])), [0.0, 5.0], atol=1e-3)


@pytest.mark.parametrize("batches", [[[3.0, 9.0]], [[-1.0, 2.0], [50.0, 60.0, 80.0]]])
def test_normalize_and_denormalize_are_inverse(batches):
    norm = after(batches, 0.9)
    value = jnp.linspace(-30.0, 90.0, 25)
    chex.assert_trees_all_close(norm.denormalize(norm.normalize(value)), value, atol=1e-3)
    chex.assert_trees_all_close(norm.normalize(norm.denormalize(value)), value, atol=1e-3)
    assert jnp.abs(norm.normalize(value) - value).max() > 1


def test_a_fresh_one_changes_nothing():
    value = jnp.array([-1e4, -0.1, 0.0, 3.0, 1e6])
    norm = ValueNorm.create()
    chex.assert_trees_all_equal(norm.normalize(value), value)
    chex.assert_trees_all_equal(norm.denormalize(value), value)
