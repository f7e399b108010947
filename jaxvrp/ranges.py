"""From the ranges that somebody asks for to a randomised environment, or one line that says what is wrong."""

from __future__ import annotations

import dataclasses
import math
import numbers
import typing
from collections.abc import Mapping
from typing import Any

from jaxvrp import fields
from jaxvrp.environment import Environment
from jaxvrp.io.messages import nearest, shown
from jaxvrp.randomized import Randomized, RandomizedTurns, Ranges
from jaxvrp.turns import TurnBasedEnvironment

RANGES = "randomize."
"""Stands before the name of a parameter in messages, as on the command line."""


def randomize(env: Environment, ranges: Mapping[str, Any]) -> Environment:
    """The environment with parameters that are drawn for each episode, uniform in their ranges.

    Args:
        env: the environment; its own values count for what is not drawn.
        ranges: `{parameter: [least, greatest]}`, parameters by keyword; {} gives the environment itself.

    Raises:
        ValueError: an unknown parameter, one that cannot be drawn, or a range that is none or not within what the
            parameter accepts; one line.
        TypeError: a bound of the wrong type.
    """
    if not ranges:
        return env
    kind = RandomizedTurns if isinstance(env, TurnBasedEnvironment) else Randomized
    return kind(env, _checked(env, ranges, RANGES))


def _checked(env: Environment, ranges: Mapping[str, Any], prefix: str) -> Ranges:
    """The ranges by name of field; `prefix` stands before names in messages."""
    known = {fields.keyword(field): field for field in dataclasses.fields(env)}
    for name, bounds in ranges.items():
        if name not in known:
            raise ValueError(f"unknown parameter {shown(prefix + name)}; {nearest(name, drawable(env))}")
        if name not in drawable(env):
            raise ValueError(
                f"{prefix}{name} cannot be drawn, since it is no number that a program may take as it comes; "
                f"these can: {', '.join(drawable(env))}"
            )
        _check_order(prefix + name, bounds)
    for end in (0, 1):
        # All at once: what must be above another parameter is, if both are drawn.
        fields.replace(env, {name: bounds[end] for name, bounds in ranges.items()}, "parameter", prefix)
    return {known[name].name: (float(low), float(high)) for name, (low, high) in ranges.items()}


def drawable(env: Environment) -> list[str]:
    """What can be drawn of an environment, by keyword: parameters that are single numbers, no sizes and no kinds."""
    hints = typing.get_type_hints(type(env))
    leaves = (field for field in dataclasses.fields(env) if field.metadata.get("pytree_node", True))
    return [fields.keyword(field) for field in leaves if hints[field.name] is float]


def _check_order(name: str, bounds: Any) -> None:
    """Refuse what is not two finite numbers in order."""
    is_pair = isinstance(bounds, list | tuple) and len(bounds) == 2
    if is_pair and all(_is_finite(bound) for bound in bounds) and bounds[0] <= bounds[1]:
        return
    raise ValueError(f"{name} is {shown(bounds)}; it must be two finite numbers in order, for example [0.5, 1.5]")


def _is_finite(bound: Any) -> bool:
    is_number = isinstance(bound, numbers.Real) and not isinstance(bound, bool)
    return is_number and (isinstance(bound, numbers.Integral) or math.isfinite(bound))
