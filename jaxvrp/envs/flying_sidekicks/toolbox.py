"""What belongs to `flying_sidekicks` beside its rules."""

from __future__ import annotations

import os

from jaxvrp.envs.flying_sidekicks import plan, replay
from jaxvrp.envs.flying_sidekicks.env import FlyingSidekicks
from jaxvrp.envs.flying_sidekicks.inspection import inspect
from jaxvrp.envs.flying_sidekicks.played import plan_of_states
from jaxvrp.envs.flying_sidekicks.rules import State
from jaxvrp.envs.truck_and_drone import plan_figure
from jaxvrp.envs.truck_and_drone.replay import SCRIPT, check_episode
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, ReplayKind, Toolbox


def render_episode(env: FlyingSidekicks, states: State, path: str | os.PathLike) -> None:
    """Draw the plan of one episode to a `.png`, `.svg` or `.pdf`, or to a `.gif`, which moves."""
    del env
    plan_figure.write(plan_of_states(states), path)


TOOLBOX = Toolbox(
    renderer=render_episode,
    replay=ReplayKind(replay.export_episode, check_episode, SCRIPT),
    instances=InstanceFiles(
        read=plan.read_instances,
        parameters=plan.parameters_of,
        plan=plan.plan_of,
        inspect=inspect,
        write_plan=plan_files.table_writer("events", plan.COLUMNS),
        recompute=plan.recompute,
    ),
)
