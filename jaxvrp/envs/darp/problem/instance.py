"""The dial-a-ride problem as data: nodes, vehicles, limits; checking, padding, stacking, files.

Nodes are interleaved: 0 is the depot, odd indices are pickups, the pickup at i has its drop-off at i + 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.geography.streets import check_streets, closed_streets
from jaxvrp.io import arrays
from jaxvrp.io.arrays import ArrayField, refuse_where
from jaxvrp.io.limits import LEAST
from jaxvrp.io.problems.origin import origin_of
from jaxvrp.rows import rows_at


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
        travel_time: `f[N+1, N+1]`, along streets from each node to each, closed (`jaxvrp.geography.streets`); None
            where vehicles drive straight.
        travel_distance: `f[N+1, N+1]`, along these, in map units; None: the times at `vehicle_speed`.
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
    travel_time: Any = None
    travel_distance: Any = None

    @property
    def num_nodes(self) -> int:
        """N, pickups and drop-offs, with padding."""
        return self.demand.shape[-1] - 1

    @property
    def num_agents(self) -> int:
        """V, vehicles, with padding."""
        return self.capacity.shape[-1]


SCHEMA: arrays.Schema = {
    "locs": ArrayField("nodes", (2,), padding="first row", origin="map"),
    "demand": ArrayField("nodes", kind=int),
    "earliest": ArrayField("nodes", origin="clock"),
    "deadline": ArrayField("nodes", padding=np.inf, origin="clock"),
    "service_time": ArrayField("nodes"),
    "capacity": ArrayField("vehicles", kind=int),
    "vehicle_speed": ArrayField(),
    "max_ride_time": ArrayField(),
    "max_route_duration": ArrayField(),
    "round_travel_time": ArrayField(kind=bool),
    "travel_time": ArrayField("nodes", ("nodes",), padding="first row", optional=True),
    "travel_distance": ArrayField("nodes", ("nodes",), padding="first row", optional=True),
}
"""Padded nodes lie at the depot, with demand 0 and without deadline."""


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
    travel_time: ArrayLike | None = None,
    travel_distance: ArrayLike | None = None,
) -> Instance:
    """A checked problem of one's own, as NumPy arrays.

    Arguments are the attributes of `Instance`, in its shapes; earliest and service times are 0 if left out. Travel
    times are closed: a way that is quicker by way of another node is driven so, and a warning says how many are.

    Raises:
        ValueError: what is wrong, at which node, and the remedy; see `check`.
    """
    unspecified = np.zeros(np.shape(demand))
    values = {
        "locs": locs,
        "demand": demand,
        "earliest": unspecified if earliest is None else earliest,
        "deadline": deadline,
        "service_time": unspecified if service_time is None else service_time,
        "capacity": np.atleast_1d(capacity),
        "vehicle_speed": vehicle_speed,
        "max_ride_time": max_ride_time,
        "max_route_duration": max_route_duration,
        "round_travel_time": round_travel_time,
    }
    fraction = "has a fraction; passengers are counted in whole numbers"
    values |= closed_streets(travel_time, travel_distance, np.size(demand))
    instance = Instance(**arrays.stored_arrays(SCHEMA, arrays.number_arrays(values, "an instance"), fraction))
    check(instance)
    return instance


def check(instance: Instance) -> None:
    """Check one problem (no leading axes); padding is legal.

    Warns of a request that no vehicle can hold: it is legal, but can never be served.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    count = np.size(instance.demand)
    if count < 3 or count % 2 == 0:
        raise ValueError(f"num_nodes is {count - 1}; it must be even and at least 2: a pickup and a drop-off a request")
    arrays.check_shapes(SCHEMA, instance, {"nodes": count, "vehicles": max(np.size(instance.capacity), 1)})
    check_streets(instance.travel_time, instance.travel_distance, count)
    instance = jax.tree.map(np.asarray, instance)
    demand, capacity, service = instance.demand, instance.capacity, instance.service_time
    refuse_where(~np.isfinite(instance.locs).all(axis=1), "locs of node {} is not finite; give two coordinates")
    refuse_where(~np.isfinite(instance.earliest), "earliest of node {} is not finite; give 0 for none")
    refuse_where(np.isnan(instance.deadline), "deadline of node {} is no number; give inf for none")
    empty = instance.deadline < instance.earliest
    refuse_where(empty, "deadline of node {} lies before its earliest time; a window must not be empty")
    wrong_service = ~(np.isfinite(service) & (service >= 0))
    refuse_where(wrong_service, "service_time of node {} is not 0 or more; give 0 for none")
    refuse_where(np.arange(count) % 2 * demand < 0, "demand of pickup {} is negative; only drop-offs have that")
    unequal_pair = np.zeros(count, bool)
    unequal_pair[2::2] = demand[2::2] != -demand[1::2]
    refuse_where(unequal_pair, "demand of drop-off {} is not the negative of its pickup's, the node before; make it so")
    if demand[0] != 0 or service[0] != 0:
        raise ValueError("the depot (node 0) has a demand or a service time; both must be 0")
    refuse_where(capacity < 0, "capacity of vehicle {} is negative; give at least 1, or 0 for padding")
    for name in ("vehicle_speed", "max_ride_time", "max_route_duration"):
        if not getattr(instance, name) >= LEAST:
            raise ValueError(f"{name} is {getattr(instance, name)}; it must be > 0, at least {LEAST:g}")
    oversized = np.flatnonzero(demand > capacity.max(initial=0))
    if oversized.size:
        warnings.warn(
            f"{oversized.size} of {np.count_nonzero(demand > 0)} requests exceed every vehicle's capacity "
            f"({capacity.max(initial=0)}), the first at pickup {oversized[0]}; they can never be served",
            stacklevel=2,
        )


