"""Statistics of the episodes that end while a learner plays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def ended_episodes(timestep: Any) -> dict[str, jax.Array]:
    """Sums of the metrics over the episodes that end with this step, and how many they are."""
    done = timestep.done

    def total(metric: jax.Array) -> jax.Array:
        shaped = done.reshape(done.shape + (1,) * (metric.ndim - 1))
        return jnp.where(shaped, metric, 0.0).sum(axis=0)

    return {**{k: total(v) for k, v in timestep.metrics.items()}, "episodes": done.sum(dtype=jnp.float32)}
