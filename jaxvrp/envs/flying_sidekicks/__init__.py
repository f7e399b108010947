"""A truck with several drones, launched and recovered one after the other: every customer once, home early."""

from jaxvrp.envs.flying_sidekicks.env import FlyingSidekicks, make
from jaxvrp.envs.flying_sidekicks.instance import Instance, load, make_instance, pad, save
from jaxvrp.envs.flying_sidekicks.murray_raj import read_murray_raj
from jaxvrp.envs.flying_sidekicks.report import Task, flights_report

__all__ = [
    "FlyingSidekicks",
    "Instance",
    "Task",
    "flights_report",
    "load",
    "make",
    "make_instance",
    "pad",
    "read_murray_raj",
    "save",
]
