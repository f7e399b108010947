"""Times between nodes as matrices, for checkers and pictures; NumPy and `float64`."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import Operation


class Matrices:
    """One instance in `float64`, with its times as matrices `f64[n, n]`."""

    def __init__(self, instance: Instance):
        locs = np.asarray(instance.locs, np.float64)
        between = np.linalg.norm(locs[:, None] - locs, axis=2)
        self.nodes = set(np.flatnonzero(np.asarray(instance.exists)).tolist())
        self.no_fly = np.asarray(instance.no_fly)
        self.max_flight = float(instance.max_flight)
        self.recovery_time = float(instance.recovery_time)
        self.max_sortie = np.inf if instance.max_sortie is None else float(instance.max_sortie)
        self.launch_time = np.full(len(locs), float(instance.launch_time))  # by node
        if instance.depot_launch_time is not None:
            self.launch_time[0] = float(instance.depot_launch_time)
        if instance.truck_time is None:
            self.truck, self.drone = float(instance.truck_pace) * between, float(instance.drone_pace) * between
            self.flight = between
        else:
            self.truck = np.asarray(instance.truck_time, np.float64)
            self.drone = self.flight = np.asarray(instance.drone_time, np.float64)

    def times(self, operation: Operation) -> tuple[float, float, float]:
        """Time of an operation until the truck, and the drone, are at its end; and of the whole."""
        start, end, fly, internal = operation
        way = [start, *internal, end]
        truck = float(self.truck[way[:-1], way[1:]].sum())
        if fly is None:
            return truck, truck, truck
        launch = float(self.launch_time[start])
        truck += launch
        drone = launch + float(self.drone[start, fly] + self.drone[fly, end])
        return truck, drone, max(truck, drone) + self.recovery_time
