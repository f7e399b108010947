"""From the ranges that somebody asks for to a randomised environment, or one line that says what is wrong."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any

from jaxvrp import fields, registry
from jaxvrp.environment import Environment
from jaxvrp.io.messages import nearest, shown
from jaxvrp.randomized import Randomized, RandomizedTurns, Ranges
from jaxvrp.toolbox import Padding
from jaxvrp.turns import TurnBasedEnvironment

RANGES, FIRST_RANGES = "randomize.", "randomize_from."
"""Stand before the name of a parameter in messages, as on the command line."""


def randomize(
    env: Environment,
    ranges: Mapping[str, Any],
    *,
    first_ranges: Mapping[str, Any] | None = None,
    num_steps: float = 1.0,
) -> Environment:
    """The environment with parameters and sizes that are drawn for each episode, uniform in their ranges.

    Args:
        env: the environment; its own values count for what is not drawn.
        ranges: `{parameter: [least, greatest]}`, both included, by keyword; {} gives the environment itself. Sizes are
            those with a padding in the environment's toolbox, up to the environment's own.
        first_ranges: what some of them are drawn from at first. From there the bounds move linearly to those of
            `ranges`, as `VecEnv` plays: whenever it draws a pool, the range is where its steps so far have brought it.
        num_steps: steps of each environment in which they move there.

    Raises:
        ValueError: an unknown parameter, one that cannot be drawn, a range that is none or not within what the
            parameter accepts, or a number of steps that is not above 0; one line.
        TypeError: a bound of the wrong type.
    """
    first_ranges = first_ranges or {}
    if alone := [name for name in first_ranges if name not in ranges]:
        raise ValueError(
            f"{FIRST_RANGES}{alone[0]} is a range to begin with, and {RANGES}{alone[0]}, where it ends, is missing; "
            "give both"
        )
    if not (_is_finite(num_steps) and num_steps > 0):
        raise ValueError(f"num_steps is {shown(num_steps)}; it must be a finite number above 0")
    if not ranges:
        return env
    kind = RandomizedTurns if isinstance(env, TurnBasedEnvironment) else Randomized
    checked, paddings = _checked(env, ranges, RANGES), registry.toolbox_of(env).paddings
    return kind(
        env,
        ranges=checked,
        first_ranges={**checked, **_checked(env, first_ranges, FIRST_RANGES)} if first_ranges else None,
        num_steps=float(num_steps),
        paddings=tuple((name, paddings[name]) for name in checked if name in paddings),
    )


def _checked(env: Environment, ranges: Mapping[str, Any], prefix: str) -> Ranges:
    """The ranges by name of field; `prefix` stands before names in messages."""
    known = {fields.keyword(field): field for field in dataclasses.fields(env)}
    paddings, can_be = registry.toolbox_of(env).paddings, drawable(env)
    for name, bounds in ranges.items():
        if name not in known:
            raise ValueError(f"unknown parameter {shown(prefix + name)}; {nearest(name, can_be)}")
        if name not in can_be:
            raise ValueError(f"{prefix}{name} cannot be drawn: {_why_not(known[name])}; these can: {', '.join(can_be)}")
        _check_order(prefix + name, bounds)
        if name in paddings:
            _check_size(prefix, known[name], bounds, getattr(env, name), paddings[name])
    for end in (0, 1):
        # All at once: what must be above another parameter is, if both are drawn.
        values = {name: bounds[end] for name, bounds in ranges.items() if name not in paddings}
        fields.replace(env, values, "parameter", prefix)
    return {known[name].name: (float(low), float(high)) for name, (low, high) in ranges.items()}


def drawable(env: Environment) -> list[str]:
    """What can be drawn of an environment, by keyword: parameters that are single numbers, and sizes with a padding."""
    hints, paddings = fields.type_hints(type(env)), registry.toolbox_of(env).paddings
    numbers_and_sizes = (
        field for field in dataclasses.fields(env) if field.name in paddings or _is_parameter(field, hints[field.name])
    )
    return [fields.keyword(field) for field in numbers_and_sizes]


def _is_parameter(field: dataclasses.Field, hint: Any) -> bool:
    return hint is float and field.metadata.get("pytree_node", True)


def _why_not(field: dataclasses.Field) -> str:
    if isinstance(field.default, int) and not isinstance(field.default, bool):
        return "it is a size, and no instance is padded up to it"
    return "it is no number, but says of what kind the environment is"


def _check_size(prefix: str, field: dataclasses.Field, bounds: Any, largest: int, padding: Padding) -> None:
    """Refuse a range of a size that is not of whole numbers from its least value to the environment's own."""
    name = fields.keyword(field)
    of = "whole numbers" if padding.multiple == 1 else f"multiples of {padding.multiple}"
    least = max(field.metadata["range"].minimum, padding.multiple)
    if any(bound % padding.multiple for bound in bounds) or bounds[0] < least:
        raise ValueError(f"{prefix}{name} is {shown(bounds)}; it must be two {of}, {least} or more")
    if bounds[1] > largest:
        raise ValueError(
            f"{prefix}{name} is {shown(bounds)}, and instances are padded up to env.{name}, which is {largest}; set "
            f"env.{name} to {int(bounds[1])}, or lower the range"
        )


def _check_order(name: str, bounds: Any) -> None:
    """Refuse what is not two finite numbers in order."""
    is_pair = isinstance(bounds, list | tuple) and len(bounds) == 2
    if is_pair and all(_is_finite(bound) for bound in bounds) and bounds[0] <= bounds[1]:
        return
    raise ValueError(f"{name} is {shown(bounds)}; it must be two finite numbers in order, for example [0.5, 1.5]")


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and (isinstance(value, numbers.Integral) or math.isfinite(value))
