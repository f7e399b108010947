"""Names of environments and scenarios, and what builds them.

Built-in factories are given as `module:attribute` and imported on first use, so `import jaxvrp` stays light.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from jaxvrp.environment import Environment

_FACTORIES: dict[str, dict[str, str | Callable[..., Any]]] = {
    "environment": {
        "darp": "jaxvrp.envs.darp:make",
        "pcb": "jaxvrp.envs.pcb:make",
        "truck_drone": "jaxvrp.envs.truck_drone:make",
    },
    "scenario": {"truck_drone_basic": "jaxvrp.envs.truck_drone.scenarios.truck_drone_basic:TruckDroneBasic"},
}


def nearest(name: str, names: Iterable[str]) -> str:
    """A remedy for a misspelt `name`: the nearest of `names`, or all of them if none is near."""
    names = sorted(names)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'" if close else f"known: {', '.join(names)}"


def register(name: str, factory: Callable[..., Any]) -> None:
    """Make `factory` known as `name`, for `make(name)`, or, if it is a scenario class, for `make(..., scenario=name)`.

    Raises:
        ValueError: the name is taken by another factory, or is a dotted path.
    """
    if not callable(factory):
        raise TypeError(f"register('{name}', ...) needs a factory (a class or a function); got {factory!r}")
    if ":" in name:
        raise ValueError(f"cannot register '{name}': a name has no ':'; dotted paths work without being registered")
    known = _FACTORIES[getattr(factory, "registry_kind", "environment")]
    if known.get(name, factory) is not factory:
        raise ValueError(f"cannot register '{name}': the name is taken; choose another")
    known[name] = factory


def registered(kind: str = "environment") -> tuple[str, ...]:
    """The known names, sorted; `kind` is `"environment"` or `"scenario"`."""
    return tuple(sorted(_FACTORIES[kind]))


def resolve(name: str, kind: str = "environment") -> Callable[..., Any]:
    """The factory behind a registered name or a dotted path `package.module:attribute`.

    Raises:
        ValueError: nothing is found there; the message says what is known.
    """
    if ":" in name:
        return _import(name, kind)
    known = _FACTORIES[kind]
    if name not in known:
        raise ValueError(
            f"unknown {kind} '{name}'; {nearest(name, known)}; your own goes as 'package.module:attribute'"
        )
    factory = known[name]
    return _import(factory, kind) if isinstance(factory, str) else factory


def make(name: str, **parameters: Any) -> Environment:
    """Build an environment by name or dotted path; `parameters` go to its factory.

    Raises:
        ValueError: the name or a parameter is unknown, or a value is out of range; one line that says which.
        TypeError: a value has the wrong type, or the factory returns no `Environment`.
    """
    env = resolve(name)(**parameters)
    if not isinstance(env, Environment):
        raise TypeError(f"'{name}' returned {type(env).__name__}; a factory must return a jaxvrp.Environment")
    return env


def _import(path: str, kind: str) -> Callable[..., Any]:
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise ValueError(
            f"cannot import {kind} '{path}': no module '{error.name}'; run from the folder that holds it, or install it"
        ) from None
    if not hasattr(module, attribute):
        names = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(f"{kind} '{path}': module '{module_name}' has no '{attribute}'; {nearest(attribute, names)}")
    return getattr(module, attribute)
