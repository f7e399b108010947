"""Files of maps: read with every mistake named by its field, and written so that reading gives the same map."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from jaxvrp.envs.truck_drone.problem.fleet_map import Endless, FleetMap, Reach, Scale
from jaxvrp.io.clock import with_numbers
from jaxvrp.io.json_files import plain, read_json
from jaxvrp.io.problems.problem_files import DamagedFileError, UnknownFormatError
from jaxvrp.io.schema import Check, list_of, object_of_only, one_of
from jaxvrp.io.whole_files import write_text

FORMAT = "jaxvrp-truck-drone-1"

MOST_ENTRIES = 5_000
"""Nodes, customers, drones: distances between all of two kinds have to fit into memory."""


def schema(cls: type, **further: Check) -> Check:
    """The check of a part of a map in a file: fields without a default, and `further` ones, are required."""
    hints, names = get_type_hints(cls, include_extras=True), inspect.signature(cls).parameters
    checks = {name: _check(hints[name]) for name in names}
    without = {name for name, field in names.items() if field.default is inspect.Parameter.empty}
    required = {name: check for name, check in checks.items() if name in without}
    return object_of_only(further | required, {name: check for name, check in checks.items() if name not in without})


def _check(hint: Any) -> Check:
    if dataclasses.is_dataclass(hint):
        return schema(cast(type, hint))
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    # A tuple of parts, or a type beside None.
    first = _check(get_args(hint)[0])
    return list_of(first, least=1, most=MOST_ENTRIES) if get_origin(hint) is tuple else first


CHECK = schema(FleetMap, format=one_of(FORMAT))


def read_map(path: str | os.PathLike) -> FleetMap:
    """Read a map.

    Raises:
        ValueError: it is none; one line that names the file, the field, and what is wrong.
        UnknownFormatError: it names another format, or has another ending and does not hold what `.json` files do.
        OSError: it cannot be read.
    """
    try:
        content = read_json(path, "write a map as docs/your_map.md describes", (FORMAT,))
    except ValueError as error:
        if Path(path).suffix.lower() == ".json":
            raise
        raise UnknownFormatError(str(error)) from None
    try:
        return parse_map(content)
    except ValueError as error:
        raise _kind_of_mistake(content)(f"{path}: {error}") from None


def _kind_of_mistake(content: Any) -> type[ValueError]:
    """What a mistake in a file means, by the format that it names: maps', none, or another."""
    if not (isinstance(content, dict) and "format" in content):
        return ValueError
    return DamagedFileError if content["format"] == FORMAT else UnknownFormatError


def parse_map(content: Any) -> FleetMap:
    """The map that a JSON value describes.

    Raises:
        ValueError: it is none; one line that names the field, and what is wrong.
    """
    content, _ = with_numbers(content, "customers", ("known_from", "window"))
    CHECK(content, "")
    return _parsed(FleetMap, {name: value for name, value in content.items() if name != "format"})


def _parsed(hint: Any, value: Any) -> Any:
    """The value of a field of this type, from the JSON value that was checked."""
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        given = {name: entry for name, entry in value.items() if entry is not None or _is_endless(hints[name])}
        return cast(type, hint)(**{name: _parsed(hints[name], entry) for name, entry in given.items()})
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, list):
        return tuple(_parsed(get_args(hint)[0], entry) for entry in value)
    return math.inf if value is None else value


def _is_endless(hint: Any) -> bool:
    return Endless in (hint, *get_args(hint))


def write_map(path: str | os.PathLike, fleet_map: FleetMap) -> None:
    """Write a map, one entry a line and nothing that was left out; `read_map` gives the same map.

    Raises:
        OSError: the file cannot be written.
    """
    names = ("name", "start", "units", "scale", "horizon", "truck", "reach", "nodes", "customers", "drones")
    left_out: tuple[Any, ...] = ("", None, {}, Scale(), Reach())
    content = {"format": FORMAT}
    content |= {name: _plain(value) for name in names if (value := getattr(fleet_map, name)) not in left_out}
    lines = ",\n".join(f"  {json.dumps(name)}: {_lines(value)}" for name, value in content.items())
    write_text(path, f"{{\n{lines}\n}}\n")


def _lines(value: Any) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    entries = ",\n".join(f"    {json.dumps(entry)}" for entry in value)
    return f"[\n{entries}\n  ]"


def _plain(value: Any) -> Any:
    """The JSON value of a part of a map; an `id` comes first."""
    if dataclasses.is_dataclass(value):
        fields = {"id": None, **vars(value)}
        return {name: _plain(entry) for name, entry in fields.items() if entry is not None}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return None if value == math.inf else value
