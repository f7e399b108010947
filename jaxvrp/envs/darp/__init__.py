"""Dial-a-ride: several vehicles, one after the other, bring passengers from pickup to drop-off in time."""

from jaxvrp.envs.darp.env import Darp, make
from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index, read_cordeau, write_cordeau
from jaxvrp.envs.darp.problem.generator import generate_dataset
from jaxvrp.envs.darp.problem.instance import Instance, load, make_instance, pad, save, stack
from jaxvrp.envs.darp.problem.solution import actions_to_routes, routes_to_actions, solution_report

__all__ = [
    "Darp",
    "Instance",
    "actions_to_routes",
    "from_cordeau_index",
    "generate_dataset",
    "load",
    "make",
    "make_instance",
    "pad",
    "read_cordeau",
    "routes_to_actions",
    "save",
    "solution_report",
    "stack",
    "write_cordeau",
]
