"""Driven days as figures, as panels of other figures, and in files.

Functions take the environment and the states of steps 0..T, leaves `[T + 1]`; what follows the end is cut, and a
ValueError says that states are of no or of several episodes. `fig` and `ax` of matplotlib are filled; None makes a new
one.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from jaxvrp import pictures
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.pictures import day_figure
from jaxvrp.envs.dispatch.played import PlayedDay, day_of
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.rules import State

DPI = 120


def draw_episode(env: Dispatch, states: State, *, fig: Any = None) -> Any:
    """Draw a whole day: driven routes on a map, requests of each vehicle over time, answers so far."""
    return day_figure.lay_out(day_of(env, states), DPI, fig).figure


def draw_routes(env: Dispatch, states: State, *, legend: bool = True, ax: Any = None) -> Any:
    """Draw the driven routes and all requests on a map, with a legend below it or without; returns the axes."""
    day, axes = day_of(env, states), pictures.axes_of(ax, 5.4, 5.4, DPI, (0.2, 0.75))
    day_figure.draw_map(day, axes)
    if legend:
        pictures.legend(
            axes, day_figure.map_keys(day), loc="upper center", ncols=4, bbox_to_anchor=(0.5, -0.01), handlelength=2.6
        )
    return axes


def draw_lanes(env: Dispatch, states: State, *, ax: Any = None) -> Any:
    """Draw a lane of requests over time for each vehicle, and one for those rejected; returns the axes."""
    day = day_of(env, states)
    axes = pictures.axes_of(ax, 5.0, day_figure.lanes_high(day), DPI, (0.9, 0.4))
    day_figure.draw_lanes(day, axes)
    return axes


def draw_answers(env: Dispatch, states: State, *, ax: Any = None) -> Any:
    """Draw how many requests have been accepted and rejected so far, over time; returns the axes."""
    axes = pictures.axes_of(ax, 5.0, 1.2, DPI, (0.9, 0.4))
    day_figure.draw_answers(day_of(env, states), axes)
    return axes


def render_episode(env: Dispatch, states: State, path: str | os.PathLike) -> None:
    """Draw one day to a `.png`, `.svg` or `.pdf`, or as it goes on to a `.gif`; an older file is replaced at the end.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    _write(lambda: day_of(env, states), path)


def render_of_file(named: NamedDay, env: Dispatch, states: State, path: str | os.PathLike) -> None:
    """`render_episode` of a day of a file, with its names and its clock; errors as there, and of moments."""
    _write(lambda: dataclasses.replace(day_of(env, states), names=named.vehicles, clock=named.clock), path)


def _write(day: Callable[[], PlayedDay], path: str | os.PathLike) -> None:
    pictures.write_picture(
        path,
        "an episode",
        lambda: day_figure.lay_out(day(), DPI).figure,
        lambda partial: day_figure.write_animation(day(), partial),
        dpi=DPI,
    )
