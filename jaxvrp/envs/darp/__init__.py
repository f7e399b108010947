"""Dial-a-ride: several vehicles, one after the other, bring passengers from pickup to drop-off in time."""

from jaxvrp.envs.darp.env import Darp, make
from jaxvrp.envs.darp.generator import generate_dataset
from jaxvrp.envs.darp.instance import Instance, load, make_instance, pad, save, stack

__all__ = ["Darp", "Instance", "generate_dataset", "load", "make", "make_instance", "pad", "save", "stack"]
