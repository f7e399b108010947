"""What belongs to `flying_sidekicks` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.flying_sidekicks import plan
from jaxvrp.envs.flying_sidekicks.story import story_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    instances=InstanceFiles(
        read=plan.read_instances,
        parameters=plan.parameters_of,
        plan=plan.plan_of,
        inspect=plan.inspect,
        write_plan=plan_files.table_writer("events", plan.COLUMNS),
        recompute=plan.recompute,
    ),
)
