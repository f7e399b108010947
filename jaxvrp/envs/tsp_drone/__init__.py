"""The travelling salesman with a drone: every customer once, home as early as possible."""

from jaxvrp.envs.truck_and_drone.instance import Instance, pad, stack
from jaxvrp.envs.truck_and_drone.operations import Operation, actions_to_operations, operations_to_actions
from jaxvrp.envs.tsp_drone.env import TspDrone, make
from jaxvrp.envs.tsp_drone.problem.agatz import read_agatz, read_operations, write_agatz, write_operations
from jaxvrp.envs.tsp_drone.problem.generator import generate_dataset
from jaxvrp.envs.tsp_drone.problem.instance import load, make_instance, save
from jaxvrp.envs.tsp_drone.problem.murray_chu import read_murray_chu
from jaxvrp.envs.tsp_drone.problem.one_line import read_one_line, write_one_line
from jaxvrp.envs.tsp_drone.problem.solution import solution_report

__all__ = [
    "Instance",
    "Operation",
    "TspDrone",
    "actions_to_operations",
    "generate_dataset",
    "load",
    "make",
    "make_instance",
    "operations_to_actions",
    "pad",
    "read_agatz",
    "read_murray_chu",
    "read_one_line",
    "read_operations",
    "save",
    "solution_report",
    "stack",
    "write_agatz",
    "write_one_line",
    "write_operations",
]
