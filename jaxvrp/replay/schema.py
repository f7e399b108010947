"""What a JSON value has to be, put together from small checks; each says in one line where a value is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Check = Callable[[Any, str], None]
"""Of a value and the place where it stands; raises a ValueError."""


def _refuse(where: str, value: Any, wanted: str) -> None:
    shown = repr(value)
    raise ValueError(f"{where} is {shown if len(shown) < 40 else shown[:36] + ' ...'}; it must be {wanted}")


def number(value: Any, where: str) -> None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(where, value, "a finite number")


def text(value: Any, where: str) -> None:
    """A string."""
    if not isinstance(value, str):
        _refuse(where, value, "a text")


def flag(value: Any, where: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        _refuse(where, value, "true or false")


def anything(value: Any, where: str) -> None:
    """Whatever JSON can hold."""
    del value, where


def index(below: int | None = None, least: int = 0) -> Check:
    """A whole number from `least` up to, but without, `below`."""

    def check(value: Any, where: str) -> None:
        if type(value) is not int or value < least or (below is not None and value >= below):
            room = (
                f"from {least}" if below is None else f"from {least} to {below - 1}" if below > least else "(no such)"
            )
            _refuse(where, value, f"a whole number {room}")

    return check


def one_of(*words: str) -> Check:
    """One of some words."""

    def check(value: Any, where: str) -> None:
        if value not in words:
            _refuse(where, value, "one of: " + ", ".join(words))

    return check


def optional(inner: Check) -> Check:
    """Null, or something."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def many(inner: Check, length: int | None = None, least: int = 0) -> Check:
    """A list of equals; of a fixed `length`, or of `least` entries at least."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            _refuse(where, value, "a list")
        if length not in (None, len(value)):
            raise ValueError(f"{where} has {len(value)} entries; it must have {length}")
        if len(value) < least:
            raise ValueError(f"{where} has {len(value)} entries; it must have at least {least}")
        for at, entry in enumerate(value):
            inner(entry, f"{where}[{at}]")

    return check


def record(**fields: Check) -> Check:
    """An object with these keys, and perhaps others."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "an object")
        for name, inner in fields.items():
            place = f"{where}.{name}" if where else name
            if name not in value:
                raise ValueError(f"{place} is missing; every episode of this kind needs it")
            inner(value[name], place)

    return check


def mapping(inner: Check) -> Check:
    """An object with any keys."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "an object")
        for name, entry in value.items():
            inner(entry, f"{where}.{name}")

    return check


def mask(length: int) -> Check:
    """A text of `length` digits 0 and 1."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or len(value) != length or set(value) - {"0", "1"}:
            _refuse(where, value, f"a text of {length} digits 0 and 1")

    return check


POINT = many(number, length=2)
