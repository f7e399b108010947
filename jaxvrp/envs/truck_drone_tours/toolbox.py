"""What belongs to `truck_drone_tours` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.truck_and_drone import notebook
from jaxvrp.envs.truck_and_drone.plan import instance_of, parameters_of
from jaxvrp.envs.truck_drone_tours import plan
from jaxvrp.envs.truck_drone_tours.story import story_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    instances=InstanceFiles(
        read=plan.read_tours,
        assumed=plan.assumed,
        parameters=parameters_of,
        plan=plan.plan_of,
        inspect=plan.inspect,
        write_plan=plan_files.table_writer("ways", plan.TOUR_COLUMNS),
        instance=instance_of,
        weighed=plan.weighed,
        sheets=plan.sheets_of,
    ),
    still=lambda state: notebook.draw_state(state, lambda state: f"{int(state.tours.tandems_left)} tandems left, "),
)
