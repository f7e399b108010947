"""What people call the vehicles, places, times and lengths of a problem: numbers and steps, or those of a map."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap, WholeScale
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.io.clock import minutes_of
from jaxvrp.io.messages import number
from jaxvrp.story import Point, Units


@dataclasses.dataclass(frozen=True)
class Naming:
    """Names in full, and how numbers of the simulator are said."""

    truck: str
    drones: tuple[str, ...]
    nodes: tuple[str, ...]
    customers: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]  # of `nodes` and `customers`, short enough to stand at a mark
    units: Units  # of the clock and of lengths
    scale: WholeScale  # from steps and map units to these
    fleet_map: FleetMap | None = None  # where the problem is from; None if it was generated

    def time(self, step: ArrayLike) -> float:
        """When a step ends, on the clock."""
        return self.scale.moment(step)

    def place(self, position: ArrayLike) -> Point:
        """A place of the simulator (`f32[2]`) on the map."""
        x, y = self.scale.place(position)
        return x, y

    def moment(self, step: ArrayLike) -> str:
        """When a step ends, in words: "step 3"."""
        return f"step {self.clock(step)}" if self.fleet_map is None else self.fleet_map.said(self.time(step))

    def clock(self, step: ArrayLike) -> str:
        """The same without the word for a step: "3"."""
        if self.units.clock and self.fleet_map:
            return self.fleet_map.said(self.time(step))
        return f"{self.time(step):.12g} {'' if self.fleet_map is None else self.units.time}".rstrip()

    def duration(self, steps: ArrayLike) -> str:
        """How long so many steps are, in words: "3 steps"."""
        word = "" if self.fleet_map else " step" if steps == 1 else " steps"
        return self.delay(steps) + word

    def delay(self, steps: ArrayLike) -> str:
        """The same without the word for a step: "3"."""
        time = float(np.asarray(steps)) * self.scale.time
        return number(time) if self.fleet_map is None else self.fleet_map.amount("time")(time)

    def distance(self, length: ArrayLike) -> str:
        """A length in map units, in words."""
        far = float(np.asarray(length)) * self.scale.length
        return number(far) if self.fleet_map is None else self.fleet_map.amount("length")(far)


def naming_of(instance: Instance, num_drones: int, fleet_map: FleetMap | None) -> Naming:
    """The names and units of a map; of a generated problem numbers, steps and map units."""
    if fleet_map is not None:
        nodes, customers, drones = (tuple(fleet_map.names(kind)) for kind in ("nodes", "customers", "drones"))
        start = None if fleet_map.start is None else (minutes_of(fleet_map.start), fleet_map.minutes)
        units = Units(fleet_map.units.get("time", ""), fleet_map.units.get("length", ""), start)
        labels = {"nodes": nodes, "customers": customers}
        return Naming(fleet_map.truck_name, drones, nodes, customers, labels, units, fleet_map.whole_scale, fleet_map)
    counts = {"nodes": len(instance.node_position), "customers": len(instance.demand)}
    return Naming(
        truck="truck",
        drones=tuple(f"drone {drone}" for drone in range(num_drones)),
        nodes=tuple(f"node {node}" for node in range(counts["nodes"])),
        customers=tuple(f"customer {customer}" for customer in range(counts["customers"])),
        labels={kind: tuple(map(str, range(count))) for kind, count in counts.items()},
        units=Units("step", "map units"),
        scale=WholeScale(length=1.0, center=(0.0, 0.0), time=1.0, demand=1.0, clock=0.0),
    )
