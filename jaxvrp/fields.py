"""Dataclass fields that carry their sentence and their range, and one builder that checks values against them.

Used for the parameters of environments and scenarios and for the configuration of the learners, so that a bad value
gives the same one line wherever it comes from, and `--help` and the tables of the documentation say the same.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import types
import typing
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.io.limits import LARGEST, LARGEST_WHOLE, LEAST
from jaxvrp.io.messages import nearest, shown

T = TypeVar("T")

SCALARS = {bool: bool, int: numbers.Integral, float: numbers.Real, str: str}
"""Types of fields that are checked, and what is accepted for them."""


ABSENT: Any = None
"""An attribute of a class that has no such parameter; a subclass may make it one."""


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a number: `minimum <= x <= maximum` and `x > above`; None is unbounded but finite, inf allows inf."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None

    def __contains__(self, value: float) -> bool:
        low = (self.minimum is None or value >= self.minimum) and (self.above is None or value > self.above)
        finite = isinstance(value, int) or math.isfinite(value) or value == self.maximum
        return finite and low and (self.maximum is None or value <= self.maximum)

    def __str__(self) -> str:
        bounds = ((">=", self.minimum), (">", self.above), ("<=", self.maximum))
        words = [
            f"{sign} {bound if isinstance(bound, int) else f'{bound:g}'}" for sign, bound in bounds if bound is not None
        ]
        return " and ".join(words) or "finite"

    def of_32_bits(self, kind: type[int] | type[float]) -> Range:
        """The same range, with the 32-bit bounds of `kind` where it is unbounded or infinite."""
        largest = LARGEST_WHOLE if kind is int else LARGEST
        smallest = LEAST if kind is float and self.above == 0 else -largest
        minimum = smallest if self.minimum is None else self.minimum
        maximum = largest if self.maximum in (None, math.inf) else self.maximum
        return Range(minimum, maximum, None if minimum > 0 else self.above)


class Whole(typing.NamedTuple):
    """What an array of a state holds, beside its type (`Annotated`): whole numbers from `low` to `high`.

    A text stands for the last index of the array at that place in the state, such as `"customers/served"`.
    """

    low: int
    high: int | str


def parameter(default: float | None, *, help: str = "", unit: str = "", **bounds: float) -> Any:
    """A numeric leaf of an environment: its sentence, its unit, and `minimum`, `maximum`, `above` as its range."""
    return struct.field(default=default, metadata={"help": help, "unit": unit, "range": Range(**bounds)})


def size(default: Any, minimum: int = 1, *, maximum: int | None = None, help: str = "", unit: str = "") -> Any:
    """A static number, at least `minimum`, at most `maximum`; mostly a count."""
    return _static(default, help=help, unit=unit, range=Range(minimum, maximum))


def choice(default: str, choices: tuple[str, ...], *, help: str = "", keyword: str = "") -> Any:
    """A static word, one of `choices`; for `keyword` see the function of that name."""
    return _static(default, help=help, choices=choices, keyword=keyword)


def switch(default: bool, *, help: str = "") -> Any:
    """A static truth value."""
    return _static(default, help=help)


def again(cls: type, name: str, default: Any) -> Any:
    """The field `name` of the dataclass `cls` for a subclass, with another default; all else of it stays."""
    field = next(field for field in dataclasses.fields(cls) if field.name == name)
    is_leaf = field.metadata.get("pytree_node", True)
    return struct.field(pytree_node=is_leaf, default=default, metadata=field.metadata)


def _static(default: Any, **metadata: Any) -> Any:
    return struct.field(pytree_node=False, default=default, metadata=metadata)


def option(default: Any, *, help: str, group: str = "", choices: tuple[str, ...] = (), **bounds: float) -> Any:
    """A configuration key: its default, its sentence, the group that `--help` lists it in, its choices or range."""
    metadata = {"help": help, "group": group, "choices": choices, "range": Range(**bounds)}
    return dataclasses.field(default=default, metadata=metadata)


@functools.lru_cache(maxsize=256)
def type_hints(cls: type) -> dict[str, Any]:
    """The types of the fields of a class, by name; cached, because reading them dominates the time of `--help`."""
    return typing.get_type_hints(cls)


def keyword(field: dataclasses.Field) -> str:
    """The keyword of a field: its name, unless that would hide a method."""
    return field.metadata.get("keyword") or field.name


def build(cls: type[T], values: dict[str, Any], subject: str, prefix: str = "") -> T:
    """Make a dataclass from checked values; its method `check_fields`, if it has one, checks them together.

    Args:
        cls: the dataclass; fields may come from `parameter`, `size` or `option`.
        values: by name: that of the field, or its `keyword`, if it has one. Arrays of floats (a batch of parameters)
            are checked element by element, tracers are taken as they are.
        subject: what messages are about.
        prefix: stands before a field's name in messages (`env.`).

    Raises:
        ValueError: an unknown key, or a value outside its range or choices.
        TypeError: a value of the wrong type.
    """
    return _checked_together(cls(**_checked(cls, values, subject, prefix)))


def replace(instance: T, changes: dict[str, Any], subject: str, prefix: str = "") -> T:
    """A copy of a dataclass with some fields changed, checked as by `build`, with its errors."""
    checked = _checked(type(instance), changes, subject, prefix)
    return _checked_together(dataclasses.replace(cast(Any, instance), **checked))


def _checked(cls: type, values: dict[str, Any], subject: str, prefix: str) -> dict[str, Any]:
    """The values by name of the field."""
    known = {keyword(field): field for field in dataclasses.fields(cls) if field.init}
    hints, checked = type_hints(cls), {}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"unknown {subject} {shown(prefix + name)}; {nearest(name, known)}")
        checked[known[name].name] = _check(known[name], hints[known[name].name], value, prefix)
    return checked


def _checked_together(instance: T) -> T:
    if hasattr(instance, "check_fields"):
        instance.check_fields()
    return instance


def validate(instance: Any, subject: str) -> Any:
    """`build` again from the fields of an existing dataclass instance: checks what was set by hand."""
    values = {keyword(field): getattr(instance, field.name) for field in dataclasses.fields(instance) if field.init}
    return build(type(instance), values, subject)


def _check(field: dataclasses.Field, hint: Any, value: Any, prefix: str) -> Any:
    name, bounds = prefix + keyword(field), field.metadata.get("range", Range())
    choices: Sequence[str] = field.metadata.get("choices", ())

    def check_scalar(kind: type, scalar: Any) -> Any:
        typed = _typed(name, kind, scalar)
        if choices and typed not in choices:
            raise ValueError(f"{name} is {shown(typed)}; it must be one of: {', '.join(choices)}")
        return _in_range(name, typed, bounds)

    allowed = _alternatives(hint)
    if value is None and type(None) in allowed:
        return None
    items = [typing.get_args(kind)[0] for kind in allowed if typing.get_origin(kind) is tuple]
    items = [item for item in items if item in SCALARS]
    if items and (len(allowed) == 1 or isinstance(value, list | tuple)):
        if not isinstance(value, list | tuple):
            example = ", ".join(choices) if choices else "64, 64"
            raise TypeError(f"{name} is {shown(value)}; it must be a list, for example [{example}]")
        return tuple(check_scalar(items[0], item) for item in value)
    kind = next((kind for kind in SCALARS if kind in allowed), None)
    if kind is None:
        is_structure = isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, tuple))
        if is_structure and not isinstance(value, hint):
            raise TypeError(f"{name} is {shown(value)}; it must be of type {hint.__name__}")
        return value
    is_array = hasattr(value, "dtype") and not isinstance(value, numbers.Number)
    is_leaf = kind is float and field.metadata.get("pytree_node", True)
    if is_leaf and is_array and jnp.issubdtype(value.dtype, jnp.floating):
        return _array_in_range(name, value, bounds)
    return check_scalar(kind, value)


def require_count(name: str, value: Any) -> None:
    """Refuse what is no whole number (TypeError) of at least 1 (ValueError)."""
    _in_range(name, _typed(name, int, value), Range(minimum=1))


def _array_in_range(name: str, array: Any, bounds: Range) -> Any:
    """Refuse an array with an element that is NaN or out of range; tracers are not checked."""
    is_known = isinstance(array, np.ndarray | jax.Array) and not isinstance(array, jax.core.Tracer)
    if is_known and array.size:
        values = np.asarray(array).astype(np.float64)
        # A range is an interval, and NaN is the least and the largest element of an array that holds one.
        for extreme in (values.min(), values.max()):
            _in_range(name, float(extreme), bounds)
    return array


def _in_range(name: str, value: Any, bounds: Range) -> Any:
    if type(value) not in (int, float) or value == bounds.maximum:
        return value
    for allowed in (bounds, bounds.of_32_bits(type(value))):
        if value not in allowed:
            raise ValueError(f"{name} is {shown(value)}; it must be {allowed}")
    return value


def _typed(name: str, kind: type, value: Any) -> Any:
    accepted = SCALARS[kind]
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
        raise TypeError(f"{name} is {shown(value)}; it must be {wanted}")
    try:
        return kind(value)
    except OverflowError:  # a whole number of hundreds of digits, where a float is wanted
        raise ValueError(f"{name} is {shown(value)}; it must be at most {LARGEST:g} in size") from None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """`(int, NoneType)` for `int | None`, `(int,)` for `int`."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def accepted_values(cls: type, field: dataclasses.Field) -> str:
    """What a field accepts, in words: `"whole, >= 1"`, `"true, false"`, `"one of: a, b"`, `"list of numbers, > 0"`."""
    allowed = _alternatives(type_hints(cls)[field.name])
    words = [_kind_in_words(kind, field) for kind in allowed if kind is not type(None)]
    return ", or ".join([*words, *(["null"] if type(None) in allowed else [])])


def _kind_in_words(kind: Any, field: dataclasses.Field) -> str:
    if choices := field.metadata.get("choices"):
        kind_of_choice = "list of: " if typing.get_origin(kind) is tuple else "one of: "
        return kind_of_choice + ", ".join(choices)
    bounds = str(field.metadata.get("range", Range()))
    bounds = "" if bounds == "finite" else ", " + bounds.replace(" and ", ", ")
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        lists = {int: "list of whole numbers", float: "list of numbers", dict: "list of mappings"}
        return lists.get(typing.get_origin(item) or item, "list of texts") + bounds
    if typing.get_origin(kind) is dict:
        return "mapping"
    return {bool: "true, false", int: "whole" + bounds, float: "number" + bounds}.get(kind, "text")
