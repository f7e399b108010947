"""Pictures of dial-a-ride plans and episodes, in files.

matplotlib and pillow are imported inside the functions: the simulator does not need them. No display and no global
state is touched.
"""

from __future__ import annotations

import os
from pathlib import Path

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.pictures.animation import write_animation
from jaxvrp.envs.darp.pictures.plan import Plan, from_actions
from jaxvrp.envs.darp.pictures.plan_figure import draw_plan
from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.rules import SLACK, State
from jaxvrp.episodes import count_states
from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures import STILLS

DPI = 120


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
    path = Path(path)
    if path.suffix.lower() not in STILLS:
        raise ValueError(f"cannot draw a plan to '{path.name}': use .png, .svg or .pdf")
    _write_still(from_actions(instance, actions, tolerance), path)


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
    del env
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".gif", *STILLS):
        raise ValueError(f"cannot draw an episode to '{path.name}': use .gif (animation), .png, .svg or .pdf (still)")
    actions = actions_of(states)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    plan = from_actions(instance, actions, SLACK)
    if suffix == ".gif":
        write_whole(path, lambda partial: write_animation(plan, partial))
    else:
        _write_still(plan, path)


def actions_of(states: State) -> np.ndarray:
    """The actions that were executed in one episode, up to its end.

    Args:
        states: of steps 0..T, leaves with leading axis `[T+1]`. The episode ends with the first that is `done`, or
            before `step` stands still or falls back (a reset).

    Returns:
        `i64[actions]`, for `solution_report`: a vehicle that stays at the depot has a 0 of its own, and so has a padded
        vehicle that is passed over.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    step = np.asarray(states.step)
    if step.ndim != 1 or step.size == 0:
        raise ValueError(f"states.step has shape {step.shape}; it needs [T+1], the states of one episode")
    last = count_states(step, states.done) - 1
    actions: list[int] = []
    vehicle = 0
    agents, nodes = np.asarray(states.current_agent)[:last], np.asarray(states.current_node)[1 : last + 1]
    for agent, node in zip(agents.tolist(), nodes.tolist(), strict=True):
        actions += [0] * (agent - vehicle) + [node]
        vehicle = agent + (node == 0)
    return np.array(actions, np.int64)


def _write_still(plan: Plan, path: Path) -> None:
    pictures.save_still(draw_plan(plan, dpi=DPI).figure, path, DPI)