def as_float32(instance: Instance) -> Instance:
    """The same problem as JAX arrays of the dtypes that environments compute with."""
    return arrays.computed_arrays(SCHEMA, instance)


def origins_of(instance: Instance) -> dict[str, Any]:
    """Where the clock (`f64[]`, when the depot opens) and the map (`f64[2]`) of one problem begin.

    0 where its numbers are near that; see `jaxvrp.io.problems.origin`.
    """
    opening, ends = np.asarray(instance.earliest)[:1], np.asarray(instance.deadline)
    closing = ends[:1] if np.isfinite(ends[0]) else ends
    return {"clock": origin_of(np.concatenate([opening, closing])), "map": origin_of(instance.locs)}


def from_origin(instance: Instance) -> Instance:
    """The same problem, its numbers counted from `origins_of` it, so that `as_float32` keeps them."""
    return arrays.from_origin(SCHEMA, instance, origins_of(instance))


def pad(instance: Instance, num_nodes: int, num_agents: int) -> Instance:
    """Add empty requests and vehicles at the end, up to the given sizes; works on batches and under `vmap`.

    Padded nodes lie at the depot with demand 0 and without deadline, padded vehicles have capacity 0. A larger instance
    is a ValueError.
    """
    if num_nodes < instance.num_nodes or num_agents < instance.num_agents:
        raise ValueError(
            f"an instance of {instance.num_nodes} nodes and {instance.num_agents} vehicles does not fit into "
            f"num_nodes {num_nodes}, num_agents {num_agents}; make the environment with at least its sizes"
        )
    return arrays.pad_arrays(SCHEMA, instance, {"nodes": num_nodes + 1, "vehicles": num_agents})


def void_nodes_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The instance with its first `count` nodes (`i32[]`, even), the others padded as by `pad`; traceable."""
    return arrays.void_arrays(SCHEMA, instance, "nodes", count + 1)


def void_vehicles_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The instance with its first `count` vehicles (`i32[]`), the others padded as by `pad`; traceable."""
    return arrays.void_arrays(SCHEMA, instance, "vehicles", count)


def stack(instances: Sequence[Instance]) -> Instance:
    """A batch `[E]` of problems of any sizes, padded to the largest, as NumPy arrays.

    If one has streets, straight ways of the others are written as matrices, too.
    """
    if any(instance.travel_distance is not None for instance in instances):
        streets = [with_streets(instance) for instance in instances]
        instances = [instance.replace(travel_distance=street_lengths(instance)) for instance in streets]
    elif any(instance.travel_time is not None for instance in instances):
        instances = [with_streets(instance) for instance in instances]
    return arrays.stack_arrays(SCHEMA, instances)


def end_of(node: int) -> str:
    """Which end of a request a customer's node is."""
    return "pickup" if node % 2 else "drop-off"


