"""The dial-a-ride problem as data: nodes, vehicles, limits; checking, padding, stacking, files.

Nodes are interleaved: 0 is the depot, odd indices are pickups, the pickup at i has its drop-off at i + 1.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.io.arrays import load_arrays, save_arrays

FORMAT = "jaxvrp-darp-1"


class Instance(struct.PyTreeNode):
    """One problem; N customers' nodes (pickups and drop-offs), V vehicles. Leading axes make it a batch.

    Arrays are NumPy (`float64`, from `make_instance` and files) or JAX (`float32`, from the generator and in an
    environment's state). Coordinates in map units, times in the instance's own unit, demand in passengers.

    Attributes:
        locs: `f[N+1, 2]`.
        demand: `i32[N+1]`, positive at pickups, its negative at drop-offs, 0 at the depot. A pickup with demand 0 is
            padding.
        earliest: `f[N+1]`, service does not start before.
        deadline: `f[N+1]`, latest start of service (and latest return, for the depot); inf for none.
        service_time: `f[N+1]`.
        capacity: `i32[V]`, passengers that a vehicle can hold; 0 is padding.
        vehicle_speed: `f[]`, map units per unit of time.
        max_ride_time: `f[]`, from the end of the pickup's service to the start of the drop-off's; inf for none.
        max_route_duration: `f[]`, from leaving the depot to returning; inf for none.
        round_travel_time: `bool[]`, whether travel times are rounded to whole numbers, half to even.
    """

    locs: Any
    demand: Any
    earliest: Any
    deadline: Any
    service_time: Any
    capacity: Any
    vehicle_speed: Any
    max_ride_time: Any
    max_route_duration: Any
    round_travel_time: Any

    @property
    def num_nodes(self) -> int:
        """N, pickups and drop-offs, with padding."""
        return self.demand.shape[-1] - 1

    @property
    def num_agents(self) -> int:
        """V, vehicles, with padding."""
        return self.capacity.shape[-1]


RANK = {"locs": 2, "demand": 1, "earliest": 1, "deadline": 1, "service_time": 1, "capacity": 1}
"""Axes of the fields that have any."""

INTEGERS = ("demand", "capacity")


def make_instance(
    locs: ArrayLike,
    demand: ArrayLike,
    deadline: ArrayLike,
    *,
    capacity: ArrayLike,
    earliest: ArrayLike | None = None,
    service_time: ArrayLike | None = None,
    vehicle_speed: float = 1.0,
    max_ride_time: float = np.inf,
    max_route_duration: float = np.inf,
    round_travel_time: bool = False,
) -> Instance:
    """A checked problem of one's own, as NumPy arrays.

    Args:
        locs: `[N+1, 2]`, depot first, then pickup, drop-off, pickup, drop-off, ...
        demand: `[N+1]`, whole numbers.
        deadline: `[N+1]`.
        capacity: `[V]`, one per vehicle.
        earliest: `[N+1]`; default 0.
        service_time: `[N+1]`; default 0.
        vehicle_speed, max_ride_time, max_route_duration, round_travel_time: as in `Instance`.

    Raises:
        ValueError: what is wrong, at which node, and the remedy; see `check`.
    """
    nodes = np.shape(demand)
    values = {
        "locs": locs,
        "demand": demand,
        "earliest": np.zeros(nodes) if earliest is None else earliest,
        "deadline": deadline,
        "service_time": np.zeros(nodes) if service_time is None else service_time,
        "capacity": np.atleast_1d(capacity),
        "vehicle_speed": vehicle_speed,
        "max_ride_time": max_ride_time,
        "max_route_duration": max_route_duration,
    }
    try:
        arrays = {name: np.asarray(value, np.float64) for name, value in values.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"an instance needs arrays of numbers: {error}") from None
    for name in INTEGERS:
        if not np.array_equal(arrays[name], np.round(arrays[name])):
            raise ValueError(f"{name} has a fraction; passengers are counted in whole numbers")
        arrays[name] = arrays[name].astype(np.int32)
    instance = Instance(**arrays, round_travel_time=np.asarray(round_travel_time, np.bool_))
    check(instance)
    return instance


def check(instance: Instance) -> None:
    """Check one problem (no leading axes); padding is legal.

    Warns of a request that no vehicle can hold: it is legal, but can never be served.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    _check_shapes(instance)
    locs, demand, capacity = (np.asarray(getattr(instance, name)) for name in ("locs", "demand", "capacity"))
    early, late, service = (np.asarray(getattr(instance, n)) for n in ("earliest", "deadline", "service_time"))
    _refuse(~np.isfinite(locs).all(axis=1), "locs of node {} is not finite; give two coordinates")
    _refuse(~np.isfinite(early), "earliest of node {} is not finite; give 0 for none")
    _refuse(np.isnan(late), "deadline of node {} is no number; give inf for none")
    _refuse(late < early, "deadline of node {} lies before its earliest time; a window must not be empty")
    _refuse(~(np.isfinite(service) & (service >= 0)), "service_time of node {} is not 0 or more; give 0 for none")
    _refuse(np.arange(demand.size) % 2 * demand < 0, "demand of pickup {} is negative; only drop-offs have that")
    pairs = np.zeros(demand.size, bool)
    pairs[2::2] = demand[2::2] != -demand[1::2]
    _refuse(pairs, "demand of drop-off {} is not the negative of its pickup's, the node before; make it so")
    if demand[0] != 0 or service[0] != 0:
        raise ValueError("the depot (node 0) has a demand or a service time; both must be 0")
    _refuse(capacity < 0, "capacity of vehicle {} is negative; give at least 1, or 0 for padding")
    for name, least in (("vehicle_speed", 0.0), ("max_ride_time", 0.0), ("max_route_duration", 0.0)):
        if not np.asarray(getattr(instance, name)) > least:
            raise ValueError(f"{name} is {getattr(instance, name)}; it must be > {least:g}")
    oversized = np.flatnonzero(demand > capacity.max(initial=0))
    if oversized.size:
        warnings.warn(
            f"{oversized.size} of {np.count_nonzero(demand > 0)} requests exceed every vehicle's capacity "
            f"({capacity.max(initial=0)}), the first at pickup {oversized[0]}; they can never be served",
            stacklevel=2,
        )


def _check_shapes(instance: Instance) -> None:
    count = np.size(instance.demand)
    if count < 3 or count % 2 == 0:
        raise ValueError(f"num_nodes is {count - 1}; it must be even and at least 2: a pickup and a drop-off a request")
    shapes = {name: (count,) for name in RANK} | {"locs": (count, 2)}
    shapes["capacity"] = (max(np.size(instance.capacity), 1),)
    for name, shape in shapes.items():
        if np.shape(getattr(instance, name)) != shape:
            raise ValueError(f"{name} has shape {np.shape(getattr(instance, name))}; it needs {shape}")


def _refuse(bad: np.ndarray, message: str) -> None:
    if bad.any():
        raise ValueError(message.format(int(np.argmax(bad))))


def as_float32(instance: Instance) -> Instance:
    """The same problem as JAX arrays of the dtypes that environments compute with."""
    kinds = dict.fromkeys(INTEGERS, jnp.int32) | {"round_travel_time": jnp.bool_}
    fields = {name: getattr(instance, name) for name in Instance.__dataclass_fields__}
    return Instance(**{name: jnp.asarray(value, kinds.get(name, jnp.float32)) for name, value in fields.items()})


def pad(instance: Instance, num_nodes: int, num_agents: int) -> Instance:
    """Add empty requests and vehicles at the end, up to the given sizes; works on batches and under `vmap`.

    Padded nodes lie at the depot with demand 0 and without deadline, padded vehicles have capacity 0.

    Raises:
        ValueError: the instance is larger.
    """
    nodes, agents = num_nodes - instance.num_nodes, num_agents - instance.num_agents
    if nodes < 0 or agents < 0:
        raise ValueError(
            f"an instance of {instance.num_nodes} nodes and {instance.num_agents} vehicles does not fit into "
            f"num_nodes {num_nodes}, num_agents {num_agents}; make the environment with at least its sizes"
        )
    if nodes == agents == 0:
        return instance
    xp = jnp if isinstance(instance.locs, jax.Array) else np
    batch = instance.demand.shape[:-1]
    depots = xp.repeat(instance.locs[..., :1, :], nodes, axis=-2)

    def extend(array: Any, count: int, value: float) -> Any:
        return xp.concatenate([array, xp.full((*batch, count), value, array.dtype)], axis=-1)

    return instance.replace(
        locs=xp.concatenate([instance.locs, depots], axis=-2),
        demand=extend(instance.demand, nodes, 0),
        earliest=extend(instance.earliest, nodes, 0.0),
        deadline=extend(instance.deadline, nodes, np.inf),
        service_time=extend(instance.service_time, nodes, 0.0),
        capacity=extend(instance.capacity, agents, 0),
    )


def stack(instances: Sequence[Instance]) -> Instance:
    """A batch `[E]` of problems of any sizes, padded to the largest."""
    nodes, agents = max(i.num_nodes for i in instances), max(i.num_agents for i in instances)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *(pad(i, nodes, agents) for i in instances))


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Euclidean, `f32[..., 2]` and `f32[..., 2]` to `f32[...]`."""
    gap = a - b
    return jnp.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)


def travel_time(instance: Instance, length: jax.Array) -> jax.Array:
    """Time to drive a `length` (any shape) in one instance."""
    time = length / instance.vehicle_speed
    return jnp.where(instance.round_travel_time, jnp.round(time), time)


def save(path: str | os.PathLike, instance: Instance) -> None:
    """Write an instance, or a batch, as `.npz`; an exact round trip with `load`. Complete, or not at all."""
    names = Instance.__dataclass_fields__
    save_arrays(path, FORMAT, {name: np.asarray(getattr(instance, name)) for name in names})


def load(path: str | os.PathLike) -> Instance:
    """Read what `save` wrote, as NumPy arrays.

    Raises:
        ValueError: the file is damaged, or something else; one line that names it and the remedy.
        OSError: it cannot be read.
    """
    ranks = {"demand": 1} | {name: RANK.get(name, 0) for name in Instance.__dataclass_fields__}
    remedy = "give a file that jaxvrp.envs.darp.save wrote"
    arrays = load_arrays(path, FORMAT, ranks, what="an instance", remedy=remedy)
    batch = arrays["demand"].shape[:-1]
    instance = Instance(**arrays)
    for index in np.ndindex(batch):
        try:
            check(jax.tree.map(lambda leaf, at=index: leaf[at], instance))
        except ValueError as error:
            where = f" (instance {', '.join(map(str, index))})" if index else ""
            raise ValueError(f"{path}{where}: {error}") from None
    return instance
