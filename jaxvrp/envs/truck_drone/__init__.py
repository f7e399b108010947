"""Truck and drones deliver together, in one of several scenarios."""

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap, map_of
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.problem.map_file import parse_map, read_map, write_map
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic
from jaxvrp.envs.truck_drone.world import World

__all__ = [
    "FleetMap",
    "Instance",
    "Physics",
    "TruckDrone",
    "TruckDroneBasic",
    "World",
    "make",
    "map_of",
    "parse_map",
    "read_map",
    "write_map",
]
