"""Tandems of a truck and a drone: every customer in its time window, at the least cost of all ways."""

from jaxvrp.envs.truck_and_drone.instance import pad, stack
from jaxvrp.envs.truck_and_drone.operations import Operation, actions_to_operations, operations_to_actions
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours, make
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance, load, make_instance, save
from jaxvrp.envs.truck_drone_tours.problem.kuo import read_kuo
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report

__all__ = [
    "Instance",
    "Operation",
    "TruckDroneTours",
    "actions_to_operations",
    "load",
    "make",
    "make_instance",
    "operations_to_actions",
    "pad",
    "read_kuo",
    "save",
    "stack",
    "tours_report",
]
