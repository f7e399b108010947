"""A story for environments that write none: what their states say by themselves.

Numbers with two entries are places: those that change are vehicles on the map, those that do not stand there. All other
fields that change are charts over the steps: bars while something is true, and lines of numbers. Metrics are the
summary, and charts, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxvrp import registry
from jaxvrp.episodes import Episode
from jaxvrp.io.messages import number
from jaxvrp.show.common import mean_return
from jaxvrp.spaces import Discrete, agent_names
from jaxvrp.story import Bar, Card, Chart, Lines, Place, Row, Rows, Story, Units, Vehicle

MOST_LINES = 8
"""Of a chart; of a field with more entries the mean is shown."""

MOST_ROWS = 24
MOST_CHARTS = 12

NO_PLACES = ("velocity", "speed", "window", "size", "force", "range")
"""Words in the names of fields whose two entries are no place."""


def story_of(episode: Episode, problem: Any = None) -> Story:
    """The story of a `whole` episode; a problem's own names are not known here."""
    fields = dict(_fields(episode.states))
    still = {name: values for name, values in fields.items() if (values == values[:1]).all()}
    moving = {name: values for name, values in fields.items() if name not in still}
    tracks = {name: values for name, values in moving.items() if _is_place(name, values)}
    vehicles = [vehicle for name, values in tracks.items() for vehicle in _vehicles(name, values)]
    vehicles = [dataclasses.replace(vehicle, colour=colour) for colour, vehicle in enumerate(vehicles)]
    last = len(episode.timesteps.terminated) - 1
    charted = {name: values for name, values in moving.items() if name not in tracks and name != "step"}
    metrics = {name: np.asarray(values) for name, values in episode.timesteps.metrics.items()}
    return Story(
        title=registry.name_of(episode.env),
        summary=(("return", number(mean_return(episode.timesteps.reward))), *_figures(metrics), ("steps", str(last))),
        verdict="",
        is_feasible=True,
        units=Units("step"),
        span=(0.0, float(last)),
        clocks=tuple(map(float, range(last + 1))),
        places=tuple(
            place for name, values in still.items() if _is_place(name, values) for place in _places(name, values[0])
        ),
        vehicles=tuple(vehicles),
        charts=tuple(_charts({**charted, **{name: values for name, values in metrics.items() if name not in charted}})),
        cards=_cards(episode, vehicles),
        actions={
            name: tuple(f"action {index}" for index in range(role.action.num_actions))
            if isinstance(role.action, Discrete)
            else None
            for name, role in episode.env.roles.items()
        },
    )


def _fields(states: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The fields of states, by their name; those of keys, of nothing, and of more than two axes are left out."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(states):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            continue
        values = np.asarray(leaf)
        name = " ".join(str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", "")))) for key in path)
        if values.size and (values.ndim <= 2 or _is_place(name, values)):
            yield name.removeprefix("instance ").replace("_", " "), values


def _is_place(name: str, values: np.ndarray) -> bool:
    """Whether `values`, `[L, ...]`, are a place in each state, or several."""
    has_two = values.ndim in (2, 3) and values.shape[-1] == 2 and np.issubdtype(values.dtype, np.floating)
    return has_two and bool(np.isfinite(values).all()) and not any(word in name for word in NO_PLACES)


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name} {index}" for index in range(count)]


def _places(name: str, points: np.ndarray) -> Iterator[Place]:
    points = points.reshape(-1, 2)
    for label, each, point in zip(range(len(points)), _numbered(name, len(points)), points.tolist(), strict=True):
        yield Place(each, str(label) if len(points) > 1 else "", "node", (point[0], point[1]))


def _vehicles(name: str, values: np.ndarray) -> Iterator[Vehicle]:
    tracks = values.reshape(len(values), -1, 2)
    for index, each in enumerate(_numbered(name, tracks.shape[1])):
        track = tuple((float(step), (float(x), float(y))) for step, (x, y) in enumerate(tracks[:, index]))
        yield Vehicle(each, str(index), "vehicle", 0, track)


def _figures(metrics: dict[str, np.ndarray]) -> Iterator[tuple[str, str]]:
    """The metrics of the last state that are one number each."""
    return ((name.replace("_", " "), number(float(of[-1]))) for name, of in metrics.items() if of.ndim == 1)


def _charts(fields: dict[str, np.ndarray]) -> list[Chart]:
    """Charts of fields `[L]` or `[L, N]` that change, the first of them."""
    changing = ((name, values) for name, values in fields.items() if not (values == values[:1]).all())
    return [_chart(name.replace("_", " "), values) for name, values in changing][:MOST_CHARTS]


def _chart(name: str, values: np.ndarray) -> Chart:
    columns = values.reshape(len(values), -1)
    if values.dtype == bool and columns.shape[1] <= MOST_ROWS:
        names = _numbered(name, columns.shape[1])
        return Rows(name, tuple(Row(each, _bars(column)) for each, column in zip(names, columns.T, strict=True)))
    numbers = columns.astype(np.float64)
    names = _numbered(name, columns.shape[1])
    if len(names) > MOST_LINES:
        numbers, names = numbers.mean(axis=1, keepdims=True), [f"mean of {len(names)}"]
    lines = zip(names, numbers.T, strict=True)
    return Lines(name, tuple((each, None, _points(column)) for each, column in lines))


def _points(column: np.ndarray) -> tuple[tuple[float, float], ...]:
    """The finite numbers of all steps."""
    return tuple((float(step), float(value)) for step, value in enumerate(column) if np.isfinite(value))


def _bars(column: np.ndarray) -> tuple[Bar, ...]:
    """The stretches of steps in which something is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], column, [False]])))
    last = len(column) - 1.0
    return tuple(
        Bar(float(begin), min(float(end), last), "window", thick=0.6)
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    )


def _cards(episode: Episode, vehicles: list[Vehicle]) -> tuple[Card, ...]:
    """A card for each agent that is there; with its vehicle where there are as many of these as agents."""
    valid = episode.timesteps.valid
    names = [
        name
        for role, all_names in agent_names(episode.env.roles).items()
        for row, name in enumerate(all_names)
        if role not in valid or valid[role][0][row]
    ]
    nothing = (("", "", False),) * len(episode.timesteps.terminated)
    if len(names) == len(vehicles):
        return tuple(Card(name, agent, agent) for agent, name in enumerate(names))
    return tuple(Card(name, agent, steps=nothing) for agent, name in enumerate(names))
