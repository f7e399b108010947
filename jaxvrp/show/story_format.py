"""A `Story` as JSON: an object for each dataclass, a list for each tuple. What a file must hold follows from the types.

A number is the shortest that reads back as the same float32; from 10 000 on, as of clocks and maps that begin
elsewhere, it has three decimals, which are more than a float32 has there. One that is not finite is null.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp import story
from jaxvrp.io import schema
from jaxvrp.io.schema import Check

EXACT = 1e4
"""From here on, three decimals are finer than a float32."""

BESIDE = ("title", "shortfall", "lost", "actions", "why", "instead", "episode")
"""Fields that stand among the entries that episodes of all kinds have."""

OPTIONAL = {"clock"}
"""Entries that stand in the JSON only where they say something."""

HELD = (story.Standing, story.Aim)
"""Dataclasses whose sequences ascend by their `time`, as pairs do by their first entry."""


def to_json_values(value: Any) -> Any:
    """A story, or a part of one, as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {name: getattr(value, name) for name in _hints(type(value))}
        return {name: to_json_values(each) for name, each in fields.items() if each is not None or name not in OPTIONAL}
    if isinstance(value, Mapping):
        return {str(name): to_json_values(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_values(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return _decimal(value) if isinstance(value, float) else value


def _decimal(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    return float(str(np.float32(value))) if abs(value) < EXACT else round(value, 3)


def check_story(episode: Mapping[str, Any]) -> None:
    """Raise a ValueError, one line, unless the story of an episode, whose other entries are right, can be drawn."""
    values = episode["story"]
    schema.object_with(vehicles=schema.list_of(schema.object_with(), least=0))(values, "story")
    counts = {"steps": len(episode["steps"]), "agents": len(episode["agents"]), "vehicles": len(values["vehicles"])}
    _check_of(story.Story, counts)(values, "story")
    of_states = schema.list_of(schema.anything, counts["steps"])
    of_states(values["clocks"], "story.clocks")
    for at, card in enumerate(values["cards"]):
        if card["vehicle"] is None:
            of_states(card["steps"], f"story.cards[{at}].steps")


def _check_of(kind: Any, counts: Mapping[str, int]) -> Check:
    """A check for the JSON of a type of `jaxvrp.story`; indices are below their `counts`."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return schema.one_of(*inner[1]) if inner[0] is str else schema.whole_number(counts.get(inner[1]))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        checks = {name: _check_of(hint, counts) for name, hint in _hints(kind).items()}
        later = {name: checks.pop(name) for name in OPTIONAL & checks.keys()}
        return schema.all_of(schema.object_with(**checks), schema.optional_keys(**later))
    if origin is tuple:
        return _check_of_tuple(inner, counts)
    if origin is Mapping:
        return schema.object_of(_check_of(inner[1], counts))
    if inner:
        return _check_of_union(inner, counts)
    return {float: schema.number, int: schema.whole_number(), bool: schema.boolean, str: schema.text}[kind]


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass that stand in its JSON."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if kind is not story.Story or name not in BESIDE}


def _check_of_tuple(inner: Sequence[Any], counts: Mapping[str, int]) -> Check:
    if inner[-1] is not Ellipsis:
        return schema.list_of_each(*(_check_of(each, counts) for each in inner))
    every = schema.list_of(_check_of(inner[0], counts))
    is_pair = typing.get_origin(inner[0]) is tuple and typing.get_args(inner[0])[0] in (float, story.StateIndex)
    if inner[0] in HELD:
        return schema.all_of(every, _ascending("time"))
    return schema.all_of(every, _ascending(0)) if is_pair and inner[0] != story.Point else every


def _check_of_union(kinds: Sequence[Any], counts: Mapping[str, int]) -> Check:
    """A check for a value or null; or for an object of one of several dataclasses: of that which has all its keys."""
    if type(None) in kinds:
        return schema.optional(_check_of(next(kind for kind in kinds if kind is not type(None)), counts))
    checks = {tuple(_hints(kind)): _check_of(kind, counts) for kind in kinds}
    wanted = "; or ".join(", ".join(keys) for keys in checks)

    def check(value: Any, where: str) -> None:
        schema.object_with()(value, where)
        fitting = next((inner for keys, inner in checks.items() if set(keys) <= set(value)), None)
        if fitting is None:
            raise ValueError(f"{where} has not the keys of any chart; give it {wanted}")
        fitting(value, where)

    return check


def _ascending(key: Any) -> Check:
    """A check for lists whose entries do not go back in time."""

    def check(value: Any, where: str) -> None:
        for at in range(1, len(value)):
            if value[at][key] < value[at - 1][key]:
                raise ValueError(f"{where}[{at}] is earlier than the entry before it; times must ascend")

    return check
