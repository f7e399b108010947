"""Random instances of tandems with time windows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone_tours.problem.instance import Instance


def generate(key: jax.Array, parameters: Any) -> Instance:
    """Draw one instance in the manner of Kuo et al. (2022), by the fields of these names of an environment.

    The depot is in the middle of a square of side `grid`, in which customers are uniform. Each has a window with
    probability `window_share`, else the whole horizon; windows are `window_width` wide, uniform among those that a
    truck can keep, coming from the depot and going home.
    """
    count = parameters.num_nodes
    place_key, load_key, chance_key, window_key = jax.random.split(key, 4)
    is_customer = jnp.arange(count) > 0
    places = parameters.grid * jax.random.uniform(place_key, (count, 2), jnp.float32, -0.5, 0.5)
    locs = jnp.where(is_customer[:, None], places, 0.0)
    demand = jnp.where(is_customer, parameters.max_demand * jax.random.uniform(load_key, (count,), jnp.float32), 0.0)
    pace = 60.0 / jnp.asarray(parameters.truck_speed, jnp.float32)
    way = pace * jnp.sqrt(jnp.sum(locs**2, axis=1))
    # Where a window opens: late enough for the way there, and with it whole before the last start that is home in time.
    first, last = way, parameters.horizon - way - parameters.service_time - parameters.window_width
    opens = first + jax.random.uniform(window_key, (count,), jnp.float32) * jnp.maximum(last - first, 0.0)
    has_window = is_customer & jax.random.bernoulli(chance_key, jnp.float32(parameters.window_share), (count,))
    opens = jnp.where(has_window, opens, 0.0)
    horizon = jnp.asarray(parameters.horizon, jnp.float32)
    names = (
        "launch_time",
        "recovery_time",
        "truck_capacity",
        "drone_capacity",
        "endurance",
        "truck_price",
        "drone_price",
    )
    numbers = {name: jnp.asarray(getattr(parameters, name), jnp.float32) for name in names}
    return Instance(
        locs=locs,
        exists=jnp.ones(count, bool),
        no_fly=demand > numbers["drone_capacity"],
        truck_pace=pace,
        drone_pace=60.0 / jnp.asarray(parameters.drone_speed, jnp.float32),
        max_flight=jnp.full((), jnp.inf, jnp.float32),
        demand=demand,
        opens=opens,
        closes=jnp.where(has_window, opens + parameters.window_width, horizon),
        service=jnp.where(is_customer, jnp.asarray(parameters.service_time, jnp.float32), 0.0),
        **numbers,
    )
