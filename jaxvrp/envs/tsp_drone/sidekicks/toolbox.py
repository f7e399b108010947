"""What belongs to `flying_sidekicks` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.tsp_drone.replay import check_episode
from jaxvrp.envs.tsp_drone.sidekicks import plan, replay
from jaxvrp.envs.tsp_drone.sidekicks.annealing import search_episode
from jaxvrp.io import plan_files
from jaxvrp.toolbox import Headline, InstanceFiles, ReplayKind, Toolbox

SCRIPT = Path(__file__).parents[1] / "replay.js"

TOOLBOX = Toolbox(
    searches={"search": search_episode},
    headlines=(
        Headline("makespan", "makespan", progress="makespan"),
        Headline("served_by_drone", "by drone"),
        Headline("waiting", "truck waits"),
    ),
    replay=ReplayKind(replay.export_episode, check_episode, SCRIPT),
    instances=InstanceFiles(
        read=plan.read_instances,
        parameters=plan.parameters_of,
        plan=plan.plan_of,
        write_plan=plan_files.table_writer("events", plan.COLUMNS),
        recompute=plan.recompute,
    ),
)
