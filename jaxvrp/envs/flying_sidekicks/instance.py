"""A truck with several drones as data: nodes, times, limits, and what a flight takes of a drone's endurance.

The problem of Murray & Raj (2020). Node 0 is the depot, the others are customers.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_and_drone.instance import check_nodes
from jaxvrp.io import arrays
from jaxvrp.io.arrays import ArrayField, refuse_where

LATENESS = 1e-5
"""Share by which flights may exceed the endurance: sums of `float32` are rounded."""


class Instance(struct.PyTreeNode):
    """One problem with n nodes, the depot included, and D drones. Leading axes make it a batch.

    Arrays are NumPy (`float64`, from `make_instance` and files) or JAX (`float32`, from the generator and in an
    environment's state). Times in the instance's unit; all matrices are from row to column, and need not be symmetric.

    Attributes:
        locs: `f[n, 2]`, the depot first; for pictures and policies only.
        exists: `bool[n]`, the first nodes; the others are padding.
        service: `f[n]`, how long the truck serves each customer; 0 at the depot.
        truck_time: `f[n, n]`.
        no_fly: `bool[D, n]`, customers that a drone may not serve.
        drone_time: `f[D, n, n]`.
        drone_service: `f[D]`, how long a drone serves a customer.
        launch_time: `f[D]`, that the truck takes to launch a drone.
        recovery_time: `f[D]`, that it takes to recover one.
        endurance: `f[D]`, of a flight, seconds of hovering; inf for no limit.
        drain_out: `f[D, n, n]`, what the way from a stop (row) to a customer takes of it, and service there.
        drain_back: `f[D, n, n]`, what the way from a customer to a stop takes. A drone that hovers takes 1 a second.
    """

    locs: Any
    exists: Any
    service: Any
    truck_time: Any
    no_fly: Any
    drone_time: Any
    drone_service: Any
    launch_time: Any
    recovery_time: Any
    endurance: Any
    drain_out: Any
    drain_back: Any

    @property
    def num_nodes(self) -> int:
        """n, the depot and padding included."""
        return self.exists.shape[-1]

    @property
    def num_drones(self) -> int:
        """D."""
        return self.endurance.shape[-1]


OF_DRONES = ("drone_service", "launch_time", "recovery_time", "endurance")
MATRICES = ("drone_time", "drain_out", "drain_back")
OPTIONAL = ("service", "drain_out", "drain_back")

SCHEMA: arrays.Schema = {
    "locs": ArrayField("nodes", (2,), padding="first row"),
    "exists": ArrayField("nodes", kind=bool, padding=False),
    "service": ArrayField("nodes"),
    "truck_time": ArrayField("nodes", ("nodes",)),
    # Drones that are added may not serve any customer.
    "no_fly": ArrayField("drones", ("nodes",), kind=bool, padding=True),
    "drone_time": ArrayField("drones", ("nodes", "nodes")),
    **dict.fromkeys(OF_DRONES, ArrayField("drones")),
    **dict.fromkeys(MATRICES[1:], ArrayField("drones", ("nodes", "nodes"))),
}


def make_instance(
    locs: ArrayLike,
    *,
    truck_time: ArrayLike,
    drone_time: ArrayLike,
    endurance: ArrayLike,
    service: ArrayLike | None = None,
    drone_service: ArrayLike = 0.0,
    launch_time: ArrayLike = 0.0,
    recovery_time: ArrayLike = 0.0,
    no_fly: ArrayLike = False,
    drain_out: ArrayLike | None = None,
    drain_back: ArrayLike | None = None,
) -> Instance:
    """A checked problem of one's own, as NumPy arrays.

    Arguments are the attributes of `Instance`, or what broadcasts to their shapes; the number of drones is that of
    `endurance`. By default a flight takes as much of the endurance as its time and service: it is a limit of time then.

    Raises:
        ValueError: what is wrong, at which node, and the remedy; see `check`.
    """
    count, drones = np.shape(locs)[0] if np.ndim(locs) else 0, np.size(endurance)
    arguments = {name: value for name, value in locals().items() if name in SCHEMA}
    given = {name: value for name, value in arguments.items() if value is not None or name not in OPTIONAL}
    values = arrays.number_arrays({"exists": np.ones(count), "service": np.zeros(count), **given}, "an instance")
    counts = {"nodes": count, "drones": drones}
    for name in (name for name in (*OF_DRONES, *MATRICES, "no_fly") if name in values):
        shape = tuple(counts[axis] for axis in SCHEMA[name].axes if isinstance(axis, str))
        try:
            values[name] = np.broadcast_to(values[name], shape)
        except ValueError:
            raise ValueError(f"{name} has shape {values[name].shape}; it needs {shape}") from None
    service_time = values["drone_service"][:, None, None]
    values.setdefault("drain_out", values["drone_time"] + service_time)
    values.setdefault("drain_back", values["drone_time"])
    instance = Instance(**arrays.stored_arrays(SCHEMA, values, "holds something else than 0 and 1"))
    check(instance)
    return instance


def check(instance: Instance) -> None:
    """Check one problem (no leading axes); padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    count, drones = np.size(instance.exists), np.size(instance.endurance)
    if count < 1 or drones < 1:
        raise ValueError("the instance has no nodes, or no drones; give the depot and customers, and an endurance")
    arrays.check_shapes(SCHEMA, instance, {"nodes": count, "drones": drones})
    instance = jax.tree.map(np.asarray, instance)
    check_nodes(instance.locs, instance.exists)
    if instance.service[0] != 0:
        raise ValueError(f"service of the depot (node 0) is {instance.service[0]:g}; it must be 0")
    for name in ("service", "truck_time", *OF_DRONES, *MATRICES):
        values = getattr(instance, name)
        wrong = ~((values >= 0) & (np.isfinite(values) | (name == "endurance")))
        if wrong.any():
            raise ValueError(f"{name} holds {values[wrong][0]:g}; it must be 0 or more, and finite")
    refuse_where(np.diagonal(instance.truck_time) != 0, "truck_time from node {} to itself is not 0; make it so")


def as_float32(instance: Instance) -> Instance:
    """The same problem as JAX arrays of the dtypes that environments compute with."""
    return arrays.computed_arrays(SCHEMA, instance)


def pad(instance: Instance, num_nodes: int, num_drones: int) -> Instance:
    """Add nodes that do not exist, and drones that may not serve; works on batches and under `vmap`.

    Raises:
        ValueError: the instance is larger.
    """
    for name, have, room in (
        ("num_nodes", instance.num_nodes, num_nodes),
        ("num_drones", instance.num_drones, num_drones),
    ):
        if have > room:
            raise ValueError(f"an instance of {have} does not fit into {name} {room}; make the environment larger")
    return arrays.pad_arrays(SCHEMA, instance, {"nodes": num_nodes, "drones": num_drones})


def trim(instance: Instance) -> Instance:
    """The instance without the nodes that do not exist, as NumPy arrays."""
    return arrays.cut_arrays(SCHEMA, instance, {"nodes": int(np.asarray(instance.exists).sum())})


FILES = arrays.ArrayFiles(
    "jaxvrp-flying_sidekicks-1", "an instance", "jaxvrp.envs.flying_sidekicks", SCHEMA, Instance, check
)

save = FILES.save
"""Write an instance, or a batch, as `.npz`: `save(path, instance)`; see `jaxvrp.io.arrays.ArrayFiles`."""

load = FILES.load
"""Read what `save` wrote, as NumPy arrays: `load(path)`; see `jaxvrp.io.arrays.ArrayFiles`."""
