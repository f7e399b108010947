"""Requests arrive during the day: a fleet accepts or rejects each at once, and keeps what it promised."""

from jaxvrp.envs.dispatch.driven_day import driven_stops, leg_factors
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.problem.instance import Instance, load, make_instance, pad, save, stack
from jaxvrp.envs.dispatch.problem.solution import Stop, solution_report
from jaxvrp.envs.dispatch.scenarios import RidePooling, SameDay, make

__all__ = [
    "Dispatch",
    "Instance",
    "RidePooling",
    "SameDay",
    "Stop",
    "driven_stops",
    "leg_factors",
    "load",
    "make",
    "make_instance",
    "pad",
    "save",
    "solution_report",
    "stack",
]
