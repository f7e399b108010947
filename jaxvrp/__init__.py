"""jaxvrp: cooperative routing and placement, simulated and learned at hardware speed."""

from jaxvrp import spaces
from jaxvrp.environment import Environment, Role, TimeStep, Turns
from jaxvrp.registry import make, register, registered
from jaxvrp.spaces import Entities
from jaxvrp.testing import check_env
from jaxvrp.vectorize import VecEnv

__version__ = "0.1.0"

__all__ = [
    "Entities",
    "Environment",
    "Role",
    "TimeStep",
    "Turns",
    "VecEnv",
    "check_env",
    "make",
    "register",
    "registered",
    "spaces",
]
