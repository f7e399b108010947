"""JSON files of unknown origin: read completely, or refused in one line."""

from __future__ import annotations

import collections
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from jaxvrp.io.messages import shown
from jaxvrp.io.problems.problem_files import UnknownFormatError
from jaxvrp.io.whole_files import UnreadableError, decode_text, read_bytes

DEEPEST = 32
"""Levels of nested lists and objects; the files of this project have at most ten."""

TOO_DEEP = f"more than {DEEPEST} lists and objects within each other"

LARGEST_JSON = 2**24
"""Bytes."""

MOST_VALUES = 1_000_000
"""Of a file; so many are read in a second, and take a hundred megabytes."""

MOST_DIGITS = 18
"""Of a whole number: so it fits into 64 bits."""

EXACT = 2**53
"""Up to here a number with a point says which whole number it is."""


NAMED = re.compile(rb'"format"\s*:\s*"([^"\\]*)"')
"""Where a JSON text names a format, its own or that of a part."""


def read_json(path: str | os.PathLike, remedy: str, formats: Sequence[str] = ()) -> Any:
    """The content of a JSON file; one that names formats, but none of `formats`, is not parsed.

    Stricter than JSON, so that nothing is lost or fails later: a key stands once in its object, numbers are finite,
    whole numbers have up to `MOST_DIGITS` digits, and at most `DEEPEST` lists and objects are nested. A number without
    a fraction is a whole one: `4.0` is 4.

    Raises:
        UnreadableError: it is something else; one line that names the file, what is wrong, and the remedy.
        UnknownFormatError: it names other formats; a line.
        OSError: it cannot be read.
    """
    content = read_bytes(path, LARGEST_JSON)
    named = [name.decode(errors="replace") for name in NAMED.findall(content)] if formats else []
    if named and not set(named) & set(formats):
        raise UnknownFormatError(f"{path}: format is {shown(named[0])}; it must be one of: {', '.join(formats)}")
    return json_in(content, path, remedy)


def json_in(content: bytes, path: str | os.PathLike, remedy: str) -> Any:
    """The value of the bytes of a JSON text, as of `read_json`; `path` is where they are from."""
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise UnreadableError(f"{path} holds more than {MOST_VALUES} values", "give a smaller file")
    text = decode_text(content, path, remedy)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UnreadableError(f"{path} is no JSON ({error})", remedy) from None


def parse_json(text: str) -> Any:
    """The value of a JSON text, as for `read_json`.

    Raises:
        ValueError: it is something else; the message says what.
    """
    hooks: dict[str, Any] = {"parse_int": _whole_number, "parse_float": _real_number, "parse_constant": _real_number}
    try:
        value = json.loads(text, object_pairs_hook=_object, **hooks)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
    if any(isinstance(inner, list | dict) for inner in level):
        raise ValueError(TOO_DEEP)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = collections.Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the key {shown(twice)} stands twice in an object")
    return values


def _whole_number(text: str) -> int:
    digits = len(text.lstrip("-"))
    if digits > MOST_DIGITS:
        raise ValueError(f"a whole number of {digits} digits; up to {MOST_DIGITS} are read")
    return int(text)


def _real_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {shown(text)} is not finite")
    return _whole_if_it_is(value)


def _whole_if_it_is(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) <= EXACT else value


def plain(value: Any) -> Any:
    """A JSON value in which null and a key that is left out are the same, and so are `4.0` and 4."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items() if entry is not None}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else as_read(value)


def as_read(value: Any) -> Any:
    """A JSON value as `read_json` gives it: `4.0` is 4."""
    if isinstance(value, dict):
        return {name: as_read(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_read(entry) for entry in value]
    return _whole_if_it_is(value) if isinstance(value, float) else value


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
