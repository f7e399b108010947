"""What people call the fields of an order, in columns of a table and in properties of a map; and an order of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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


class _Row(NamedTuple):
    """What a row says, by field, without what is empty; `names` are those of columns; `comma`: before decimals."""

    said: Mapping[str, str]
    where: str
    names: Mapping[str, str]
    comma: bool

    def number(self, field: str, least: float, most: float = LARGEST) -> float | None:
        """The number of a field; None if it is empty."""
        if field not in self.said:
            return None
        if not least <= (found := self._real(field)) <= most:
            bound = f" from {least:g}" if least > -LARGEST else ""
            raise self._wrong(field, f"it must be a number{bound}" + (f" to {most:g}" if most < LARGEST else ""))
        return found

    def time(self, field: str) -> str | float | None:
        """A time of the clock, or minutes; None if it is empty."""
        text = self.said.get(field)
        if text is None or is_time(text):
            return text
        found, is_bare_clock = self._real(field), re.fullmatch(r"0\d+", text)  # 0830
        if is_bare_clock or not 0 <= found <= LARGEST:
            raise self._wrong(field, "write a time as 08:30, or minutes since the fleet's start")
        return found

    def _real(self, field: str) -> float:
        text = self.said[field]
        try:
            return float(text.replace(",", ".") if self.comma else text)
        except ValueError:
            return math.nan

    def _wrong(self, field: str, remedy: str) -> ValueError:
        column = "window" if field in ("earliest", "latest") and "window" in self.names else field
        return ValueError(f"{self.where}: {cut(self.names.get(column, column))} is '{cut(self.said[field])}'; {remedy}")


def order_of(values: Mapping[str, Any], where: str, names: Mapping[str, str], *, comma: bool = False) -> Order:
    """The order that the values of a row say, by field; `comma`: numbers may have a decimal comma.

    `names` are those of columns, by field, as of `fields_of`.

    Raises:
        ValueError: a value is wrong; a line that names the row and the column.
    """
    values = _with_window(values, where)
    texts = {field: str(value).strip() for field, value in values.items() if value is not None}
    said = {field: text for field, text in texts.items() if text}
    row, name = _Row(said, where, names, comma), said.get("name", "")
    return Order(
        name=said.get("id") or name or where,
        place=_place(row, is_degrees="latitude" in values),
        where=where,
        earliest=row.time("earliest"),
        latest=row.time("latest"),
        known=row.time("known"),
        load=row.number("load", 0),
        service=row.number("service", 0),
        address=said.get("address") or (name if "id" in said else ""),
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


def _place(row: _Row, *, is_degrees: bool) -> Point:
    bounds = {"latitude": (-90, 90), "longitude": (-180, 180)} if is_degrees else {"x": (-LARGEST,), "y": (-LARGEST,)}
    first, second = (row.number(field, *bound) for field, bound in bounds.items())
    if first is None or second is None:
        raise ValueError(f"{row.where} has no coordinates; give them, or leave the row out")
    return first, second


def ignored_words(ignored: Sequence[str]) -> str:
    """The line that says which columns were not read; "" if all were."""
    return f"not read, as their names say nothing here: {few(ignored)}" if ignored else ""
