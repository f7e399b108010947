"""A truck and its drone as data: nodes, times, limits; what all problems of them have.

Node 0 is the depot, the others are customers. Times follow from coordinates, or are given as matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.io import arrays
from jaxvrp.io.arrays import ArrayField, refuse_where
from jaxvrp.io.limits import LEAST
from jaxvrp.io.problems.origin import origin_of
from jaxvrp.io.problems.problem_files import UnknownFormatError

LATENESS = 1e-5
"""Share by which times and flights may exceed limits: sums of `float32` are rounded."""

NODES: dict[str, ArrayField] = {
    "locs": ArrayField("nodes", (2,), padding="first row", origin="map"),
    **dict.fromkeys(("exists", "no_fly"), ArrayField("nodes", kind=bool, padding=False)),
    **dict.fromkeys(("truck_pace", "drone_pace", "max_flight", "launch_time", "recovery_time"), ArrayField()),
    **dict.fromkeys(("truck_time", "drone_time"), ArrayField("nodes", ("nodes",), optional=True)),
    **dict.fromkeys(("depot_launch_time", "max_sortie"), ArrayField(optional=True)),
}

OPTIONAL = {
    "truck_time": "matrices of times",
    "depot_launch_time": "a depot_launch_time",
    "max_sortie": "a max_sortie",
}
"""What a problem may be without, in words."""

WINDOWS: dict[str, ArrayField] = {
    "demand": ArrayField("nodes"),
    **dict.fromkeys(("opens", "closes"), ArrayField("nodes", origin="clock")),
    "service": ArrayField("nodes"),
    **dict.fromkeys(("truck_capacity", "drone_capacity", "endurance", "truck_price", "drone_price"), ArrayField()),
}
"""What problems with time windows have beside these; a file has all of them, or none."""

Kind = TypeVar("Kind", bound="Instance")


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
        launch_time: `f[]`, what each launch adds to both clocks, but for `depot_launch_time`.
        recovery_time: `f[]`, what each meeting adds to both clocks.
        truck_time: `f[n, n]`, from row to column; None: distance times pace.
        drone_time: `f[n, n]`, likewise; None exactly where `truck_time` is.
        depot_launch_time: `f[]`, what a launch at the depot adds; None: `launch_time`.
        max_sortie: `f[]`, most time from the end of a launch to that of the recovery, waiting for the truck included;
            None: no limit.
    """

    schema: ClassVar[arrays.Schema] = NODES

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
    depot_launch_time: Any = None
    max_sortie: Any = None

    @property
    def num_nodes(self) -> int:
        """n, the depot and padding included."""
        return self.exists.shape[-1]

    @property
    def departure(self) -> Any:
        """`f[]`, when a tour begins at the depot."""
        return np.float32(0.0)


def make_of_kind(kind: type[Kind], given: Mapping[str, ArrayLike | None]) -> Kind:
    """A problem from its fields, as NumPy arrays; what is None is as if it were not given. It is not checked yet.

    Raises:
        ValueError: a field that is unknown, missing, or holds no numbers.
    """
    present = {name: value for name, value in given.items() if value is not None}
    if unknown := present.keys() - kind.schema.keys():
        raise ValueError(f"{min(unknown)} is no field of an instance; the fields are {', '.join(kind.schema)}")
    count = np.shape(present["locs"])[0] if np.ndim(present["locs"]) else 0
    values = arrays.number_arrays({"exists": np.ones(count), "no_fly": np.zeros(count), **present}, "an instance")
    if not np.isin(values["no_fly"], (0.0, 1.0)).all():
        raise ValueError("no_fly holds something else than 0 and 1; give 1 for what the drone may not serve")
    needed = [name for name, field in kind.schema.items() if not field.optional]
    if missing := [name for name in needed if name not in values]:
        raise ValueError(f"{missing[0]} is missing; an instance has {', '.join(needed)}")
    return kind(**arrays.stored_arrays(kind.schema, values, "has a fraction"))


def check_nodes(locs: np.ndarray, exists: np.ndarray) -> None:
    """Check places (`f[n, 2]`), and that the first nodes exist (`bool[n]`).

    Raises:
        ValueError: one line with what is wrong, and the remedy.
    """
    refuse_where(~np.isfinite(locs).all(axis=1), "locs of node {} is not finite; give two coordinates")
    if not exists[0] or (np.diff(exists.astype(int)) > 0).any():
        raise ValueError("exists does not say that the first nodes exist; padding comes last, and never is the depot")


