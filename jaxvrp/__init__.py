"""jaxvrp: cooperative routing and placement, simulated and learned end to end in JAX."""

from typing import TYPE_CHECKING, Any

from jaxvrp import spaces
from jaxvrp.card import Card, Headline, Padding
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.memory import Memory, RememberingEnvironment
from jaxvrp.players import Players
from jaxvrp.problems import Problems
from jaxvrp.randomized import randomize
from jaxvrp.registry import make, register, registered
from jaxvrp.spaces import EntityKind, Feature, Place, Pointer, Role
from jaxvrp.testing import check_env
from jaxvrp.toolbox import Toolbox, View
from jaxvrp.turns import TurnBasedEnvironment, Turns
from jaxvrp.vectorize import VecEnv

if TYPE_CHECKING:
    from jaxvrp.policies.load import load_policy

__version__ = "0.2.0"

__all__ = [
    "Card",
    "EntityKind",
    "Environment",
    "Feature",
    "Headline",
    "Memory",
    "Padding",
    "Place",
    "Players",
    "Pointer",
    "Problems",
    "RememberingEnvironment",
    "Role",
    "TimeStep",
    "Toolbox",
    "TurnBasedEnvironment",
    "Turns",
    "VecEnv",
    "View",
    "check_env",
    "load_policy",
    "make",
    "randomize",
    "register",
    "registered",
    "spaces",
]


def __getattr__(name: str) -> Any:
    """`load_policy`, imported when it is first asked for: it brings networks, and a reader of YAML."""
    if name == "load_policy":
        from jaxvrp.policies.load import load_policy

        return load_policy
    raise AttributeError(f"module 'jaxvrp' has no attribute '{name}'")
