"""Truck and drones deliver together: the environment, its world, and what a scenario is."""

from jaxvrp.envs.truck_drone.env import TruckDrone, make
from jaxvrp.envs.truck_drone.physics import Physics
from jaxvrp.envs.truck_drone.scenario import Scenario
from jaxvrp.envs.truck_drone.scenarios.truck_drone_basic import TruckDroneBasic
from jaxvrp.envs.truck_drone.world import Instance, World

__all__ = ["Instance", "Physics", "Scenario", "TruckDrone", "TruckDroneBasic", "World", "make"]
