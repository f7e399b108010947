"""What people call the fields of an order, in columns of a table and in properties of a map; and an order of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxvrp.io.clock import is_time
from jaxvrp.io.limits import LARGEST
from jaxvrp.io.messages import cut, few
from jaxvrp.orders.orders import Order, Point

NAMES = {
    "id": ("id", "customer", "customer id", "order", "order id", "ref", "reference", "no", "nr"),
    "name": ("name", "customer name", "label", "title"),
    "address": ("address", "street", "street address"),
    "latitude": ("lat", "latitude"),
    "longitude": ("lon", "lng", "long", "longitude"),
    "x": ("x", "x km"),
    "y": ("y", "y km"),
    "earliest": ("from", "earliest", "start", "open", "opens", "ready", "ready time", "window start", "tw start"),
    "latest": (
        "to",
        "until",
        "latest",
        "end",
        "close",
        "closes",
        "due",
        "due date",
        "deadline",
        "window end",
        "tw end",
    ),
    "window": ("window", "time window"),
    "known": ("known", "known from", "arrival", "ordered"),
    "load": ("kg", "demand", "weight", "weight kg", "load", "quantity"),
    "service": ("service", "service min", "service minutes", "service time", "minutes", "stop time", "duration"),
}
"""By field, in small letters, with a space for any other sign."""

KNOWN = {name: field for field, names in NAMES.items() for name in names}

MOST_ORDERS = 2_000
"""Of a day: plans of more take hours."""


def field_of(name: str) -> str | None:
    """The field that a column or a property says; None if it says none."""
    return KNOWN.get(" ".join(re.findall(r"[a-z0-9]+", name.lower())))


def fields_of(names: Iterable[str]) -> dict[str, str]:
    """By field, the column or property that says it.

    Raises:
        ValueError: two say one; a line.
    """
    found: dict[str, str] = {}
    for name in names:
        field = field_of(name)
        if field in found:
            raise ValueError(f"columns '{cut(found[field])}' and '{cut(name)}' both say the {field}; leave one out")
        if field:
            found[field] = name
    return found


def order_of(values: Mapping[str, Any], where: str, names: Mapping[str, str], *, comma: bool = False) -> Order:
    """The order that the values of a row say, by field; `comma`: numbers may have a decimal comma.

    `names` are those of columns, by field, as of `fields_of`.

    Raises:
        ValueError: a value is wrong; a line that names the row and the column.
    """

    def number(field: str, least: float, most: float = LARGEST) -> float | None:
        value = values.get(field)
        if value is None or str(value).strip() == "":
            return None
        text = str(value).strip()
        try:
            found = float(text.replace(",", ".") if comma else text)
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            bound = f" from {least:g}" + (f" to {most:g}" if most < LARGEST else "") if least > -LARGEST else ""
            raise ValueError(f"{where}: {named(field)} is '{cut(text)}'; it must be a number{bound}")
        return found

    def named(field: str) -> str:
        return cut(names.get("window" if field in ("earliest", "latest") and "window" in names else field, field))

    def time(field: str) -> str | float | None:
        value = values.get(field)
        return str(value).strip() if is_time(value) else number_or_time(field)

    def number_or_time(field: str) -> float | None:
        try:
            if re.fullmatch(r"0\d+", str(values.get(field)).strip()):  # 0830
                raise ValueError
            return number(field, 0)
        except ValueError:
            text, remedy = cut(str(values[field]).strip()), "write a time as 08:30, or minutes since the fleet's start"
            raise ValueError(f"{where}: {named(field)} is '{text}'; {remedy}") from None

    values = _with_window(values, where)
    texts = [str(values[field]).strip() for field in ("id", "name") if str(values.get(field) or "").strip()]
    address = str(values.get("address") or "").strip() or (texts[1] if len(texts) > 1 else "")
    return Order(
        name=texts[0] if texts else where,
        place=_place(values, number, where),
        where=where,
        earliest=time("earliest"),
        latest=time("latest"),
        known=time("known"),
        load=number("load", 0),
        service=number("service", 0),
        address=address,
    )


def _with_window(values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Both ends of a window that one column says: `08:00-12:00`, or a list of two."""
    window = values.get("window")
    if not window:
        return values
    ends = window if isinstance(window, list) else re.split(r"\s*[-\u2013]\s*", str(window))
    if len(ends) != 2:
        raise ValueError(f"{where}: window is '{cut(str(window))}'; write it as 08:00-12:00")
    return {**values, "earliest": ends[0], "latest": ends[1]}


def _place(values: Mapping[str, Any], number: Any, where: str) -> Point:
    if "latitude" in values:
        found = number("latitude", -90, 90), number("longitude", -180, 180)
    else:
        found = number("x", -LARGEST), number("y", -LARGEST)
    if None in found:
        raise ValueError(f"{where} has no coordinates; give them, or leave the row out")
    return found


def ignored_words(ignored: Sequence[str]) -> str:
    """The line that says which columns were not read; "" if all were."""
    return f"not read, as their names say nothing here: {few(ignored)}" if ignored else ""
