"""What belongs to `tsp_drone` beside its rules."""

from __future__ import annotations

import functools

from jaxvrp.envs.truck_and_drone import notebook, replay
from jaxvrp.envs.truck_and_drone.plan import COLUMNS, instance_of, label_episode, parameters_of
from jaxvrp.envs.tsp_drone import plan
from jaxvrp.envs.tsp_drone.pictures.draw import render_episode, render_of_file
from jaxvrp.envs.tsp_drone.played import from_operations
from jaxvrp.envs.tsp_drone.reasons import reasons_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import InstanceFiles, ProblemSet, ReplayKind, Toolbox

REPLAY = ReplayKind(
    functools.partial(replay.export_episode, from_operations, lambda states: [0] * len(states.step), reasons_of),
    replay.check_episode,
    replay.SCRIPT,
)

TOOLBOX = Toolbox(
    renderer=render_episode,
    replay=REPLAY,
    instances=InstanceFiles(
        read=plan.read_instances,
        assumed=plan.assumed,
        parameters=parameters_of,
        plan=plan.plan_of,
        inspect=plan.inspect,
        write_plan=plan_files.table_writer("ways", COLUMNS),
        instance=instance_of,
        label_episode=label_episode,
        draw=render_of_file,
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
