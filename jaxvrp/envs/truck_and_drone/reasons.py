"""Why actions of truck and drone are masked, by role."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone.env import DRONE, TRUCK
from jaxvrp.show.reasons import Cause


def causes(drone: tuple[jax.Array, ...], truck: tuple[jax.Array, ...]) -> dict[str, Cause]:
    """`{"drone": Cause [1, n + 2], "truck": Cause [1, n]}` of kinds and amounts of each."""
    return {
        role: Cause(kind[None], amount[None], jnp.zeros_like(kind)[None])
        for role, (kind, amount) in {DRONE: drone, TRUCK: truck}.items()
    }
