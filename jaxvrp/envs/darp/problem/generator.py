"""Random instances, and data sets of them."""

from __future__ import annotations

from typing import Protocol

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp.problem.instance import Instance


class Parameters(Protocol):
    """What an instance is drawn from; the fields of `Darp` of the same names."""

    num_nodes: int
    num_agents: int
    vehicle_capacity: int | tuple[int, ...]
    vehicle_speed: float
    round_travel_time: bool
    min_loc: float
    max_loc: float
    min_demand: int
    max_demand: int
    min_pickup_deadline: int
    max_pickup_deadline: int
    horizon: float
    max_ride_time: float
    max_route_duration: float


def generate(key: jax.Array, parameters: Parameters) -> Instance:
    """Draw one instance by its `parameters`, which are those of the environment.

    Depot and nodes are uniform in a square; demands and pickup deadlines uniform whole numbers. A drop-off's deadline
    is a whole number that leaves between once and twice the direct time after its pickup's deadline. Earliest times
    and service times are 0.
    """
    requests = parameters.num_nodes // 2
    place_key, demand_key, pickup_key, drop_key = jax.random.split(key, 4)
    side = jnp.asarray(parameters.max_loc - parameters.min_loc, jnp.float32)
    locs = parameters.min_loc + side * jax.random.uniform(place_key, (parameters.num_nodes + 1, 2), jnp.float32)
    demand = jax.random.randint(demand_key, (requests,), parameters.min_demand, parameters.max_demand + 1, jnp.int32)
    first_deadline, last_deadline = parameters.min_pickup_deadline, parameters.max_pickup_deadline
    pickup = jax.random.randint(pickup_key, (requests,), first_deadline, last_deadline + 1, jnp.int32)
    direct = jnp.linalg.norm(locs[2::2] - locs[1::2], axis=1) / parameters.vehicle_speed
    direct = jnp.maximum(direct, 1.0)
    soonest = pickup + jnp.ceil(direct).astype(jnp.int32)
    latest = jnp.maximum(pickup + jnp.ceil(2 * direct).astype(jnp.int32), soonest + 1)
    drop_off = jax.random.randint(drop_key, (requests,), soonest, latest + 1, jnp.int32)
    deadline = _interleave(jnp.asarray(parameters.horizon, jnp.float32), pickup.astype(jnp.float32), drop_off)
    return Instance(
        locs=locs.astype(jnp.float32),
        demand=_interleave(jnp.zeros((), jnp.int32), demand, -demand),
        earliest=jnp.zeros(parameters.num_nodes + 1, jnp.float32),
        deadline=deadline,
        service_time=jnp.zeros(parameters.num_nodes + 1, jnp.float32),
        capacity=jnp.broadcast_to(jnp.asarray(parameters.vehicle_capacity, jnp.int32), (parameters.num_agents,)),
        vehicle_speed=jnp.asarray(parameters.vehicle_speed, jnp.float32),
        max_ride_time=jnp.asarray(parameters.max_ride_time, jnp.float32),
        max_route_duration=jnp.asarray(parameters.max_route_duration, jnp.float32),
        round_travel_time=jnp.asarray(parameters.round_travel_time, jnp.bool_),
    )


def generate_dataset(parameters: Parameters, seed: int, count: int) -> Instance:
    """`count` instances `[count]` from a seed, always the same ones; `save` writes them to a file.

    Args:
        parameters: an environment, or anything else that has these attributes.
        seed: of the random numbers.
        count: how many instances.
    """
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.jit(jax.vmap(lambda key: generate(key, parameters)))(keys)


def _interleave(depot: jax.Array, pickup: jax.Array, drop_off: jax.Array) -> jax.Array:
    """`[N+1]` from `[]`, `[N/2]` and `[N/2]`."""
    pairs = jnp.stack([pickup, drop_off.astype(pickup.dtype)], axis=1).reshape(-1)
    return jnp.concatenate([depot[None], pairs])
