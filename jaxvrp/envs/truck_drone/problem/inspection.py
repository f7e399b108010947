"""What a map means to its reader, in the units of the file: times, ranges, reach; and warnings of what is absurd."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np

from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap
from jaxvrp.fields import ABSENT
from jaxvrp.plausible import TINY, UNITS, degrees, distant, extent, nearest, slow
from jaxvrp.problems import Inspection

MOVES = 1e-9
"""Share of a way: a drone that flies less of it in a step is as good as at rest."""

FEWEST_STEPS = 2
"""Steps that the fastest plausible vehicle takes across the map."""

NAMED = 3
"""Customers that one line names."""


@dataclasses.dataclass(frozen=True)
class Reach:
    """How far drones have to fly: length units of range that each customer takes from its nearest place of the truck.

    That is there with the package and back without, and what the battery guard keeps. `range` is that of a charge.
    """

    range: float
    needs: np.ndarray

    @property
    def is_within(self) -> np.ndarray:
        """`bool[C]`."""
        return self.needs <= self.range


def reach_of(fleet_map: FleetMap, env: TruckDrone) -> Reach:
    """The reach from the nodes and from the start of the truck; `env` is that of the map."""
    places, customers = np.split(_places(fleet_map), [1 + len(fleet_map.nodes)])
    gap = nearest(customers, places)
    demand = np.array([customer.demand for customer in fleet_map.customers]) / fleet_map.whole_scale.demand
    laden = 1.0 if env.payload_factor is ABSENT else 1.0 + float(env.payload_factor) * demand
    stride = fleet_map.drones[0].speed * fleet_map.whole_scale.time
    guard = float(env.forced_return_factor)
    # Before the last step of the way the package is on board, and the guard counts it.
    moves = stride > MOVES * gap.max()
    before = (np.maximum(np.ceil(gap / stride), 1.0) - 1.0) * stride if moves else gap
    needs = np.maximum(laden * gap + guard * (gap + stride), laden * (before + guard * (before + stride)))
    return Reach(fleet_map.drones[0].range, needs)


def inspect(fleet_map: FleetMap, env: TruckDrone) -> Inspection:
    """Figures and warnings of a map that is played in `env`, which has its parameters."""
    return Inspection(tuple(_figures(fleet_map, env)), tuple(_warnings(fleet_map, env)))


def why_nobody(fleet_map: FleetMap, env: TruckDrone) -> str:
    """Why no customer can be served at all; "" if that is not known."""
    fast, out_of_reach = "; ".join(_fast(fleet_map)), _out_of_reach(fleet_map, reach_of(fleet_map, env))
    return fast or out_of_reach or "; ".join(_slow(fleet_map))


def _figures(fleet_map: FleetMap, env: TruckDrone) -> Iterator[str]:
    length, time = fleet_map.amount("length"), fleet_map.amount("time")
    truck, drone, reach = fleet_map.truck, fleet_map.drones[0], reach_of(fleet_map, env)
    across = extent(_places(fleet_map))
    drive = f"in {time(across / truck.speed)}" if truck.speed else "never"
    yield f"the truck crosses the map, {length(across)}, {drive} of {time(fleet_map.duration)}"
    if math.isinf(drone.range):
        yield "a drone flies as far as it has to"
    elif drone.speed:
        yield f"a drone flies {length(drone.range)} on a charge, in {time(drone.range / drone.speed)}"
    scale, given = fleet_map.whole_scale.length, fleet_map.reach
    delivery, recovery = length(env.delivery_threshold * scale), length(env.recovery_threshold * scale)
    missing = [name for name, distance in vars(given).items() if distance is None]
    absent = "reach" if len(missing) > 1 else f"reach.{''.join(missing)}"
    assumed = f" (the map gives no {absent})" if missing else ""
    yield f"a drone serves a customer within {delivery}, and is taken in within {recovery} of the truck{assumed}"
    count = f"{reach.is_within.sum()} of {len(fleet_map.customers)} customers"
    yield f"{count} are within reach of a node, there with the package and back"


def _warnings(fleet_map: FleetMap, env: TruckDrone) -> Iterator[str]:
    # Times and reach mean nothing where places are in several units, and reach nothing where a step is too long.
    nodes_first = np.roll(_places(fleet_map), -1, axis=0)
    in_degrees = [*degrees(nodes_first, "nodes[0].position")]
    yield from (absurd := in_degrees or [*_mixed(fleet_map)] or [*_fast(fleet_map)])
    if not absurd:
        yield from _slow(fleet_map)
        if words := _out_of_reach(fleet_map, reach_of(fleet_map, env)):
            yield f"drones[0].range: {words}; raise it, or add nodes nearer to them"


def _mixed(fleet_map: FleetMap) -> Iterator[str]:
    length = fleet_map.amount("length")
    nodes, customers = np.split(_places(fleet_map), [1 + len(fleet_map.nodes)])
    far = list(distant(lambda index: f"customers[{index}].position", customers, "node", nodes, length))
    yield from far
    width = extent(customers)
    if not far and len(customers) > 1 and extent(nodes) > TINY * width and width:
        farthest = int(np.linalg.norm(nodes - np.median(customers, axis=0), axis=1).argmax())
        field = f"nodes[{farthest - 1}].position" if farthest else "truck.position"
        yield (
            f"{field}: the nodes lie within {length(extent(nodes))}, and all customers within {length(width)}; give "
            "customers and nodes in one unit of length"
        )


def _speeds(fleet_map: FleetMap) -> dict[str, float]:
    """The speeds of the vehicles that move, by field of the map."""
    speeds = {"truck.speed": fleet_map.truck.speed, "drones[0].speed": fleet_map.drones[0].speed}
    return {field: speed for field, speed in speeds.items() if speed > 0}


def _fast(fleet_map: FleetMap) -> Iterator[str]:
    time, step = fleet_map.amount("time"), fleet_map.whole_scale.time
    for field, speed in _speeds(fleet_map).items():
        across = extent(_places(fleet_map)) / speed
        if across < FEWEST_STEPS * step:
            yield (
                f"{field}: {_speed(fleet_map, speed)} is across the map in {time(across)}, and a step is {time(step)}; "
                f"{UNITS}, or a smaller scale.time"
            )


def _slow(fleet_map: FleetMap) -> Iterator[str]:
    words, time = functools.partial(_speed, fleet_map), fleet_map.amount("time")
    return slow(_speeds(fleet_map), words, extent(_places(fleet_map)), fleet_map.duration, time)


def _speed(fleet_map: FleetMap, speed: float) -> str:
    unit = fleet_map.units
    return f"{speed:g} {unit['length']}/{unit['time']}" if {"length", "time"} <= unit.keys() else f"{speed:g}"


def _out_of_reach(fleet_map: FleetMap, reach: Reach) -> str:
    """Which customers no drone can reach from a node; "" if there is none."""
    length, out = fleet_map.amount("length"), np.flatnonzero(~reach.is_within)
    if not out.size:
        return ""
    flown = f"a charge lasts for {length(reach.range)}"
    if out.size == len(reach.needs):
        return f"no customer is within reach of a node: the nearest needs {length(reach.needs.min())}, {flown}"
    names = fleet_map.names("customers")
    named = [f"{names[index]} needs {length(reach.needs[index])}" for index in out[:NAMED]]
    named += ["..."] * (out.size > NAMED)
    return f"{out.size} of {len(names)} customers are out of reach of every node: {', '.join(named)}; {flown}"


def _places(fleet_map: FleetMap) -> np.ndarray:
    """`f64[1 + N + C, 2]`, of the truck, the nodes and the customers."""
    nodes, customers = fleet_map.nodes, fleet_map.customers
    positions = [*(node.position for node in nodes), *(customer.position for customer in customers)]
    return np.array([fleet_map.truck.position, *positions], np.float64)
