"""Dial-a-ride plans and episodes as figures, as panels of other figures, and in files.

matplotlib and pillow are imported inside functions: the simulator does not need them.
"""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.pictures import plan_figure
from jaxvrp.envs.darp.pictures.animation import write_animation
from jaxvrp.envs.darp.played import from_actions, plan_of
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.rules import State

DPI = 120


def draw_plan(instance: Instance, actions: ArrayLike, *, tolerance: float = 1e-4, fig: Any = None) -> Any:
    """Draw a whole plan: the routes on a map, the loads over time, windows and rides of all requests.

    Times, cost and verdict are those of `solution_report`.

    Args:
        instance: one problem, NumPy or JAX; padding is not shown.
        actions: whole numbers `[T]`, node indices as an agent plays them; 0 ends the current vehicle's tour.
        tolerance: by how much limits may be exceeded, as for `solution_report`.
        fig: a figure of matplotlib, or a part of one, to fill; None: a new one, of the size that suits.

    Returns:
        The figure.

    Raises:
        ValueError: `actions` that are no whole numbers, an instance that is a batch.
    """
    return plan_figure.lay_out(from_actions(instance, actions, tolerance), DPI, fig=fig).figure


def draw_episode(env: Darp, states: State, *, fig: Any = None) -> Any:
    """Draw one episode as `draw_plan` does.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        fig: as for `draw_plan`.

    Returns:
        The figure.

    Raises:
        ValueError: states of no or of several episodes.
    """
    del env
    return plan_figure.lay_out(plan_of(states), DPI, fig=fig).figure


def draw_routes(
    instance: Instance, actions: ArrayLike, *, tolerance: float = 1e-4, legend: bool = True, ax: Any = None
) -> Any:
    """Draw the routes of a plan on a map.

    Args:
        instance, actions, tolerance: as for `draw_plan`.
        legend: whether there is one below the map.
        ax: axes of matplotlib; None: those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: as of `draw_plan`.
    """
    plan = from_actions(instance, actions, tolerance)
    axes = pictures.axes_of(ax, 5.2, 5.2, DPI, (0.2, 0.75))
    plan_figure.draw_map(plan_figure.panel(plan, axes))
    if legend:
        keys = [*plan_figure.node_keys(), *plan_figure.vehicle_keys(plan)]
        pictures.legend(axes, keys, loc="upper center", ncols=4, bbox_to_anchor=(0.5, -0.01), handlelength=2.6)
    return axes


def draw_loads(instance: Instance, actions: ArrayLike, *, tolerance: float = 1e-4, ax: Any = None) -> Any:
    """Draw the passengers on board of each vehicle over time; arguments as for `draw_routes`."""
    plan = from_actions(instance, actions, tolerance)
    axes = pictures.axes_of(ax, 5.0, max(0.7, 0.55 * len(plan.used)), DPI, (0.8, 0.4))
    plan_figure.draw_loads(plan_figure.panel(plan, axes))
    return axes


def draw_requests(instance: Instance, actions: ArrayLike, *, tolerance: float = 1e-4, ax: Any = None) -> Any:
    """Draw a row for each request: time windows, service and ride; arguments as for `draw_routes`."""
    plan = from_actions(instance, actions, tolerance)
    axes = pictures.axes_of(ax, 5.0, max(0.5, 0.27 * len(plan.requests)), DPI, (0.5, 0.4))
    plan_figure.draw_rows(plan_figure.panel(plan, axes))
    return axes


def render_plan(instance: Instance, actions: ArrayLike, path: str | os.PathLike, *, tolerance: float = 1e-4) -> None:
    """Draw a whole plan: the routes on a map, the loads over time, windows and rides of all requests.

    Times, cost and verdict are those of `solution_report`. A file that is there already is replaced once the new one is
    complete.

    Args:
        instance: one problem, NumPy or JAX; padding is not shown.
        actions: whole numbers `[T]`, node indices as an agent plays them; 0 ends the current vehicle's tour.
        path: `.png`, `.svg` or `.pdf`.
        tolerance: by how much limits may be exceeded, as for `solution_report`.

    Raises:
        ValueError: another suffix, `actions` that are no whole numbers, an instance that is a batch.
        OSError: the file cannot be written.
    """
    pictures.write_picture(path, "a plan", lambda: draw_plan(instance, actions, tolerance=tolerance), dpi=DPI)


def render_episode(env: Darp, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    The times are those of `solution_report`, which may serve later than the clock of the states.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        path: `.gif` for an animation, vehicle after vehicle; `.png`, `.svg` or `.pdf` for the picture of `render_plan`.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "an episode",
        lambda: draw_episode(env, states),
        lambda partial: write_animation(plan_of(states), partial),
        dpi=DPI,
    )
