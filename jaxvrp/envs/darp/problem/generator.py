"""Random instances, uniform ones and such as the published sets of Cordeau (2006)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.envs.darp.problem.instance import Instance, distance
from jaxvrp.geography.streets import STRAIGHT, drawn_detours

INSTANCES = ("uniform", "cordeau")  # what can be generated
CORDEAU_KINDS = ("mixed", "a", "b")
"""The sets of Cordeau: a, single passengers and short rides; b, groups; or each instance one of these."""

SIDE = 10.0  # published nodes lie within this of the depot, along each axis
OPEN = 1440.0  # a node without a window of its own is open from 0 to then, in minutes
WINDOW = 15.0  # length of a window, in minutes
MINUTES_PER_REQUEST = 60.0  # longest route duration of a published instance, for each request of a vehicle


def generate(key: jax.Array, parameters: Any) -> Instance:
    """Draw one instance by the fields of `Darp`, `parameters`."""
    return _cordeau(key, parameters) if parameters.instances == "cordeau" else _uniform(key, parameters)


def _cordeau(key: jax.Array, parameters: Any) -> Instance:
    """An instance of all nodes and vehicles, as those of Cordeau (2006).

    The depot is in the middle of a square, nodes are uniform in it; speed 1, times not rounded. The first half of the
    requests has a window for the drop-off, the rest for the pickup; these begin at whole minutes, uniform, such that
    the direct ride, both services and the ways from and to the depot fit into the longest route duration.
    """
    count = parameters.num_nodes // 2
    place_key, demand_key, window_key, kind_key = jax.random.split(key, 4)
    is_mixed = parameters.cordeau_kind == "mixed"
    is_b = jax.random.bernoulli(kind_key, jnp.float32(0.5)) if is_mixed else parameters.cordeau_kind == "b"
    locs = jax.random.uniform(place_key, (2 * count + 1, 2), jnp.float32, -SIDE, SIDE).at[0].set(0.0)
    demand = jnp.where(is_b, jax.random.randint(demand_key, (count,), 1, 7, jnp.int32), 1)
    service = jnp.where(is_b, demand, 3).astype(jnp.float32)
    duration = jnp.asarray(MINUTES_PER_REQUEST * count / parameters.num_agents, jnp.float32)
    has_late_window = jnp.arange(count, dtype=jnp.int32) < count // 2
    streets, ride = _streets(key, locs, parameters), jnp.linalg.norm(locs[2::2] - locs[1::2], axis=1)
    way_home = way_out = jnp.linalg.norm(locs, axis=1)
    if streets is not None:
        way_out, way_home, ride = streets[0], streets[:, 0], jnp.diagonal(streets, 1)[1::2]
    reached = way_out[1::2] + jnp.where(has_late_window, service + ride, 0.0)
    to_do = service + way_home[2::2] + jnp.where(has_late_window, 0.0, ride + service)
    first, last = jnp.ceil(reached).astype(jnp.int32), jnp.floor(duration - to_do).astype(jnp.int32)
    begin = jax.random.randint(window_key, (count,), first, jnp.maximum(first, last) + 1, jnp.int32).astype(jnp.float32)
    earliest = [jnp.where(has_late_window, 0.0, begin), jnp.where(has_late_window, begin, 0.0)]
    deadline = [jnp.where(late, begin + WINDOW, OPEN) for late in (~has_late_window, has_late_window)]
    nothing = jnp.zeros((), jnp.float32)
    return Instance(
        locs=locs,
        demand=_interleave(jnp.zeros((), jnp.int32), demand, -demand),
        earliest=_interleave(nothing, *earliest),
        deadline=_interleave(duration, *deadline),
        service_time=_interleave(nothing, service, service),
        capacity=jnp.broadcast_to(jnp.where(is_b, 6, 3).astype(jnp.int32), (parameters.num_agents,)),
        vehicle_speed=jnp.ones((), jnp.float32),
        max_ride_time=jnp.where(is_b, 45.0, 30.0).astype(jnp.float32),
        max_route_duration=duration,
        round_travel_time=jnp.zeros((), jnp.bool_),
        travel_time=streets,
    )


def _streets(key: jax.Array, locs: jax.Array, parameters: Any) -> jax.Array | None:
    """Lengths of random ways along streets, `f32[N+1, N+1]`, drawn beside the rest; None where ways are straight."""
    if parameters.travel == STRAIGHT:
        return None
    return distance(locs[:, None], locs) + drawn_detours(jax.random.fold_in(key, 1), locs, parameters.detour)


def _uniform(key: jax.Array, parameters: Any) -> Instance:
    """An instance of all nodes and vehicles.

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
    streets = _streets(key, locs, parameters)
    direct = jnp.linalg.norm(locs[2::2] - locs[1::2], axis=1) / parameters.vehicle_speed
    if streets is not None:
        streets = streets / parameters.vehicle_speed
        direct = jnp.diagonal(streets, 1)[1::2]
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
        travel_time=streets,
    )


def generate_dataset(parameters: Any, seed: int, count: int) -> Instance:
    """`count` instances `[count]` of an environment from a seed, always the same ones; `save` writes them to a file."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.jit(jax.vmap(lambda key: generate(key, parameters)))(keys)


def _interleave(depot: jax.Array, pickup: jax.Array, drop_off: jax.Array) -> jax.Array:
    """`[N+1]` from `[]`, `[N/2]` and `[N/2]`."""
    pairs = jnp.stack([pickup, drop_off.astype(pickup.dtype)], axis=1).reshape(-1)
    return jnp.concatenate([depot[None], pairs])
