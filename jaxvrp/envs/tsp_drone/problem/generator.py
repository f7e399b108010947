"""Random instances, and data sets of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_and_drone.instance import Instance

LAYOUTS = ("corner", "uniform", "singlecenter", "doublecenter")
"""Where nodes lie:

- corner: the depot uniform in [0, 1]², customers uniform in [0, 100]² (Bogyrbayeva et al. 2023).
- uniform: the depot as there, x and y of customers uniform whole numbers of 0 to 99 (Agatz, Bouman & Schmidt 2018, and
  the two that follow; as their published files are).
- singlecenter: nodes at an angle uniform in [0, 2π) and a distance from (0, 0) that is |normal(0, 50)|.
- doublecenter: likewise, and every customer with probability 1/2 moved by 200 to the right.
"""

SIDE, SPREAD, SHIFT = 100.0, 50.0, 200.0
"""Map units: side of the square; standard deviation of the distance from the centre; how far apart two centres are."""


def generate(key: jax.Array, parameters: Any) -> Instance:
    """Draw one instance by the `parameters` of an environment, its fields of these names; the truck's speed is 1."""
    count = parameters.num_nodes
    return Instance(
        locs=_locs(key, parameters.layout, count),
        exists=jnp.ones(count, bool),
        no_fly=jnp.zeros(count, bool),
        truck_pace=jnp.ones((), jnp.float32),
        drone_pace=1.0 / jnp.asarray(parameters.alpha, jnp.float32),
        max_flight=jnp.asarray(parameters.max_flight, jnp.float32),
        launch_time=jnp.asarray(parameters.launch_time, jnp.float32),
        recovery_time=jnp.asarray(parameters.recovery_time, jnp.float32),
    )


def _locs(key: jax.Array, layout: str, count: int) -> jax.Array:
    """`f32[count, 2]`, see `LAYOUTS`."""
    place_key, side_key = jax.random.split(key)
    if layout in ("corner", "uniform"):
        places = jax.random.uniform(place_key, (count, 2), jnp.float32)
        customers = SIDE * places if layout == "corner" else jnp.floor(SIDE * places)
        return customers.at[0].set(places[0])
    angle_key, length_key = jax.random.split(place_key)
    angle = jax.random.uniform(angle_key, (count,), jnp.float32, 0.0, 2 * jnp.pi)
    length = SPREAD * jnp.abs(jax.random.normal(length_key, (count,), jnp.float32))
    locs = length[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    if layout == "singlecenter":
        return locs
    moved = jax.random.bernoulli(side_key, jnp.float32(0.5), (count,)).at[0].set(False)
    return locs.at[:, 0].add(jnp.where(moved, SHIFT, 0.0))


def generate_dataset(parameters: Any, seed: int, count: int) -> Instance:
    """`count` instances `[count]` from a seed, always the same ones; `parameters` as for `generate`."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.jit(jax.vmap(lambda key: generate(key, parameters)))(keys)
