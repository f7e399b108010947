"""What a JSON value has to be: small checks, and functions that make a check from others.

A check is called with a value and the place where it stands (`steps[1].hpwl`, for its message). It returns nothing if
the value is right, and raises a ValueError of one line otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from jaxvrp.io.limits import LARGEST
from jaxvrp.io.messages import cut, nearest, shown

Check = Callable[[Any, str], None]
"""`(value, place) -> None`; raises a ValueError unless the value is right."""


def _is(wanted: str, holds: Callable[[Any], bool]) -> Check:
    """A check for values of which something `holds`; `wanted` says what, in the message."""

    def check(value: Any, where: str) -> None:
        if not holds(value):
            raise ValueError(f"{where} is {shown(value)}; it must be {wanted}")

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


number = _is("a finite number", _is_number)
text = _is("a text", lambda value: isinstance(value, str))
boolean = _is("true or false", lambda value: isinstance(value, bool))
anything = _is("anything", lambda value: True)
_list = _is("a list", lambda value: isinstance(value, list))
_object = _is("an object", lambda value: isinstance(value, dict))


def number_from(least: float, *, with_least: bool = True) -> Check:
    """A check for numbers from `least` to `LARGEST`; without `with_least`, for those above `least`."""
    bound = f"at least {least:g}" if with_least else f"more than {least:g}"
    within = _is(
        f"{bound} and at most {LARGEST:g}", lambda value: least <= value <= LARGEST and (with_least or value > least)
    )
    return all_of(number, within)


def whole_number(below: int | None = None, least: int = 0) -> Check:
    """A check for whole numbers from `least` up to, but without, `below` (None: without end)."""
    is_empty = below is not None and below <= least
    accepted = "(no such)" if is_empty else f"from {least}" + ("" if below is None else f" to {below - 1}")
    end = math.inf if below is None else below
    return _is(f"a whole number {accepted}", lambda value: type(value) is int and least <= value < end)


def one_of(*words: str) -> Check:
    """A check for texts that are one of `words`."""
    return _is("one of: " + ", ".join(words), lambda value: value in words)


def optional(inner: Check) -> Check:
    """A check that accepts null, and what `inner` accepts."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def list_of(inner: Check, length: int | None = None, least: int = 0, most: float = math.inf) -> Check:
    """A check for lists whose entries all pass `inner`: `length` of them, if given, from `least` to `most`."""

    def check(value: Any, where: str) -> None:
        _list(value, where)
        if length not in (None, len(value)):
            raise ValueError(f"{where} has {len(value)} entries; it must have {length}")
        if len(value) < least:
            raise ValueError(f"{where} has {len(value)} entries; it must have at least {least}")
        if len(value) > most:
            raise ValueError(f"{where} has {len(value)} entries; it may have up to {most}")
        for position, entry in enumerate(value):
            inner(entry, f"{where}[{position}]")

    return check


def list_of_each(*checks: Check) -> Check:
    """A check for lists of as many entries as `checks`, each of which passes its own."""

    def check(value: Any, where: str) -> None:
        list_of(anything, len(checks))(value, where)
        for position, (inner, entry) in enumerate(zip(checks, value, strict=True)):
            inner(entry, f"{where}[{position}]")

    return check


def object_with(**fields: Check) -> Check:
    """A check for objects with these keys, each with a value that passes its check; other keys may be there too."""

    def check(value: Any, where: str) -> None:
        _object(value, where)
        for name, inner in fields.items():
            place = f"{where}.{name}" if where else name
            if name not in value:
                raise ValueError(f"{place} is missing; give it")
            inner(value[name], place)

    return check


def optional_keys(**fields: Check) -> Check:
    """A check for objects whose values of these keys pass their checks, where they have them."""

    def check(value: Any, where: str) -> None:
        for name, inner in fields.items():
            if name in value:
                inner(value[name], f"{where}.{name}" if where else name)

    return check


def all_of(*checks: Check) -> Check:
    """A check for values that pass all of `checks`."""

    def check(value: Any, where: str) -> None:
        for each in checks:
            each(value, where)

    return check


def object_of_only(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    """A check for objects with all `required` keys, and with no others than these and the `optional` ones.

    An optional one may be null.
    """
    known = {**required, **optional}

    def check(value: Any, where: str) -> None:
        _object(value, where or "the content")
        places = {name: f"{where}.{name}" if where else name for name in known}
        for name in value:
            if name not in known:
                place = f" in {where}" if where else ""
                raise ValueError(f"unknown key {shown(name)}{place}; {nearest(name, known)}")
        for name in required:
            if name not in value:
                raise ValueError(f"{places[name]} is missing; give it")
        for name, entry in value.items():
            if entry is not None or name in required:
                known[name](entry, places[name])

    return check


def object_of(inner: Check) -> Check:
    """A check for objects with any keys, whose values all pass `inner`."""

    def check(value: Any, where: str) -> None:
        _object(value, where)
        for name, entry in value.items():
            inner(entry, f"{where}.{cut(name)}")

    return check


def mask(length: int) -> Check:
    """A check for texts of `length` digits 0 and 1: what an agent may do."""
    return _is(
        f"a text of {length} digits 0 and 1",
        lambda value: isinstance(value, str) and len(value) == length and not set(value) - {"0", "1"},
    )


POINT = list_of(number, length=2)
"""A check for a place, a vector, or the two ends of something: a list of two numbers."""
