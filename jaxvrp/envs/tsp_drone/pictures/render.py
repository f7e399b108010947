"""Pictures of plans and episodes, in files.

matplotlib and pillow are imported inside the functions: the simulator does not need them. No display and no global
state is touched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.pictures.animation import write_animation
from jaxvrp.envs.tsp_drone.pictures.plan import Plan, from_operations
from jaxvrp.envs.tsp_drone.pictures.plan_figure import draw_plan
from jaxvrp.envs.tsp_drone.problem.instance import Instance
from jaxvrp.envs.tsp_drone.problem.solution import FIRST_SERVE, MEET, STAY_WITH_TRUCK, Operation, actions_to_operations
from jaxvrp.envs.tsp_drone.rules import State
from jaxvrp.episodes import count_states
from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures import STILLS

DPI = 120


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
    _write(from_operations(instance, operations, allow_revisits=allow_revisits), Path(path))


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
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    render_plan(instance, operations_of(states), path, allow_revisits=env.allow_revisits)


def operations_of(states: State) -> list[Operation]:
    """The operations of one episode, up to its end.

    Args:
        states: of steps 0..T, leaves with leading axis `[T+1]`.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    step = np.asarray(states.step)
    if step.ndim != 1 or step.size == 0:
        raise ValueError(f"states.step has shape {step.shape}; it needs [T+1], the states of one episode")
    last = count_states(step, states.done) - 1
    return actions_to_operations(actions_of(states, last))


def actions_of(states: State, last: int) -> dict[str, np.ndarray]:
    """The actions that were executed in the first `last` steps of one episode, `{role: i64[last, 1]}`."""
    is_away, before = np.asarray(states.is_away)[1 : last + 1], np.asarray(states.is_away)[:last]
    customer, node = (np.asarray(leaf)[1 : last + 1] for leaf in (states.drone_customer, states.truck_node))
    launched, met = is_away & ~before, before & ~is_away
    drone = np.where(launched, FIRST_SERVE + customer, np.where(met, MEET, STAY_WITH_TRUCK))
    truck = np.where(np.asarray(states.is_drones_turn)[:last], 0, node)
    return {"drone": drone[:, None], "truck": truck[:, None]}


def _write(plan: Plan, path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix not in (".gif", *STILLS):
        raise ValueError(f"cannot draw to '{path.name}': use .gif (animation), .png, .svg or .pdf (still)")
    if suffix == ".gif":
        write_whole(path, lambda partial: write_animation(plan, partial))
    else:
        pictures.save_still(draw_plan(plan, DPI).figure, path, DPI)