def name_of(node: int) -> str:
    """A node in words, by the number of its request."""
    return f"{end_of(node)} {(node + 1) // 2}" if node else "depot"


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """The Euclidean distance of places, `f32[..., 2]` and `f32[..., 2]` to `f32[...]`."""
    gap = a - b
    return jnp.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)


def prohibitive(instance: Instance) -> Any:
    """`f[...]`, a cost of an unvisited node that is above the length of every plan; leading axes make a batch."""
    if instance.travel_time is not None:
        longest = street_lengths(instance).max(axis=(-2, -1))
        return (longest + (longest == 0)) * (instance.num_nodes + instance.num_agents)
    offset = instance.locs - instance.locs[..., :1, :]
    reach = (offset * offset).sum(axis=-1).max(axis=-1) ** 0.5
    return 2.0 * (reach + (reach == 0)) * (instance.num_nodes + instance.num_agents)


class Way(NamedTuple):
    """Ways, of any shape: their length, and how long they take."""

    length: jax.Array
    time: jax.Array


def ways_from(instance: Instance, node: jax.Array, place: jax.Array) -> Way:
    """From a node (`i32[]`), which is at `place`, to each, `[N+1]`."""
    if instance.travel_time is None:
        return straight(instance, distance(instance.locs, place))
    length = rows_at(street_lengths(instance), node)
    return Way(length, as_counted(rows_at(instance.travel_time, node), instance.round_travel_time))


def times_to(instance: Instance, node: jax.Array) -> jax.Array:
    """`f32[N+1]`, from each node to one (`i32[]`)."""
    if instance.travel_time is None:
        return travel_time(instance, distance(instance.locs, rows_at(instance.locs, node)))
    return as_counted(rows_at(instance.travel_time.T, node), instance.round_travel_time)


def times_to_next(instance: Instance) -> jax.Array:
    """`f32[N+1]`, from each node to the one with the next number; of a pickup that is its drop-off."""
    if instance.travel_time is None:
        return travel_time(instance, distance(instance.locs, jnp.roll(instance.locs, -1, axis=0)))
    return as_counted(jnp.diagonal(jnp.roll(instance.travel_time, -1, axis=1)), instance.round_travel_time)


def all_ways(instance: Instance) -> Way:
    """From each node of one instance to each, `[N+1, N+1]`."""
    if instance.travel_time is None:
        return straight(instance, distance(instance.locs[:, None], instance.locs))
    return Way(street_lengths(instance), as_counted(instance.travel_time, instance.round_travel_time))


def straight(instance: Instance, length: jax.Array) -> Way:
    """Ways of such a length (any shape) in an instance without streets."""
    return Way(length, travel_time(instance, length))


def travel_time(instance: Instance, length: jax.Array) -> jax.Array:
    """Time to drive a `length` (any shape) in one instance without streets."""
    return as_counted(length / instance.vehicle_speed, instance.round_travel_time)


def street_lengths(instance: Instance) -> Any:
    """`f[..., N+1, N+1]`, of an instance, or a batch, with streets."""
    if instance.travel_distance is not None:
        return instance.travel_distance
    return instance.travel_time * instance.vehicle_speed[..., None, None]


def with_streets(instance: Instance) -> Instance:
    """The same problem, its straight ways as a matrix where it has none."""
    if instance.travel_time is not None:
        return instance
    gap = instance.locs[:, None] - instance.locs
    return instance.replace(travel_time=(gap * gap).sum(axis=-1) ** 0.5 / instance.vehicle_speed)


def as_counted(time: jax.Array, is_rounded: jax.Array) -> jax.Array:
    """Travel times as instances count them: rounded to whole numbers, half to even, where they say so."""
    return jnp.where(is_rounded, jnp.round(time), time)


FILES = arrays.ArrayFiles("jaxvrp-darp-1", "an instance", "jaxvrp.envs.darp", SCHEMA, Instance, check)

save = FILES.save
"""Write an instance, or a batch, as `.npz`: `save(path, instance)`; see `jaxvrp.io.arrays.ArrayFiles`."""

load = FILES.load
"""Read what `save` wrote, as NumPy arrays: `load(path)`; see `jaxvrp.io.arrays.ArrayFiles`."""
