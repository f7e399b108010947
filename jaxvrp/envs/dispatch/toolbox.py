"""What belongs to `dispatch` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.dispatch import notebook, plan, replay
from jaxvrp.envs.dispatch.pictures import draw, render_episode
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.problem.inspection import inspect
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, ReplayKind, Toolbox

TOOLBOX = Toolbox(
    renderer=render_episode,
    replay=ReplayKind(replay.export_episode, replay.check_episode, Path(__file__).with_name("replay.js")),
    instances=InstanceFiles(
        read=plan.read,
        assumed=plan.assumed,
        parameters=plan.parameters_of,
        plan=plan.plan_of,
        inspect=lambda problem, env: inspect(problem if isinstance(problem, NamedDay) else problem.day),
        write_plan=plan_files.table_writer("stops", plan.COLUMNS),
        instance=plan.instance_of,
        solvers=plan.solvers,
        label_episode=replay.label_episode,
        draw=draw.render_of_file,
    ),
    still=notebook.draw_state,
)
