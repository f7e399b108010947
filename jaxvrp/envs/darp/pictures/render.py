"""Pictures of dial-a-ride plans and episodes, in files.

matplotlib and pillow are imported inside the functions: the simulator does not need them. No display and no global
state is touched.
"""

from __future__ import annotations

import os

from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.pictures.animation import write_animation
from jaxvrp.envs.darp.pictures.draw import DPI, draw_episode, draw_plan
from jaxvrp.envs.darp.played import plan_of
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.rules import State


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
