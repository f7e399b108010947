"""Tandems with time windows as data (Kuo et al. 2022): nodes, windows, limits, prices."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_and_drone import instance as shared
from jaxvrp.envs.truck_and_drone.instance import LATENESS, NODES, WINDOWS, checked, files_of, make_of_kind
from jaxvrp.io import arrays
from jaxvrp.io.arrays import refuse_where


class Instance(shared.Instance, kw_only=True):
    """One problem of a truck and its drone, with time windows. Leading axes make it a batch.

    As many tandems as needed leave the depot, each for one tour; money is minimized. There are no matrices of times,
    and `max_flight` is inf. Beside the attributes of all problems of truck and drone:

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

    schema: ClassVar[arrays.Schema] = NODES | WINDOWS

    demand: Any
    opens: Any
    closes: Any
    service: Any
    truck_capacity: Any
    drone_capacity: Any
    endurance: Any
    truck_price: Any
    drone_price: Any

    @property
    def departure(self) -> Any:
        """`f[]`, when tandems leave the depot."""
        return self.opens[..., 0]


def make_instance(
    locs: ArrayLike,
    *,
    truck_pace: float = 1.0,
    drone_pace: float = 0.5,
    max_flight: float = np.inf,
    launch_time: float = 0.0,
    recovery_time: float = 0.0,
    **others: ArrayLike,
) -> Instance:
    """A checked problem of one's own, as NumPy arrays.

    Arguments are the attributes of `Instance`, in its shapes; `others` are all those of time windows, and perhaps
    `no_fly`: the drone may serve all other customers that it can carry.

    Raises:
        ValueError: what is wrong, at which node, and the remedy; see `check`.
    """
    given = {name: value for name, value in locals().items() if name != "others"} | others
    instance = make_of_kind(Instance, given)
    if instance.demand.shape == instance.no_fly.shape:
        instance = instance.replace(no_fly=instance.no_fly | (instance.demand > instance.drone_capacity))
    check(instance)
    return instance


def check(instance: Instance) -> None:
    """Check one problem (no leading axes), and that a tour can serve each customer alone; padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    instance = checked(instance)
    if np.isfinite(instance.max_flight) or any(getattr(instance, name) is not None for name in shared.OPTIONAL):
        others = ", ".join(("max_flight", *shared.OPTIONAL))
        raise ValueError(f"time windows need coordinates and an endurance; give none of {others}")
    refuse_where(~np.isfinite(instance.opens), "opens of node {} is not finite; give that of the depot for none")
    for name in ("demand", "service"):
        values = getattr(instance, name)
        refuse_where(~(np.isfinite(values) & (values >= 0)), f"{name} of node {{}} is not 0 or more; give 0 for none")
        if values[0] != 0:
            raise ValueError(f"{name} of the depot (node 0) is {values[0]:g}; it must be 0")
    if not np.isfinite(instance.closes[0]):
        raise ValueError("closes of the depot (node 0) is not finite; give the horizon")
    refuse_where(~(instance.closes >= instance.opens), "closes of node {} lies before opens; make it later")
    for name in ("truck_capacity", "drone_capacity", "endurance", "truck_price", "drone_price"):
        value, is_limit = getattr(instance, name), not name.endswith("price")
        if not (value >= 0 and (is_limit or np.isfinite(value))):
            raise ValueError(f"{name} is {value}; it must be 0 or more{'' if is_limit else ', and finite'}")
    _check_reach(instance)


def _check_reach(instance: Instance) -> None:
    customers = instance.exists & (np.arange(instance.exists.size) > 0)
    too_heavy = customers & ~instance.no_fly & (instance.demand > instance.drone_capacity)
    refuse_where(too_heavy, "demand of node {} exceeds drone_capacity; set its no_fly")
    refuse_where(customers & (instance.demand > instance.truck_capacity), "demand of node {} exceeds truck_capacity")
    way = instance.truck_pace * np.linalg.norm(instance.locs - instance.locs[0], axis=1)
    opens, closes = instance.opens - instance.opens[0], (instance.closes - instance.opens[0]) * (1 + LATENESS)
    begin = np.maximum(way, opens)
    late = (begin > closes) | (begin + instance.service + way > closes[0])
    refuse_where(customers & late, "node {} cannot be reached within its window, or the depot from there; widen it")


FILES = files_of(Instance, check, "jaxvrp.envs.truck_drone_tours")

save = FILES.save
"""Write an instance, or a batch, as `.npz`: `save(path, instance)`; see `jaxvrp.io.arrays.ArrayFiles`."""

load = FILES.load
"""Read what `save` wrote, as NumPy arrays: `load(path)`; see `jaxvrp.io.arrays.ArrayFiles`."""
