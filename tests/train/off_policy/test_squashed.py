"""Gaussians that tanh squashes: their densities, where they are finite, and distrax as an oracle."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from train.off_policy.sac import sample_squashed


def test_the_density_of_a_squashed_gaussian_sums_to_one():
    noise = np.linspace(-9, 9, 20_001, dtype=np.float32)[:, None]
    action, log_prob = sample_squashed(noise, jnp.float32(0.4), jnp.float32(-0.5))
    total = np.trapezoid(np.exp(np.asarray(log_prob, float)), np.asarray(action, float)[:, 0])
    np.testing.assert_allclose(total, 1.0, atol=1e-4)


def test_a_squashed_gaussian_is_finite_anywhere():
    mean, log_deviation, noise = (
        jnp.asarray(x, jnp.float32)[..., None]
        for x in np.meshgrid([0.0, 12.0, -300.0], [-90.0, 0.0, 70.0], [0.0, -3.0, 4.0])
    )

    def log_prob(mean, log_deviation):
        action, log_prob = sample_squashed(noise, mean, log_deviation)
        return log_prob.sum(), (action, log_prob)

    slopes, (action, each) = jax.jit(jax.grad(log_prob, (0, 1), has_aux=True))(mean, log_deviation)
    assert all(np.isfinite(x).all() for x in (*slopes, each))
    assert (np.abs(action) <= 1).all()


def test_a_squashed_gaussian_is_that_of_distrax_bit_for_bit():
    with warnings.catch_warnings():
        # distrax brings TensorFlow Probability, which reads names that JAX has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        import distrax

    @jax.jit
    def by_distrax(noise, mean, log_deviation):
        squashed, log_stretch = distrax.Tanh().forward_and_log_det(mean + jnp.exp(log_deviation) * noise)
        return squashed, (distrax.Normal(0.0, 1.0).log_prob(noise) - log_deviation - log_stretch).sum(axis=-1)

    draws = np.random.default_rng(2).normal(0, (1.0, 2.0, 0.7), (2000, 3)).astype(np.float32)
    noise, mean, log_deviation = (column[:, None] for column in draws.T)
    found = jax.jit(sample_squashed)(noise, mean, np.clip(log_deviation, -20, 2))
    jax.tree.map(np.testing.assert_array_equal, found, by_distrax(noise, mean, np.clip(log_deviation, -20, 2)))
