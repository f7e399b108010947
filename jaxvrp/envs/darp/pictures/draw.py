"""Dial-a-ride plans and episodes as figures, as panels of other figures, and in files.

Functions of a plan take `instance`, `actions` and `tolerance` as `solution_report` does, and show its times, cost and
verdict; padding is not shown. They raise its errors: a ValueError for `actions` that are no whole numbers, or a batch.
Functions of an episode take the states of steps 0..T, leaves `[T+1]`; what follows the end is cut, and a ValueError
says that states are of no or of several episodes. `fig` and `ax` of matplotlib are filled; None makes a new one.
"""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.pictures import plan_figure
from jaxvrp.envs.darp.pictures.animation import write_animation
from jaxvrp.envs.darp.played import Plan, actions_of, from_actions, plan_of
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.rules import State

DPI = 120


def draw_plan(instance: Instance, actions: ArrayLike, *, tolerance: float | None = None, fig: Any = None) -> Any:
    """Draw a whole plan: routes on a map, loads over time, windows and rides of all requests; returns the figure."""
    return plan_figure.lay_out(from_actions(instance, actions, tolerance), DPI, fig=fig).figure


def draw_episode(env: Darp, states: State, *, fig: Any = None) -> Any:
    """Draw one episode as `draw_plan` does."""
    del env
    return plan_figure.lay_out(plan_of(states), DPI, fig=fig).figure


def draw_routes(
    instance: Instance, actions: ArrayLike, *, tolerance: float | None = None, legend: bool = True, ax: Any = None
) -> Any:
    """Draw the routes of a plan on a map, with a legend below it or without; returns the axes."""
    plan = from_actions(instance, actions, tolerance)
    axes = pictures.axes_of(ax, 5.2, 5.2, DPI, (0.2, 0.75))
    plan_figure.draw_map(plan_figure.panel(plan, axes))
    if legend:
        keys = [*plan_figure.node_keys(), *plan_figure.vehicle_keys(plan)]
        pictures.legend(axes, keys, loc="upper center", ncols=4, bbox_to_anchor=(0.5, -0.01), handlelength=2.6)
    return axes


def draw_loads(instance: Instance, actions: ArrayLike, *, tolerance: float | None = None, ax: Any = None) -> Any:
    """Draw the passengers on board of each vehicle over time; returns the axes."""
    plan = from_actions(instance, actions, tolerance)
    axes = pictures.axes_of(ax, 5.0, max(0.7, 0.55 * len(plan.used)), DPI, (0.8, 0.4))
    plan_figure.draw_loads(plan_figure.panel(plan, axes))
    return axes


def draw_requests(instance: Instance, actions: ArrayLike, *, tolerance: float | None = None, ax: Any = None) -> Any:
    """Draw a row for each request: time windows, service and ride; returns the axes."""
    plan = from_actions(instance, actions, tolerance)
    axes = pictures.axes_of(ax, 5.0, max(0.5, 0.27 * len(plan.requests)), DPI, (0.5, 0.4))
    plan_figure.draw_rows(plan_figure.panel(plan, axes))
    return axes


def render_plan(
    instance: Instance, actions: ArrayLike, path: str | os.PathLike, *, tolerance: float | None = None
) -> None:
    """Draw a whole plan to a `.png`, `.svg` or `.pdf`; an older file is replaced once the new one is complete.

    Another suffix is a ValueError; a file that cannot be written an OSError.
    """
    pictures.write_picture(path, "a plan", lambda: draw_plan(instance, actions, tolerance=tolerance), dpi=DPI)


def render_episode(env: Darp, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file, as `render_plan` does, or as an animation (`.gif`), vehicle after vehicle.

    The times are those of `solution_report`, which may serve later than the clock of the states.
    """
    del env
    _render(plan_of(states), path)


def render_of_file(instance: Instance, env: Darp, states: State, path: str | os.PathLike) -> None:
    """Draw one episode as `render_episode` does, with the times and places of the problem's file."""
    del env
    _render(from_actions(instance, actions_of(states)), path)


def _render(plan: Plan, path: str | os.PathLike) -> None:
    def figure() -> Any:
        return plan_figure.lay_out(plan, DPI).figure

    def animate(partial: Any) -> None:
        write_animation(plan, partial)

    pictures.write_picture(path, "an episode", figure, animate, dpi=DPI)
