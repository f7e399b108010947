"""Plans and episodes of truck and drone as figures, as panels of other figures, and in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from jaxvrp import pictures
from jaxvrp.envs.truck_and_drone import plan_figure
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_and_drone.played import instance_of, operations_of
from jaxvrp.envs.truck_and_drone.rules import State
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.played import from_operations


def draw_plan(
    instance: Instance, operations: Sequence[Operation], *, allow_revisits: bool = True, fig: Any = None
) -> Any:
    """The figure of a whole plan: tour and sorties on a map, and the ways and waits of truck and drone over time.

    Times, cost and verdict are those of `solution_report`, and so are the arguments. Padding is not shown. `fig` is a
    figure of matplotlib, or a part of one, to fill; None: a new one.

    Raises:
        ValueError: an instance that is a batch.
    """
    plan = from_operations(instance, operations, allow_revisits=allow_revisits)
    return plan_figure.lay_out(plan, fig=fig).figure


def draw_episode(env: TspDrone, states: State, *, fig: Any = None) -> Any:
    """The figure of one episode as by `draw_plan`; leaves of `states` are `[T+1, ...]`, what follows the end is cut.

    Raises:
        ValueError: states of no or of several episodes.
    """
    return draw_plan(instance_of(states), operations_of(states), allow_revisits=env.allow_revisits, fig=fig)


def draw_routes(
    instance: Instance,
    operations: Sequence[Operation],
    *,
    allow_revisits: bool = True,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """The axes of a map with tour and sorties: `ax`, or, if None, those of a new figure; arguments as for `draw_plan`.

    Raises:
        ValueError: an instance that is a batch.
    """
    axes = pictures.axes_of(ax, 5.4, 5.4, plan_figure.DPI, (0.2, 0.75))
    plan = from_operations(instance, operations, allow_revisits=allow_revisits)
    plan_figure.draw_map(plan, axes)
    if legend:
        keys = plan_figure.map_keys(plan)
        pictures.legend(axes, keys, loc="upper center", ncols=3, bbox_to_anchor=(0.5, -0.01))
    return axes


def draw_times(
    instance: Instance, operations: Sequence[Operation], *, allow_revisits: bool = True, ax: Any = None
) -> Any:
    """The axes of a chart of what truck and drone do over time; arguments as for `draw_routes`."""
    axes = pictures.axes_of(ax, 5.0, 1.5, plan_figure.DPI, (0.6, 0.4))
    plan_figure.draw_chart(from_operations(instance, operations, allow_revisits=allow_revisits), axes)
    return axes


def render_plan(
    instance: Instance, operations: Sequence[Operation], path: str | os.PathLike, *, allow_revisits: bool = True
) -> None:
    """Draw a whole plan to a `.png`, `.svg` or `.pdf` as `draw_plan` does, or to a `.gif`, which moves.

    An older file is replaced once the new one is complete.

    Raises:
        ValueError: another suffix, or an instance that is a batch.
        OSError: the file cannot be written.
    """
    plan_figure.write(from_operations(instance, operations, allow_revisits=allow_revisits), path)


def render_episode(env: TspDrone, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file as `render_plan` does; `states` as for `draw_episode`.

    Of an episode that has no end, what follows the last meeting or ride is not drawn.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    render_plan(instance_of(states), operations_of(states), path, allow_revisits=env.allow_revisits)


def render_of_file(instance: Instance, env: TspDrone, states: State, path: str | os.PathLike) -> None:
    """Draw one episode as `render_episode` does, with the times and places of the problem's file."""
    render_plan(instance, operations_of(states), path, allow_revisits=env.allow_revisits)
