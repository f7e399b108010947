"""jaxvrp: cooperative routing and placement, simulated and learned end to end in JAX.

The names below are the public face. Their modules are imported when one of them is first asked for, so that `import
jaxvrp` alone imports no JAX.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxvrp import spaces
    from jaxvrp.card import Card, Headline, Padding
    from jaxvrp.environment import Environment, TimeStep
    from jaxvrp.memory import Memory, RememberingEnvironment
    from jaxvrp.players import Players
    from jaxvrp.policies.load import load_policy
    from jaxvrp.problems import Problems
    from jaxvrp.randomized import randomize
    from jaxvrp.registry import make, register, registered
    from jaxvrp.spaces import EntityKind, Feature, Place, Pointer, Role
    from jaxvrp.testing import check_env
    from jaxvrp.toolbox import Toolbox, View
    from jaxvrp.turns import TurnBasedEnvironment, Turns
    from jaxvrp.vectorize import VecEnv

__version__ = "0.2.0"

MODULES = {
    "card": ("Card", "Headline", "Padding"),
    "environment": ("Environment", "TimeStep"),
    "memory": ("Memory", "RememberingEnvironment"),
    "players": ("Players",),
    "problems": ("Problems",),
    "randomized": ("randomize",),
    "registry": ("make", "register", "registered"),
    "spaces": ("EntityKind", "Feature", "Place", "Pointer", "Role"),
    "testing": ("check_env",),
    "toolbox": ("Toolbox", "View"),
    "turns": ("TurnBasedEnvironment", "Turns"),
    "vectorize": ("VecEnv",),
}
"""The names of the public face, by module; the modules of `jaxvrp` themselves do not use it."""

__all__ = [name for names in (*MODULES.values(), ("load_policy", "spaces")) for name in names]


def __getattr__(name: str) -> Any:
    """A name of the face, or a module.

    All modules of the face are imported together, as `make` registers the types that are known by then; but not that of
    `load_policy`, which brings networks, and a reader of YAML.
    """
    if name == "load_policy":
        return importlib.import_module("jaxvrp.policies.load").load_policy
    if any(name in names for names in MODULES.values()):
        for module, names in MODULES.items():
            found = importlib.import_module(f"jaxvrp.{module}")
            globals().update({each: getattr(found, each) for each in names})
        return globals()[name]
    if not name.startswith("_") and importlib.util.find_spec(f"jaxvrp.{name}"):
        return importlib.import_module(f"jaxvrp.{name}")
    raise AttributeError(f"module 'jaxvrp' has no attribute '{name}'")
