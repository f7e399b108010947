"""A plan as GeoJSON (RFC 7946), for any viewer of maps: the tour of each vehicle as a line, its visits as points."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from jaxvrp.io.whole_files import write_json
from jaxvrp.orders.visits import Visit, by_vehicle, of_plan

ENDING = ".geojson"

PROPERTIES = ("vehicle", "what", "name", "time", "window", "load", "address")
"""Of a visit."""


def write_geojson(path: str | os.PathLike, plan: Mapping[str, Any]) -> None:
    """Write a plan with visits in degrees, whole or not at all.

    Raises:
        ValueError: its places were given in kilometres.
        OSError: the file cannot be written.
    """
    if not all(visit.degrees for visit in of_plan(plan)):
        raise ValueError("the places of the plan have no latitude and longitude; write it to .csv or .json")
    features = [each for tour in by_vehicle(plan).values() for each in _of(tour)]
    write_json(path, {"type": "FeatureCollection", "features": features})


def _of(tour: Sequence[Visit]) -> list[dict[str, Any]]:
    """The line of a tour, which has at least two places, and a point for each visit."""
    if not tour:
        return []
    points = [
        _feature("Point", _place(visit), number=number, **{name: getattr(visit, name) for name in PROPERTIES})
        for number, visit in enumerate(tour)
    ]
    kind = "drone" if tour[0].is_drone else "van"
    return [_feature("LineString", [_place(visit) for visit in tour], vehicle=tour[0].vehicle, kind=kind), *points]


def _feature(shape: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": shape, "coordinates": coordinates}, "properties": properties}


def _place(visit: Visit) -> tuple[float, float]:
    """Longitude comes first in GeoJSON."""
    assert visit.degrees
    latitude, longitude = visit.degrees
    return longitude, latitude
