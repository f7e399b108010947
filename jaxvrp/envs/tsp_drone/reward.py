"""What a step is worth: minus the time it takes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.tsp_drone.rules import State

REWARDS = ("dense", "sparse")
"""When it is paid: as the clock grows, or all on the last step; the sums are the same, minus the makespan."""


def step_reward(state: State, *, kind: str) -> jax.Array:
    """`f32[]`, of the step that led to `state`; `kind` is one of `REWARDS`."""
    return -state.growth if kind == "dense" else jnp.where(state.done, -state.clock, 0.0)
