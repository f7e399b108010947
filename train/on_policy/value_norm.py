"""Running mean and variance of the returns, so that the critic predicts numbers of size one (ValueNorm of MAPPO)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct


class ValueNorm(struct.PyTreeNode):
    """Exponential averages, debiased on use as in Adam: a fresh one has no memory of a made-up start.

    Biased averages of the returns and of their squares, and the sum of the weights so far, 0 before the first update.
    """

    mean: jax.Array
    mean_square: jax.Array
    weight: jax.Array

    @classmethod
    def create(cls) -> ValueNorm:
        """Before any update: normalises by mean 0, deviation 1."""
        zero = jnp.zeros((), jnp.float32)
        return cls(zero, zero, zero)

    def update(self, mean: jax.Array, mean_square: jax.Array, decay: float) -> ValueNorm:
        """Take in the moments of one batch of returns, each `f32[]`."""
        return ValueNorm(
            mean=decay * self.mean + (1 - decay) * mean,
            mean_square=decay * self.mean_square + (1 - decay) * mean_square,
            weight=decay * self.weight + (1 - decay),
        )

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Debiased mean and standard deviation, each `f32[]`."""
        weight = jnp.maximum(self.weight, 1e-8)
        mean = self.mean / weight
        variance = jnp.maximum(self.mean_square / weight - mean**2, 1e-2)
        is_updated = self.weight > 0
        return jnp.where(is_updated, mean, 0.0), jnp.where(is_updated, jnp.sqrt(variance), 1.0)

    def normalize(self, value: jax.Array) -> jax.Array:
        """From the scale of returns (`f32[...]`, in units of the reward) to that of the critic."""
        mean, deviation = self.moments()
        return (value - mean) / deviation

    def denormalize(self, value: jax.Array) -> jax.Array:
        """From the scale of the critic back to that of returns, `f32[...]`."""
        mean, deviation = self.moments()
        return value * deviation + mean
