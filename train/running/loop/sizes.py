"""The sizes that a configuration gives: how far they are from the defaults, and which one would fit into memory."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax

from jaxvrp import Environment, fields, registry
from jaxvrp.io.machine_memory import SAFETY, bytes_of, machine_bytes, refusal
from train.config import RunConfig

GROWTH = 50
"""Sizes that are, multiplied, not so many times the defaults are not asked for their memory: that takes seconds."""

NO_SIZES = frozenset(
    {"seed", "eval_seed", "board_seed", "total_steps", "target_exploration_steps", "random_steps", "randomize_steps"}
    | {"eval_interval", "save_interval"}
)
"""Whole numbers on which no array depends."""

LEAST_EXPONENT = 0.1
"""Memory that grows more slowly with a size than with this power of it is not due to that size."""

Need = Callable[[int], int | None]
"""Bytes that another value of a size takes at least; None if that value cannot be."""


class Size(NamedTuple):
    """A whole number of a configuration.

    Attributes:
        name: its key, `"num_envs"` or `"env.num_drones"`.
        value: what was asked for; of a list, the largest.
        default: what it is otherwise.
    """

    name: str
    value: int
    default: int

    @property
    def growth(self) -> float:
        """How many times the default it is."""
        return self.value / max(self.default, 1)


def environment_sizes(env: Environment) -> Iterator[Size]:
    """The sizes among the parameters of an environment."""
    values = env.parameters
    for cls in (type(env), *registry.toolbox_of(env).parameters):
        for field in dataclasses.fields(cls):
            if _is_size(field) and field.name in values:
                yield _size(f"env.{field.name}", values[field.name], field)


def configuration_sizes(config: RunConfig) -> Iterator[Size]:
    """The sizes of a configuration, without those of its environment."""
    for field in dataclasses.fields(config):
        if _is_size(field):
            yield _size(field.name, getattr(config, field.name), field)


def _is_size(field: dataclasses.Field) -> bool:
    numbers = field.default if isinstance(field.default, tuple) else (field.default,)
    is_whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    return "range" in field.metadata and is_whole and field.name not in NO_SIZES


def _size(name: str, value: Any, field: dataclasses.Field) -> Size:
    default: Any = field.default
    return Size(name, *(max(number, default=1) if isinstance(number, tuple) else number for number in (value, default)))


def is_large(sizes: Iterable[Size]) -> bool:
    """Whether it is worth a look how much memory they take."""
    return math.prod(max(1.0, size.growth) for size in sizes) >= GROWTH


def to_blame(sizes: Iterable[Size]) -> list[Size]:
    """Those that are larger than usual, those that have grown the most first."""
    return sorted((size for size in sizes if size.growth > 1), key=lambda size: size.growth, reverse=True)


def fitting(size: Size, needed: int, available: int, need: Need) -> int | None:
    """A lower value of a size that fits well into memory, a power of two; None if none is found in a few attempts.

    Args:
        size: with the value that does not fit.
        needed: bytes that it takes at least.
        available: bytes that there are.
        need: bytes for another value.
    """
    room = available / SAFETY
    for shrink in (2, 2**10, 2**20):
        smaller = _power_of_two(size.value / shrink)
        taken = need(smaller)
        if taken is not None:
            break
    else:
        return None
    exponent = math.log(needed / taken) / math.log(size.value / smaller)
    if exponent < LEAST_EXPONENT:
        return None
    for shrink in (1, 4, 16, 64):
        guess = _power_of_two(min(smaller, smaller * (room / taken) ** (1 / exponent)) / shrink)
        found = need(guess)
        if found is not None and found <= room:
            return guess
    return None


def _power_of_two(value: float) -> int:
    """The largest that is not above a value; at least 1."""
    return 1 << max(0, int(value).bit_length() - 1)


def check_environment(env: Environment) -> None:
    """Refuse an environment of which memory does not hold one.

    Raises:
        ValueError: one line with the size that is to blame, what is needed, what there is, and what would fit.
    """
    sizes = list(environment_sizes(env))
    if not is_large(sizes):
        return
    available, needed = machine_bytes(), _bytes_of_one(env)
    if needed > available:
        size = to_blame(sizes)[0]
        name = size.name.removeprefix("env.")
        enough = fitting(size, needed, available, functools.partial(_bytes_with, env, name))
        raise ValueError(refusal(size.name, size.value, needed, available, enough))


def _bytes_of_one(env: Environment) -> int:
    """What one environment and its agents' view take."""
    return bytes_of(jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0))))


def _bytes_with(env: Environment, name: str, value: int) -> int | None:
    """The same with another value of a parameter; None if it cannot have that."""
    try:
        return _bytes_of_one(fields.replace(env, {name: value}, "parameter"))
    except (ValueError, TypeError):
        return None
