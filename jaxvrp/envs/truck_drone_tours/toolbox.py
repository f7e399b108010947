"""What belongs to `truck_drone_tours` beside its rules."""

from __future__ import annotations

import functools
import os

from jaxvrp.envs.truck_and_drone import notebook, plan_figure, replay
from jaxvrp.envs.truck_and_drone.plan import instance_of, label_episode, parameters_of
from jaxvrp.envs.truck_and_drone.played import instance_of as instance_of_states
from jaxvrp.envs.truck_and_drone.played import operations_of
from jaxvrp.envs.truck_drone_tours import plan
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours
from jaxvrp.envs.truck_drone_tours.played import from_operations
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance
from jaxvrp.envs.truck_drone_tours.reasons import reasons_of
from jaxvrp.envs.truck_drone_tours.rules import State
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, ReplayKind, Toolbox


def tours_of_states(states: State) -> list[int]:
    """The tour of each state."""
    left = states.tours.tandems_left
    return (left[0] - left).tolist()


def render_episode(env: TruckDroneTours, states: State, path: str | os.PathLike) -> None:
    """Draw the plan of one episode to a `.png`, `.svg` or `.pdf`, or to a `.gif`, which moves."""
    render_of_file(instance_of_states(states), env, states, path)


def render_of_file(instance: Instance, env: TruckDroneTours, states: State, path: str | os.PathLike) -> None:
    """Draw one episode as `render_episode` does, with the times and places of the problem's file."""
    del env
    plan_figure.write(from_operations(instance, operations_of(states)), path)


TOOLBOX = Toolbox(
    renderer=render_episode,
    replay=ReplayKind(
        functools.partial(replay.export_episode, from_operations, tours_of_states, reasons_of),
        replay.check_episode,
        replay.SCRIPT,
    ),
    instances=InstanceFiles(
        read=plan.read_tours,
        assumed=plan.assumed,
        parameters=parameters_of,
        plan=plan.plan_of,
        inspect=plan.inspect,
        write_plan=plan_files.table_writer("ways", plan.TOUR_COLUMNS),
        instance=instance_of,
        weighed=plan.weighed,
        label_episode=label_episode,
        draw=render_of_file,
        sheets=plan.sheets_of,
    ),
    still=lambda state: notebook.draw_state(state, lambda state: f"{int(state.tours.tandems_left)} tandems left, "),
)
