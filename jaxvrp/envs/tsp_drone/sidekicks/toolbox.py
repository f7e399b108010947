"""What belongs to `flying_sidekicks` beside its rules."""

from __future__ import annotations

import os
from pathlib import Path

from jaxvrp.envs.tsp_drone.pictures.draw import write_plan_figure
from jaxvrp.envs.tsp_drone.replay import check_episode
from jaxvrp.envs.tsp_drone.sidekicks import plan, replay
from jaxvrp.envs.tsp_drone.sidekicks.annealing import search_episode
from jaxvrp.envs.tsp_drone.sidekicks.env import FlyingSidekicks
from jaxvrp.envs.tsp_drone.sidekicks.inspection import inspect
from jaxvrp.envs.tsp_drone.sidekicks.played import plan_of_states
from jaxvrp.envs.tsp_drone.sidekicks.rules import State
from jaxvrp.io import plan_files
from jaxvrp.toolbox import Headline, InstanceFiles, ReplayKind, Toolbox


def render_episode(env: FlyingSidekicks, states: State, path: str | os.PathLike) -> None:
    """Draw the plan of one episode to a `.png`, `.svg` or `.pdf`, or to a `.gif`, which moves."""
    del env
    write_plan_figure(plan_of_states(states), path)


SCRIPT = Path(__file__).parents[1] / "replay.js"

TOOLBOX = Toolbox(
    searches={"search": search_episode},
    headlines=(
        Headline("makespan", "makespan", progress="makespan"),
        Headline("served_by_drone", "by drone"),
        Headline("waiting", "truck waits"),
    ),
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
