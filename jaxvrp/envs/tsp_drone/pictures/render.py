"""Pictures of plans and episodes, in files.

matplotlib and pillow are imported inside the functions: the simulator does not need them. No display and no global
state is touched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from jaxvrp import pictures
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.pictures.animation import write_animation
from jaxvrp.envs.tsp_drone.pictures.draw import DPI, draw_plan
from jaxvrp.envs.tsp_drone.played import from_operations, instance_of, operations_of
from jaxvrp.envs.tsp_drone.problem.instance import Instance
from jaxvrp.envs.tsp_drone.problem.operations import Operation
from jaxvrp.envs.tsp_drone.rules import State


def render_plan(
    instance: Instance, operations: Sequence[Operation], path: str | os.PathLike, *, allow_revisits: bool = True
) -> None:
    """Draw a whole plan: tour and sorties on a map, and who was on the way and who waited over time.

    Times, cost and verdict are those of `solution_report`. A file that is there already is replaced once the new one is
    complete.

    Args:
        instance: one problem, NumPy or JAX; padding is not shown.
        operations, allow_revisits: as for `solution_report`.
        path: `.png`, `.svg` or `.pdf`; `.gif` for an animation.

    Raises:
        ValueError: another suffix, or an instance that is a batch.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "a plan",
        lambda: draw_plan(instance, operations, allow_revisits=allow_revisits),
        lambda partial: write_animation(from_operations(instance, operations, allow_revisits=allow_revisits), partial),
        dpi=DPI,
    )


def render_episode(env: TspDrone, states: State, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
            Of an episode that has no end, what follows the last meeting or ride is not drawn.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for the picture of `render_plan`.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    render_plan(instance_of(states), operations_of(states), path, allow_revisits=env.allow_revisits)
