"""The travelling salesman problem with drone as data: nodes, times, limits, and what follows from them.

Node 0 is the depot, the others are customers. Times follow from coordinates, or are given as matrices.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.io import arrays
from jaxvrp.io.arrays import ArrayField, refuse_where, schema_of
from jaxvrp.io.limits import LEAST
from jaxvrp.io.origin import origin_of
from jaxvrp.rows import rows_at

FORMAT = "jaxvrp-tsp_drone-1"

LATENESS = 1e-5
"""Share by which times may exceed limits: sums of `float32` are rounded."""


class Instance(struct.PyTreeNode):
    """One problem with n nodes, the depot included. Leading axes make it a batch.

    Arrays are NumPy (`float64`, from `make_instance` and files) or JAX (`float32`, from the generator and in an
    environment's state). Coordinates in map units, times in the instance's own unit.

    Attributes:
        locs: `f[n, 2]`, the depot first. With matrices they are for pictures and policies only.
        exists: `bool[n]`, the first nodes; the others are padding.
        no_fly: `bool[n]`, customers that the drone may not serve.
        truck_pace: `f[]`, the truck's time for a map unit.
        drone_pace: `f[]`, the drone's; the quotient of the two is the `alpha` of the literature.
        max_flight: `f[]`, most that both legs of a sortie may come to, waiting apart: map units, or the drone's time
            where that is given as a matrix; inf for no limit.
        launch_time: `f[]`, what each launch adds to both clocks.
        recovery_time: `f[]`, what each meeting adds to both clocks.
        truck_time: `f[n, n]`, from row to column; None: distance times pace.
        drone_time: `f[n, n]`, likewise; None exactly where `truck_time` is.

    The other attributes make it a problem of tandems with time windows (`has_windows`; Kuo et al. 2022). All of them
    are None in the problem of one truck and its drone. As many tandems as needed leave the depot, each for one tour;
    money is minimized. Then there are no matrices, and `max_flight` is inf.

    Attributes:
        demand: `f[n]`, the load of each customer; what the drone cannot carry is in `no_fly`.
        opens: `f[n]`, service begins no earlier; at the depot, where all tandems leave then at the earliest.
        closes: `f[n]`, service begins no later; at the depot, when truck and drone are back at the latest.
        service: `f[n]`, how long service takes.
        truck_capacity: `f[]`, most that truck and drone serve in a tour, together.
        drone_capacity: `f[]`, most that the drone carries.
        endurance: `f[]`, most time of a sortie: both legs, and service at its customer.
        truck_price: `f[]`, of a map unit that the truck drives.
        drone_price: `f[]`, of a map unit that the drone flies alone.
    """

    locs: Any
    exists: Any
    no_fly: Any
    truck_pace: Any
    drone_pace: Any
    max_flight: Any
    launch_time: Any
    recovery_time: Any
    truck_time: Any = None
    drone_time: Any = None
    demand: Any = None
    opens: Any = None
    closes: Any = None
    service: Any = None
    truck_capacity: Any = None
    drone_capacity: Any = None
    endurance: Any = None
    truck_price: Any = None
    drone_price: Any = None

    @property
    def num_nodes(self) -> int:
        """n, the depot and padding included."""
        return self.exists.shape[-1]

    @property
    def has_windows(self) -> bool:
        """Whether it is a problem of tandems with time windows."""
        return self.demand is not None


OF_NODES = {"demand": None, "opens": "clock", "closes": "clock", "service": None}
OF_TANDEMS = ("truck_capacity", "drone_capacity", "endurance", "truck_price", "drone_price")
"""Fields of problems with time windows; those of nodes with their origin."""


SCHEMA: arrays.Schema = {
    "locs": ArrayField("nodes", (2,), padding="first row", origin="map"),
    **dict.fromkeys(("exists", "no_fly"), ArrayField("nodes", kind=bool, padding=False)),
    **dict.fromkeys(("truck_pace", "drone_pace", "max_flight", "launch_time", "recovery_time"), ArrayField()),
    **dict.fromkeys(("truck_time", "drone_time"), ArrayField("nodes", ("nodes",), optional=True)),
    **{name: ArrayField("nodes", optional=True, origin=clock) for name, clock in OF_NODES.items()},
    **dict.fromkeys(OF_TANDEMS, ArrayField(optional=True)),
}

WORDS = arrays.FileWords(
    content="an instance", entry="instance", remedy="give a file that jaxvrp.envs.tsp_drone.save wrote"
)


def make_instance(
    locs: ArrayLike,
    *,
    truck_pace: float = 1.0,
    drone_pace: float = 0.5,
    max_flight: float = np.inf,
    no_fly: ArrayLike | None = None,
    launch_time: float = 0.0,
    recovery_time: float = 0.0,
    truck_time: ArrayLike | None = None,
    drone_time: ArrayLike | None = None,
    **tandems: ArrayLike,
) -> Instance:
    """A checked problem of one's own, as NumPy arrays.

    Arguments are the attributes of `Instance`, in its shapes; `tandems` are all those of problems with time windows, or
    none. Without `no_fly` the drone may serve all customers that it can carry.

    Raises:
        ValueError: what is wrong, at which node, and the remedy; see `check`.
    """
    given = {name: value for name, value in locals().items() if name != "tandems" and value is not None} | tandems
    if unknown := given.keys() - SCHEMA.keys():
        raise ValueError(f"{min(unknown)} is no field of an instance; the fields are {', '.join(SCHEMA)}")
    count = np.shape(locs)[0] if np.ndim(locs) else 0
    values = arrays.number_arrays({"exists": np.ones(count), "no_fly": np.zeros(count), **given}, "an instance")
    if not np.isin(values["no_fly"], (0.0, 1.0)).all():
        raise ValueError("no_fly holds something else than 0 and 1; give 1 for what the drone may not serve")
    if "demand" in values and values["demand"].shape == values["no_fly"].shape and "drone_capacity" in values:
        values["no_fly"] = values["no_fly"] + (values["demand"] > values["drone_capacity"]) > 0
    schema = {name: SCHEMA[name] for name in values}
    instance = Instance(**arrays.stored_arrays(schema, values, "has a fraction"))
    check(instance)
    return instance


def check_nodes(locs: np.ndarray, exists: np.ndarray) -> None:
    """Check places (`f[n, 2]`), and that the first nodes exist (`bool[n]`).

    Raises:
        ValueError: one line with what is wrong, and the remedy.
    """
    refuse_where(~np.isfinite(locs).all(axis=1), "locs of node {} is not finite; give two coordinates")
    if not exists[0] or (np.diff(exists.astype(int)) > 0).any():
        raise ValueError("exists does not say that the first nodes exist; padding comes last, and never is the depot")


def check(instance: Instance) -> None:
    """Check one problem (no leading axes); padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    count = np.size(instance.exists)
    if count < 1:
        raise ValueError("the instance has no nodes; give the depot and customers")
    if (instance.truck_time is None) != (instance.drone_time is None):
        raise ValueError("of truck_time and drone_time one is missing; give both, or none")
    missing = [name for name in (*OF_NODES, *OF_TANDEMS) if getattr(instance, name) is None]
    if missing and len(missing) < len((*OF_NODES, *OF_TANDEMS)):
        raise ValueError(f"{missing[0]} is missing; of the fields of time windows and tandems give all, or none")
    arrays.check_shapes(schema_of(SCHEMA, instance), instance, {"nodes": count})
    instance = jax.tree.map(np.asarray, instance)
    check_nodes(instance.locs, instance.exists)
    _check_numbers(instance)
    for name in () if instance.truck_time is None else ("truck_time", "drone_time"):
        matrix = getattr(instance, name)
        wrong = ~(np.isfinite(matrix) & (matrix >= 0)).all(axis=1)
        refuse_where(wrong, f"{name} from node {{}} is not 0 or more everywhere; give times")
        refuse_where(np.diagonal(matrix) != 0, f"{name} from node {{}} to itself is not 0; make it so")
    if instance.has_windows:
        _check_tandems(instance)


def _check_numbers(instance: Instance) -> None:
    paces, limits = ("truck_pace", "drone_pace"), ("truck_pace", "drone_pace", "max_flight")
    for names, wanted, holds in (
        (limits, f"> 0, at least {LEAST:g}", lambda value: value >= LEAST),
        (("launch_time", "recovery_time"), "0 or more", lambda value: 0 <= value < np.inf),
        (paces, "finite", np.isfinite),
    ):
        for name in names:
            if not holds(getattr(instance, name)):
                raise ValueError(f"{name} is {getattr(instance, name)}; it must be {wanted}")


def _check_tandems(instance: Instance) -> None:
    """Check the fields of a problem with time windows, and that a tour can serve each customer alone."""
    if instance.truck_time is not None or np.isfinite(instance.max_flight):
        raise ValueError("time windows need coordinates and an endurance; give neither matrices nor a max_flight")
    refuse_where(~np.isfinite(instance.opens), "opens of node {} is not finite; give that of the depot for none")
    for name in ("demand", "service"):
        values = getattr(instance, name)
        refuse_where(~(np.isfinite(values) & (values >= 0)), f"{name} of node {{}} is not 0 or more; give 0 for none")
        if values[0] != 0:
            raise ValueError(f"{name} of the depot (node 0) is {values[0]:g}; it must be 0")
    if not np.isfinite(instance.closes[0]):
        raise ValueError("closes of the depot (node 0) is not finite; give the horizon")
    refuse_where(~(instance.closes >= instance.opens), "closes of node {} lies before opens; make it later")
    for name in OF_TANDEMS:
        value, is_limit = getattr(instance, name), not name.endswith("price")
        if not (value >= 0 and (is_limit or np.isfinite(value))):
            raise ValueError(f"{name} is {value}; it must be 0 or more{'' if is_limit else ', and finite'}")
    customers = instance.exists & (np.arange(instance.exists.size) > 0)
    too_heavy = customers & ~instance.no_fly & (instance.demand > instance.drone_capacity)
    refuse_where(too_heavy, "demand of node {} exceeds drone_capacity; set its no_fly")
    refuse_where(customers & (instance.demand > instance.truck_capacity), "demand of node {} exceeds truck_capacity")
    way = instance.truck_pace * np.linalg.norm(instance.locs - instance.locs[0], axis=1)
    opens, closes = instance.opens - instance.opens[0], (instance.closes - instance.opens[0]) * (1 + LATENESS)
    begin = np.maximum(way, opens)
    late = (begin > closes) | (begin + instance.service + way > closes[0])
    refuse_where(customers & late, "node {} cannot be reached within its window, or the depot from there; widen it")


def as_float32(instance: Instance) -> Instance:
    """The same problem as JAX arrays of the dtypes that environments compute with."""
    return arrays.computed_arrays(schema_of(SCHEMA, instance), instance)


def origins_of(instance: Instance) -> dict[str, Any]:
    """Where the clock (`f64[]`, when the depot opens) and the map (`f64[2]`) of one problem begin.

    0 on the map where its numbers are near that; see `jaxvrp.io.origin`.
    """
    clock = np.asarray(instance.opens[0] if instance.has_windows else 0.0, np.float64)
    return {"clock": clock, "map": origin_of(np.asarray(instance.locs)[np.asarray(instance.exists)])}


def from_origin(instance: Instance) -> Instance:
    """The same problem, its numbers counted from `origins_of` it, so that `as_float32` keeps them."""
    return arrays.from_origin(schema_of(SCHEMA, instance), instance, origins_of(instance))


def pad(instance: Instance, num_nodes: int) -> Instance:
    """Add nodes that do not exist at the end, up to `num_nodes`; works on batches and under `vmap`.

    Raises:
        ValueError: the instance is larger.
    """
    if num_nodes < instance.num_nodes:
        raise ValueError(
            f"an instance of {instance.num_nodes} nodes does not fit into num_nodes {num_nodes}; make the environment "
            "with at least its size"
        )
    return arrays.pad_arrays(schema_of(SCHEMA, instance), instance, {"nodes": num_nodes})


def void_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The instance with its first `count` nodes (`i32[]`, at least 1), the others padded as by `pad`; traceable."""
    exists = jnp.arange(instance.num_nodes, dtype=jnp.int32) < count
    both = exists[:, None] & exists
    matrices = {
        name: jnp.where(both, getattr(instance, name), 0.0)
        for name in ("truck_time", "drone_time")
        if getattr(instance, name) is not None
    }
    of_nodes = {name: jnp.where(exists, getattr(instance, name), 0.0) for name in OF_NODES if instance.has_windows}
    return instance.replace(
        locs=jnp.where(exists[:, None], instance.locs, instance.locs[0]),
        exists=instance.exists & exists,
        no_fly=instance.no_fly & exists,
        **matrices,
        **of_nodes,
    )


def stack(instances: Sequence[Instance]) -> Instance:
    """A batch `[E]` of problems of any sizes, padded to the largest, as NumPy arrays.

    Raises:
        ValueError: some have matrices of times, or time windows, and others have none.
    """
    for what, field in (("matrices of times", "truck_time"), ("time windows", "demand")):
        if len({getattr(instance, field) is None for instance in instances}) > 1:
            raise ValueError(f"some instances have {what}, others have none; stack those of one kind")
    return arrays.stack_arrays(schema_of(SCHEMA, instances[0]), instances)


def node_indices(instance: Instance) -> jax.Array:
    """`i32[n]`, of all nodes."""
    return jnp.arange(instance.num_nodes, dtype=jnp.int32)


def distance(instance: Instance, start: Any, end: Any) -> jax.Array:
    """Euclidean distance, `f32[...]`, from nodes `start` to nodes `end`: whatever indexes nodes, broadcast."""
    gap = _places(instance, end) - _places(instance, start)
    return jnp.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)


def _places(instance: Instance, nodes: Any) -> jax.Array:
    """`f32[..., 2]`, of nodes; a Python number is known before run time."""
    return instance.locs[nodes] if isinstance(nodes, int) else rows_at(instance.locs, nodes)


def truck_time(instance: Instance, start: Any, end: Any) -> jax.Array:
    """The truck's time from `start` to `end`, as `distance`."""
    if instance.truck_time is not None:
        return instance.truck_time[start, end]
    return instance.truck_pace * distance(instance, start, end)


def drone_time(instance: Instance, start: Any, end: Any) -> jax.Array:
    """The drone's time from `start` to `end`, as `distance`."""
    if instance.drone_time is not None:
        return instance.drone_time[start, end]
    return instance.drone_pace * distance(instance, start, end)


def truck_distance(instance: Instance, start: Any, end: Any) -> jax.Array:
    """What the truck drives, in map units; where times are given as matrices, in time."""
    return distance(instance, start, end) if instance.truck_time is None else truck_time(instance, start, end)


def drone_distance(instance: Instance, start: Any, end: Any) -> jax.Array:
    """What counts against `max_flight`: map units; where times are given as matrices, the drone's time."""
    return distance(instance, start, end) if instance.drone_time is None else drone_time(instance, start, end)


class Figures(struct.PyTreeNode):
    """What follows from one instance and is needed at every step."""

    extent: jax.Array  # `f32[]`, the largest |x - x0| or |y - y0| of a node, from the depot
    horizon: jax.Array  # `f32[]`, the truck's time from the depot to the node that is farthest for it
    flight_unit: jax.Array  # `f32[]`, the largest drone distance from the depot to a node
    pace_ratio: jax.Array  # `f32[]`, the drone's longest time from the depot, as a share of the truck's
    num_customers: jax.Array  # `f32[]`, at least 1
    nearest: jax.Array  # `f32[n]`, the least drone distance from a node to another; inf if there is none
    truck_home: jax.Array  # `f32[n]`, the truck's time from each node to the depot
    drone_home: jax.Array  # `f32[n]`, the drone's


def figures_of(instance: Instance) -> Figures:
    """What follows from an instance (JAX arrays, padded); computed once, before it is played."""
    nodes = node_indices(instance)
    exists = instance.exists

    def largest(values: jax.Array) -> jax.Array:
        return arrays.unit_of(jnp.where(exists, values, 0.0).max())

    horizon = largest(truck_time(instance, 0, nodes))
    is_other = exists & (nodes[:, None] != nodes)
    between = drone_distance(instance, nodes[:, None], nodes)
    return Figures(
        extent=largest(jnp.abs(instance.locs - instance.locs[0]).max(axis=1)),
        horizon=horizon,
        flight_unit=largest(drone_distance(instance, 0, nodes)),
        pace_ratio=largest(drone_time(instance, 0, nodes)) / horizon,
        num_customers=jnp.maximum(exists[1:].sum(dtype=jnp.float32), 1.0),
        nearest=jnp.where(is_other, between, jnp.inf).min(axis=1),
        truck_home=truck_time(instance, nodes, 0),
        drone_home=drone_time(instance, nodes, 0),
    )


def save(path: str | os.PathLike, instance: Instance) -> None:
    """Write an instance, or a batch, as `.npz`; an exact round trip with `load`. Complete, or not at all."""
    arrays.save_arrays(path, FORMAT, schema_of(SCHEMA, instance), instance)


def load(path: str | os.PathLike) -> Instance:
    """Read what `save` wrote, as NumPy arrays.

    Raises:
        ValueError: the file is damaged, or something else; one line that names it and the remedy.
        OSError: it cannot be read.
    """
    return arrays.load_arrays(path, FORMAT, SCHEMA, Instance, check, batch_field="exists", words=WORDS)
