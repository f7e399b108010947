"""Customers from a table, as spreadsheets and other programs write it, or from the points of a GeoJSON."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

from jaxvrp.io.json_files import read_json
from jaxvrp.io.messages import few
from jaxvrp.io.whole_files import LARGEST_TEXT, decode_text, read_bytes
from jaxvrp.orders.fields import MOST_ORDERS, field_of, fields_of, order_of
from jaxvrp.orders.orders import Order, Orders, refuse_same_names

SEPARATORS = ";\t,"
"""Of columns; a comma may also stand in a number."""

REMEDY = "give a table with a column for each of id, lat, lon, from, to, kg"

COLLECTION = "FeatureCollection"


def read_orders(path: str | os.PathLike) -> Orders:
    """The customers of a `.geojson` or a `.json` of points, or of a table with any other ending.

    Raises:
        ValueError: it holds none; one line that names the file, the row, and the column.
        OSError: it cannot be read.
    """
    try:
        is_map = Path(path).suffix.lower() in (".geojson", ".json")
        orders = _of_points(path, read_json(path, "give a GeoJSON")) if is_map else _of_table(path)
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}, {error}") from None
    if not orders.orders:
        raise ValueError(f"{path} has no customers; {REMEDY}")
    if len(orders.orders) > MOST_ORDERS:
        count = len(orders.orders)
        raise ValueError(f"{path} has {count} customers; up to {MOST_ORDERS} are planned at once: give a part of them")
    refuse_same_names(path, orders.orders)
    return orders


def _of_table(path: str | os.PathLike) -> Orders:
    text = decode_text(read_bytes(path, LARGEST_TEXT), path, REMEDY)
    head, _, _ = text.lstrip().partition("\n")
    separator = max(SEPARATORS, key=head.count)
    rows = csv.reader(text.splitlines(keepends=True), delimiter=separator, skipinitialspace=True)
    names = [name.strip() for name in next((row for row in rows if any(row)), [])]
    fields = fields_of(names)
    if names and not ({"latitude", "longitude"} <= fields.keys() or {"x", "y"} <= fields.keys()):
        raise ValueError(f"line {rows.line_num}: no coordinates among the columns {few(names)}; {REMEDY}")
    orders = []
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        where = f"line {rows.line_num}"
        if len(row) > len(names) and any(cell.strip() for cell in row[len(names) :]):
            raise ValueError(f"{where} has {len(row)} cells, and the head {len(names)}; put texts in quotes")
        cells = dict(zip(names, [*row, *[""] * len(names)], strict=False))
        values = {field: cells[name] for field, name in fields.items()}
        orders.append(order_of(values, where, fields, comma=separator != ","))
    ignored = tuple(name for name in names if name and not field_of(name))
    return Orders(path, tuple(orders), "latitude" in fields, ignored)


def _of_points(path: str | os.PathLike, content: Any) -> Orders:
    if not (isinstance(content, dict) and content.get("type") == COLLECTION):
        raise ValueError(f"type: expected a GeoJSON, of type {COLLECTION}")
    if not isinstance(features := content.get("features"), list):
        raise ValueError("features: expected a list of points")
    orders, ignored = [], dict[str, None]()
    for index, feature in enumerate(features):
        orders.append(_of_point(feature, f"features[{index}]"))
        ignored |= dict.fromkeys(name for name in feature.get("properties") or {} if not field_of(name))
    return Orders(path, tuple(orders), True, tuple(ignored))


def _of_point(feature: Any, where: str) -> Order:
    geometry = feature.get("geometry") if isinstance(feature, dict) else None
    place = geometry.get("coordinates") if isinstance(geometry, dict) and geometry.get("type") == "Point" else None
    if not (isinstance(place, list) and len(place) in (2, 3)):
        raise ValueError(f"{where} is no point with coordinates; give points alone")
    properties = feature.get("properties") or {}
    if not isinstance(properties, dict):
        raise ValueError(f'{where}.properties: expected an object, as {{"id": "A", "kg": 2}}')
    names = fields_of(properties)
    values = {field: properties[name] for field, name in names.items()}
    if "id" not in values and "id" in feature:
        values["id"] = feature["id"]
    return order_of({**values, "longitude": place[0], "latitude": place[1]}, where, names)
