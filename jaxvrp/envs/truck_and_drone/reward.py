"""What a step is worth: minus the time that it takes, or, with tandems, minus the money that it costs."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone.state import State

REWARDS = ("dense", "sparse")
"""When it is paid: as the clock, or the cost, grows, or all on the last step; the sums are the same."""


def step_reward(state: State, *, kind: str) -> jax.Array:
    """`f32[]`, of the step that led to `state`; `kind` is one of `REWARDS`."""
    total = state.clock if state.tours is None else state.tours.cost
    return -state.growth if kind == "dense" else jnp.where(state.done, -total, 0.0)


def unserved_penalty(state: State, price: float | jax.Array) -> jax.Array:
    """`f32[]`, the `price` of each customer that is left at the end, on the last step."""
    return jnp.where(state.done, price * jnp.sum(~state.served), 0.0)
