"""Pictures of dial-a-ride plans and episodes, and the command that draws a plan from files.

`python -m jaxvrp.envs.darp.render INSTANCE --plan PLAN --out PICTURE` draws a plan; see `--help`. matplotlib and pillow
are imported inside the functions: the simulator does not need them, no display and no global state is touched.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp import pictures
from jaxvrp.envs.darp.baselines.greedy import NearestNeighbourActor
from jaxvrp.envs.darp.env import Darp, make
from jaxvrp.envs.darp.pictures import animation, plan_figure
from jaxvrp.envs.darp.pictures import plan as plans
from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index, read_cordeau
from jaxvrp.envs.darp.problem.instance import Instance, load
from jaxvrp.envs.darp.problem.solution import routes_to_actions
from jaxvrp.envs.darp.rules import SLACK, State
from jaxvrp.episodes import count_states
from jaxvrp.io.command_line import Parser, check_picture_path, run_command
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
    _write_still(plans.from_actions(instance, actions, tolerance), path)


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
    plan = plans.from_actions(instance, actions, SLACK)
    if suffix == ".gif":
        write_whole(path, lambda partial: animation.write(plan, partial))
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


def _write_still(plan: plans.Plan, path: Path) -> None:
    pictures.save_still(plan_figure.draw(plan, dpi=DPI).figure, path, DPI)


# --- the command ----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Draw a plan from files; a user's mistake is one line on stderr and exit status 2."""
    return run_command(lambda: _draw(_parse(argv)), (ValueError,))


def _draw(options: argparse.Namespace) -> None:
    instance = _read_instance(options.instance, options.index)
    if options.plan is None:
        actions = _nearest_neighbour(instance)
    else:
        actions = _read_plan(options.plan, instance, options.cordeau_numbering)
    render_plan(instance, actions, options.out, tolerance=SLACK if instance.locs.dtype == np.float32 else 1e-4)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("jaxvrp.envs.darp.pictures", "Draw a dial-a-ride plan to a picture.")
    parser.add_argument("instance", type=Path, help="a Cordeau .txt, or an .npz of jaxvrp.envs.darp.save")
    parser.add_argument("--index", type=int, help="which instance of a batch, from 0")
    parser.add_argument("--plan", type=Path, help='JSON, {"routes": [[1, 2], ...]}; without it: nearest neighbour')
    parser.add_argument(
        "--cordeau_numbering",
        action="store_true",
        help="routes have pickups 1..n and drop-offs n+1..2n, as published solutions; else pickup i has drop-off i+1",
    )
    parser.add_argument("--out", type=Path, required=True, help="the picture: .png, .svg or .pdf")
    options = parser.parse_args(argv)
    check_picture_path(options.out, STILLS)
    if options.cordeau_numbering and options.plan is None:
        raise ValueError("--cordeau_numbering says how a plan is numbered; give the plan with --plan")
    return options


def _read_instance(path: Path, index: int | None) -> Instance:
    if path.suffix.lower() not in (".txt", ".npz"):
        raise ValueError(f"instance '{path}' is neither .txt (Cordeau) nor .npz (jaxvrp.envs.darp.save)")
    instance = load(path) if path.suffix.lower() == ".npz" else read_cordeau(path)
    batch = instance.demand.shape[:-1]
    if not batch:
        if index is not None:
            raise ValueError(f"--index is {index}, but {path} holds a single instance; leave it out")
        return instance
    if len(batch) > 1:
        raise ValueError(f"{path} holds a batch of shape {batch}; save one with a single axis")
    if index is None or not 0 <= index < batch[0]:
        raise ValueError(f"{path} holds {batch[0]} instances; choose one with --index 0 to {batch[0] - 1}")
    return jax.tree.map(lambda leaf: leaf[index], instance)


def _read_plan(path: Path, instance: Instance, cordeau_numbering: bool) -> np.ndarray:
    """The actions of a plan file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error})") from None
    routes = content.get("routes") if isinstance(content, dict) else None
    if not isinstance(routes, list) or not all(isinstance(route, list) for route in routes):
        raise ValueError(f'{path} needs {{"routes": [[1, 2], ...]}}, a list of nodes for each vehicle')
    requests = int((instance.demand > 0).sum())
    last = 2 * requests if cordeau_numbering else instance.num_nodes
    for node in (node for route in routes for node in route):
        if type(node) is not int or not 1 <= node <= last:
            raise ValueError(f"{path} has {node!r} in a route; give whole numbers from 1 to {last}, without the depot")
    if cordeau_numbering:
        routes = [from_cordeau_index(route, requests).tolist() for route in routes]
    try:
        return routes_to_actions(routes, instance.num_agents)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _nearest_neighbour(instance: Instance) -> np.ndarray:
    """The actions (`i64[T]`) of the nearest-neighbour heuristic.

    Ride times and route durations are enforced if the instance has any limits, else it looks ahead: both together take
    minutes for a hundred requests.
    """
    limits = bool(np.isfinite([instance.max_ride_time, instance.max_route_duration]).any())
    env = make(num_nodes=instance.num_nodes, num_agents=instance.num_agents, limits=limits, lookahead=not limits)
    actor = NearestNeighbourActor()

    def body(carry: Any, _: None) -> tuple[Any, State]:
        state, timestep = carry
        batch = jax.tree.map(lambda leaf: leaf[None], (state, timestep))
        action, _ = actor.act(jax.random.key(0), (), *batch)
        after = env.step(state, jax.tree.map(lambda leaf: leaf[0], action))
        return after, state

    @jax.jit
    def play(instance: Instance) -> State:
        (last, _), states = jax.lax.scan(body, env.reset_to(instance), length=env.max_episode_steps)
        return jax.tree.map(lambda some, end: jnp.concatenate([some, end[None]]), states, last)

    return actions_of(play(instance))


if __name__ == "__main__":
    sys.exit(main())
