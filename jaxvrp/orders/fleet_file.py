"""The file of a fleet: depot, start and end of the day, vans and drones; YAML, in clock times, km, km/h and kg."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from jaxvrp.geography.street_files import StreetTable, read_streets
from jaxvrp.io.clock import clock_at
from jaxvrp.io.limits import LARGEST, MOST_VEHICLES
from jaxvrp.io.schema import Check, all_of, anything, number_from, object_of_only, one_of, text, whole_number
from jaxvrp.io.yaml_text import read_yaml
from jaxvrp.orders.orders import Fleet, Kind

CARRIED = "van"
"""Where drones start that a van carries."""

POSITIVE, NOT_NEGATIVE, ANYWHERE = number_from(0, with_least=False), number_from(0), number_from(-LARGEST)


def _degrees(most: float) -> Check:
    def check(value: Any, where: str) -> None:
        if abs(value) > most:
            raise ValueError(f"{where} is {value:g}; it must be from -{most:g} to {most:g}")

    return all_of(number_from(-LARGEST), check)


COUNT = whole_number(below=MOST_VEHICLES + 1, least=1)

VAN: tuple[dict[str, Check], dict[str, Check]] = (
    {},
    {
        "speed": POSITIVE,
        "matrix": text,
        "count": COUNT,
        "capacity": POSITIVE,
        "stop": NOT_NEGATIVE,
        "turnaround": NOT_NEGATIVE,
        "detour": number_from(1),
    },
)
DRONE = (
    {"speed": POSITIVE, "range": POSITIVE},
    {
        "count": COUNT,
        "capacity": POSITIVE,
        "stop": NOT_NEGATIVE,
        "turnaround": NOT_NEGATIVE,
        "from": one_of("depot", CARRIED),
    },
)
FLEET = object_of_only(
    {
        "start": anything,
        "end": anything,
        "depot": object_of_only({}, {"lat": _degrees(90), "lon": _degrees(180), "x": ANYWHERE, "y": ANYWHERE}),
        "vans": object_of_only(*VAN),
    },
    {"drones": object_of_only(*DRONE)},
)


def read_fleet(path: str | os.PathLike) -> Fleet:
    """The fleet of a file.

    Raises:
        ValueError: it is none; one line that names the file and the field.
        OSError: it cannot be read.
    """
    content = read_yaml(Path(path))
    try:
        FLEET(content, "")
        return _fleet(path, content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _fleet(path: str | os.PathLike, content: dict[str, Any]) -> Fleet:
    depot, clock = content["depot"], clock_at(content["start"], "start")
    clock_at(content["end"], "end")  # refuses what is no time
    if depot.keys() not in ({"lat", "lon"}, {"x", "y"}):
        raise ValueError("depot needs lat and lon, or x and y in kilometres")
    horizon = clock.since(content["end"])
    if not horizon:
        raise ValueError("end is the start; give the time when all are home")
    vans = {"count": 1, **content["vans"]}
    streets = _streets(path, vans)
    drones = dict(content.get("drones", {}))
    start = drones.pop("from", CARRIED if vans["count"] == 1 else "depot") if drones else "depot"
    if start == CARRIED and vans["count"] > 1:
        raise ValueError("drones.from: one van can carry drones, several cannot here; let them fly from the depot")
    return Fleet(
        path,
        (depot["lat"], depot["lon"]) if "lat" in depot else (depot["x"], depot["y"]),
        "lat" in depot,
        clock,
        horizon,
        Kind(**vans),
        dataclasses.replace(Kind(count=1), **drones) if drones else Kind(),
        start == CARRIED,
        streets,
    )


def _streets(path: str | os.PathLike, vans: dict[str, Any]) -> StreetTable | None:
    """The table that vans drive along, whose file is named from the folder of the fleet's; it leaves `vans`.

    Raises:
        ValueError: they have a speed, too, or neither.
    """
    name = vans.pop("matrix", None)
    for field in ("speed", "detour"):
        if name is not None and field in vans:
            raise ValueError(f"vans.{field}: vans.matrix says how long they drive; leave one of them out")
    if name is None and "speed" not in vans:
        raise ValueError("vans.speed is missing; give it in km/h, or vans.matrix, a file of street times")
    return None if name is None else read_streets(Path(path).parent / name)
