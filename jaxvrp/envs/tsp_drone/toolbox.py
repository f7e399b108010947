"""What belongs to `tsp_drone` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.truck_and_drone import notebook
from jaxvrp.envs.truck_and_drone.plan import COLUMNS, instance_of, parameters_of
from jaxvrp.envs.tsp_drone import plan
from jaxvrp.envs.tsp_drone.story import story_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, ProblemSet, Toolbox

TOOLBOX = Toolbox(
    story=story_of,
    instances=InstanceFiles(
        read=plan.read_instances,
        assumed=plan.assumed,
        parameters=parameters_of,
        plan=plan.plan_of,
        inspect=plan.inspect,
        write_plan=plan_files.table_writer("ways", COLUMNS),
        instance=instance_of,
        recompute=plan.recompute,
    ),
    still=notebook.draw_state,
    sets={
        "tsp_drone_20_nodes": ProblemSet(
            1,
            {"num_nodes": 20},
            seed=20,
            count=32,
            checksum="9628f06339347fe9d1b11ccc907f0b5be0948a6757382cc3315ca9c09dea8c96",
        ),
        "tsp_drone_50_nodes": ProblemSet(
            1,
            {"num_nodes": 50},
            seed=50,
            count=32,
            checksum="4add4a698e1ddf65005bdb35c70bd3afebbb3405843df2d40fd17288f3e276fb",
        ),
    },
)
