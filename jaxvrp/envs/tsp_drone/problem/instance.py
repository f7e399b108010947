"""The travelling salesman problem with drone as data: a problem of one's own, checked, and files of problems."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_and_drone.instance import Instance, checked, files_of, make_of_kind


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
    depot_launch_time: float | None = None,
    max_sortie: float | None = None,
) -> Instance:
    """A checked problem of one's own, as NumPy arrays.

    Arguments are the attributes of `Instance`, in its shapes. Without `no_fly` the drone may serve all customers.

    Raises:
        ValueError: what is wrong, at which node, and the remedy.
    """
    instance = make_of_kind(Instance, locals())
    check(instance)
    return instance


def check(instance: Instance) -> None:
    """Check one problem (no leading axes); padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which node, and the remedy.
    """
    checked(instance)


FILES = files_of(Instance, check, "jaxvrp.envs.tsp_drone")

save = FILES.save
"""Write an instance, or a batch, as `.npz`: `save(path, instance)`; see `jaxvrp.io.arrays.ArrayFiles`."""

load = FILES.load
"""Read what `save` wrote, as NumPy arrays: `load(path)`; see `jaxvrp.io.arrays.ArrayFiles`."""
