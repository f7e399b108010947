"""What belongs to `truck_drone` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.truck_drone import notebook, plan, replay
from jaxvrp.envs.truck_drone.pictures.still import render_episode, render_on_map
from jaxvrp.envs.truck_drone.problem import inspection
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap, read_map
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, ReplayKind, Toolbox

TOOLBOX = Toolbox(
    renderer=render_episode,
    replay=ReplayKind(replay.export_episode, replay.check_episode, Path(__file__).with_name("replay.js")),
    instances=InstanceFiles(
        read=lambda path: [read_map(path)],
        parameters=FleetMap.parameters,
        instance=lambda fleet_map, env: fleet_map.instance(),
        plan=plan.plan_of,
        write_plan=lambda fleet_map, path, content: plan.write_plan(path, content),
        endings=plan_files.ENDINGS,
        label_episode=replay.label_episode,
        draw=render_on_map,
        environment="vrpd_tw",
        inspect=inspection.inspect,
        sheets=plan.sheets_of,
    ),
    still=notebook.draw_state,
)
