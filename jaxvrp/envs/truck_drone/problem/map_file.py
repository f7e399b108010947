"""Maps as JSON files: read with every mistake named by its field, and written so that reading gives the same map."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxvrp.envs.truck_drone.problem.fleet_map import Customer, Drone, FleetMap, Node, Reach, Scale, Truck
from jaxvrp.io.json_files import read_json
from jaxvrp.io.limits import LARGEST
from jaxvrp.io.problem_files import UnknownFormatError
from jaxvrp.io.whole_files import write_text
from jaxvrp.replay.schema import list_of, number_from, object_of_only, one_of, optional, text

FORMAT = "jaxvrp-truck-drone-1"

REMEDY = "write a map as docs/your_map.md describes"

POSITIVE, ANY = number_from(0, itself=False), number_from(-LARGEST)
NOT_NEGATIVE = number_from(0)
PLACE = list_of(ANY, length=2)
ENDLESS = optional(POSITIVE)

LISTS: Mapping[str, type] = {"nodes": Node, "customers": Customer, "drones": Drone}
OBJECTS: Mapping[str, type] = {"scale": Scale, "reach": Reach, "truck": Truck}
"""Parts of a map."""

ENDLESS_FIELDS = ("range", "hover_time", "recharge_time")
"""Of drones; null in a file, inf in a map."""

NODE = object_of_only(required={"position": PLACE}, optional={"id": text})
CUSTOMER = object_of_only(
    required={"position": PLACE, "demand": NOT_NEGATIVE},
    optional={"window": list_of(NOT_NEGATIVE, length=2), "known_from": NOT_NEGATIVE, "id": text},
)
DRONE = object_of_only(
    required={"speed": NOT_NEGATIVE, "range": ENDLESS},
    optional={
        "hover_time": ENDLESS,
        "recharge_time": ENDLESS,
        "payload_factor": NOT_NEGATIVE,
        "capacity": POSITIVE,
        "id": text,
    },
)
CHECK = object_of_only(
    required={
        "format": one_of(FORMAT),
        "horizon": POSITIVE,
        "truck": object_of_only(required={"position": PLACE, "speed": NOT_NEGATIVE}, optional={"id": text}),
        "nodes": list_of(NODE, least=1),
        "customers": list_of(CUSTOMER, least=1),
        "drones": list_of(DRONE, least=1),
    },
    optional={
        "name": text,
        "units": object_of_only({}, {"length": text, "time": text, "demand": text}),
        "scale": object_of_only({}, {"length": POSITIVE, "center": PLACE, "time": POSITIVE, "demand": POSITIVE}),
        "reach": object_of_only({}, {"delivery": POSITIVE, "recovery": NOT_NEGATIVE}),
    },
)


def read_map(path: str | os.PathLike) -> FleetMap:
    """Read a map.

    Raises:
        ValueError: it is none; one line that names the file, the field, and what is wrong.
        UnknownFormatError: it has another ending, and does not hold what `.json` files do.
        OSError: it cannot be read.
    """
    try:
        content = read_json(path, REMEDY)
    except ValueError as error:
        if Path(path).suffix.lower() == ".json":
            raise
        raise UnknownFormatError(str(error)) from None
    try:
        return parse_map(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse_map(content: Any) -> FleetMap:
    """The map that a JSON value says.

    Raises:
        ValueError: it is none; one line that names the field, and what is wrong.
    """
    CHECK(content, "")
    fields: dict[str, Any] = {name: value for name, value in content.items() if name != "format"}
    for name, cls in OBJECTS.items():
        if name in content:
            fields[name] = _entry(cls, content[name])
    for name, cls in LISTS.items():
        fields[name] = tuple(_entry(cls, entry) for entry in content[name])
    return FleetMap(**fields)


def _entry(cls: type, content: dict[str, Any]) -> Any:
    """A part of a map; lists of numbers become tuples, null an end that never comes."""
    endless = {name: math.inf for name in ENDLESS_FIELDS if name in content and content[name] is None}
    points = {name: tuple(value) for name, value in content.items() if isinstance(value, list)}
    return cls(**{**content, **points, **endless})


def write_map(path: str | os.PathLike, fleet_map: FleetMap) -> None:
    """Write a map, an entry in each line; `read_map` gives the same one.

    Raises:
        OSError: the file cannot be written.
    """
    lines = ",\n".join(f"  {json.dumps(name)}: {_lines(value)}" for name, value in as_json(fleet_map).items())
    write_text(path, f"{{\n{lines}\n}}\n")


def _lines(value: Any) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    entries = ",\n".join(f"    {json.dumps(entry)}" for entry in value)
    return f"[\n{entries}\n  ]"


def as_json(fleet_map: FleetMap) -> dict[str, Any]:
    """The JSON object of a map, without what was left out."""
    names = ["name", "units", "scale", "horizon", "truck", "reach", *LISTS]
    content = {name: getattr(fleet_map, name) for name in names}
    left_out: tuple[Any, ...] = ("", {}, Scale(), Reach())
    given = {name: _plain(value) for name, value in content.items() if value not in left_out}
    return {"format": FORMAT, **given}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        first = {"id": fields.pop("id", None)}
        return {name: _plain(entry) for name, entry in {**first, **fields}.items() if entry is not None}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return None if value == math.inf else value
