"""What belongs to `dispatch` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.dispatch import notebook, plan
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.problem.inspection import inspect
from jaxvrp.envs.dispatch.story import story_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    instances=InstanceFiles(
        read=plan.read,
        assumed=plan.assumed,
        parameters=plan.parameters_of,
        plan=plan.plan_of,
        inspect=lambda problem, env: inspect(problem if isinstance(problem, NamedDay) else problem.day),
        write_plan=plan_files.table_writer("stops", plan.COLUMNS),
        instance=plan.instance_of,
        solvers=plan.solvers,
    ),
    still=notebook.draw_state,
)
