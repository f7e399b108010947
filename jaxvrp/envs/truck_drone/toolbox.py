"""What belongs to `truck_drone` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.truck_drone import notebook, plan
from jaxvrp.envs.truck_drone.problem import inspection
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap, read_map
from jaxvrp.envs.truck_drone.story import story_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    instances=InstanceFiles(
        read=lambda path: [read_map(path)],
        parameters=FleetMap.parameters,
        instance=lambda fleet_map, env: fleet_map.instance(),
        plan=plan.plan_of,
        write_plan=lambda fleet_map, path, content: plan.write_plan(path, content),
        endings=plan_files.ENDINGS,
        environment="vrpd_tw",
        inspect=inspection.inspect,
        sheets=plan.sheets_of,
    ),
    still=notebook.draw_state,
)
