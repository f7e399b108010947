"""Pictures of one episode in files: an animation, or a still that sums it up."""

from __future__ import annotations

import os

from jaxvrp import pictures
from jaxvrp.envs.truck_drone import played
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.pictures import animation
from jaxvrp.envs.truck_drone.pictures.still import draw_episode
from jaxvrp.envs.truck_drone.world import World

DPI = 110


def render_episode(env: TruckDrone, states: World, path: str | os.PathLike) -> None:
    """Draw one episode to a file; a file that is there already is replaced once the new one is complete.

    Args:
        env: the environment that was played.
        states: the states of steps 0..T of one episode, leaves with leading axis `[T+1]`; what follows the end is cut.
        path: `.gif` for an animation; `.png`, `.svg` or `.pdf` for a still that sums the episode up.

    Raises:
        ValueError: another suffix, or states of no or of several episodes.
        OSError: the file cannot be written.
    """
    pictures.write_picture(
        path,
        "an episode",
        lambda: draw_episode(env, states),
        lambda partial: animation.write(played.from_states(env, states), float(env.max_battery), partial),
        dpi=DPI,
    )