def checked(instance: Kind) -> Kind:
    """One problem (no leading axes) as NumPy arrays, checked; padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    count = np.size(instance.exists)
    if count < 1:
        raise ValueError("the instance has no nodes; give the depot and customers")
    if (instance.truck_time is None) != (instance.drone_time is None):
        raise ValueError("of truck_time and drone_time one is missing; give both, or none")
    arrays.check_shapes(instance.schema, instance, {"nodes": count})
    instance = jax.tree.map(np.asarray, instance)
    check_nodes(instance.locs, instance.exists)
    _check_numbers(instance)
    for name in () if instance.truck_time is None else ("truck_time", "drone_time"):
        matrix = getattr(instance, name)
        wrong = ~(np.isfinite(matrix) & (matrix >= 0)).all(axis=1)
        refuse_where(wrong, f"{name} from node {{}} is not 0 or more everywhere; give times")
        refuse_where(np.diagonal(matrix) != 0, f"{name} from node {{}} to itself is not 0; make it so")
    return instance


def _check_numbers(instance: Instance) -> None:
    paces, limits = ("truck_pace", "drone_pace"), ("truck_pace", "drone_pace", "max_flight", "max_sortie")
    durations = "launch_time", "recovery_time", "depot_launch_time"
    for names, wanted, holds in (
        (limits, f"> 0, at least {LEAST:g}", lambda value: value >= LEAST),
        (durations, "0 or more", lambda value: 0 <= value < np.inf),
        (paces, "finite", np.isfinite),
    ):
        for name in names:
            value = getattr(instance, name)
            if value is not None and not holds(value):
                raise ValueError(f"{name} is {value}; it must be {wanted}")


def as_float32(instance: Kind) -> Kind:
    """The same problem as JAX arrays of the dtypes that environments compute with."""
    return arrays.computed_arrays(instance.schema, instance)


def origins_of(instance: Instance) -> dict[str, Any]:
    """Where the clock (`f64[]`, when a tour begins) and the map (`f64[2]`) of one problem begin.

    0 on the map where its numbers are near that; see `jaxvrp.io.problems.origin`.
    """
    clock = np.asarray(instance.departure, np.float64)
    return {"clock": clock, "map": origin_of(np.asarray(instance.locs)[np.asarray(instance.exists)])}


def from_origin(instance: Kind) -> Kind:
    """The same problem, its numbers counted from `origins_of` it, so that `as_float32` keeps them."""
    return arrays.from_origin(instance.schema, instance, origins_of(instance))


def pad(instance: Kind, num_nodes: int) -> Kind:
    """Add nodes that do not exist at the end, up to `num_nodes`; works on batches and under `vmap`.

    Raises:
        ValueError: the instance is larger.
    """
    if num_nodes < instance.num_nodes:
        raise ValueError(
            f"an instance of {instance.num_nodes} nodes does not fit into num_nodes {num_nodes}; make the environment "
            "with at least its size"
        )
    return arrays.pad_arrays(instance.schema, instance, {"nodes": num_nodes})


def void_beyond(instance: Kind, count: jax.Array) -> Kind:
    """The instance with its first `count` nodes (`i32[]`, at least 1), the others padded as by `pad`; traceable."""
    return arrays.void_arrays(instance.schema, instance, "nodes", count)


def stack(instances: Sequence[Kind]) -> Kind:
    """A batch `[E]` of problems of any sizes, padded to the largest, as NumPy arrays.

    Raises:
        ValueError: some have what others have not, such as matrices of times; or they are of several kinds.
    """
    if len({type(instance) for instance in instances}) > 1:
        raise ValueError("some instances have time windows, others have none; stack those of one kind")
    for name, words in OPTIONAL.items():
        if len({getattr(instance, name) is None for instance in instances}) > 1:
            raise ValueError(f"some instances have {words}, others have none; stack those of one kind")
    return arrays.stack_arrays(instances[0].schema, instances)


def files_of(kind: type[Kind], check: Callable[[Kind], None], package: str) -> arrays.ArrayFiles[Kind]:
    """Files of problems of one kind; those of the other one, with or without time windows, are refused."""
    schema = NODES | {name: dataclasses.replace(field, optional=True) for name, field in WINDOWS.items()}

    def build(**values: np.ndarray) -> Kind:
        has_windows, wanted = not values.keys().isdisjoint(WINDOWS), "demand" in kind.schema
        if has_windows != wanted:
            env = "tsp_drone" if wanted else "truck_drone_tours"
            raise UnknownFormatError(f"has {'no ' * wanted}time windows; make '{env}' to solve it")
        return kind(**values)

    return arrays.ArrayFiles("jaxvrp-tsp_drone-1", "an instance", package, schema, build, check)
