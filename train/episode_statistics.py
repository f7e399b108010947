"""Statistics of the episodes that end while a learner plays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def ended_episodes(timestep: Any) -> dict[str, jax.Array]:
    """Sums of the metrics over the episodes that end with a step of `VecEnv`, `{name: f32[] or f32[agents]}`.

    With `episodes`, how many they are over. `timestep` is `[E, ...]`; its metrics are of the episodes that ended.
    """
    done = timestep.done

    def total(metric: jax.Array) -> jax.Array:
        done_per_entry = done.reshape(done.shape + (1,) * (metric.ndim - 1))
        return jnp.where(done_per_entry, metric, 0.0).sum(axis=0)

    sums = {name: total(metric) for name, metric in timestep.metrics.items()}
    return {**sums, "episodes": done.sum(dtype=jnp.float32)}
