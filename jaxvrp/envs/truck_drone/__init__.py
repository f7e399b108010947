"""Truck and drones deliver together: the environment, its world, and what a scenario is."""

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.scenarios.truck_drone_basic import TruckDroneBasic
from jaxvrp.envs.truck_drone.world import World

__all__ = ["Instance", "Physics", "TruckDrone", "TruckDroneBasic", "World", "make"]
