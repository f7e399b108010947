"""What belongs to `tsp_drone` beside its rules."""

from __future__ import annotations

import functools

from jaxvrp.envs.truck_and_drone import notebook, replay
from jaxvrp.envs.truck_and_drone.greedy import NearestNeighbourActor
from jaxvrp.envs.truck_and_drone.instance import void_beyond
from jaxvrp.envs.truck_and_drone.plan import COLUMNS, instance_of, label_episode, parameters_of
from jaxvrp.envs.tsp_drone import plan
from jaxvrp.envs.tsp_drone.baselines.annealing import PLANNED, plan_annealed, search_episode
from jaxvrp.envs.tsp_drone.baselines.planners import TourActor
from jaxvrp.envs.tsp_drone.baselines.tours import plan_tours
from jaxvrp.envs.tsp_drone.pictures.draw import render_episode, render_of_file
from jaxvrp.envs.tsp_drone.played import from_operations
from jaxvrp.envs.tsp_drone.reasons import reasons_of
from jaxvrp.io import plan_files
from jaxvrp.toolbox import Headline, InstanceFiles, Padding, ProblemSet, ReplayKind, Toolbox

MANY = {"starts": 2, "window": 8, "hasty": True}
"""The local search where it plans by the thousand, at n = 20 ten times as fast as it is defined (`plan_tours`): the
mean makespan of 256 instances comes to 283.5, and to 282.6 without haste."""

REPLAY = ReplayKind(
    functools.partial(replay.export_episode, from_operations, lambda states: [0] * len(states.step), reasons_of),
    replay.check_episode,
    replay.SCRIPT,
)

TOOLBOX = Toolbox(
    baselines={"nearest neighbour": lambda env: NearestNeighbourActor()},
    planners={
        "TSP-ep": lambda env: TourActor(env, functools.partial(plan_tours, method="ep")),
        "TSP-ep-all": lambda env: TourActor(
            env, functools.partial(plan_tours, method="ep_all", **MANY), window=MANY["window"]
        ),
        "annealing": lambda env: TourActor(env, plan_annealed, window=PLANNED.window),
    },
    searches={"search": search_episode},
    headlines=(
        Headline("makespan", "makespan", progress="makespan"),
        Headline("served_by_drone", "by drone"),
        Headline("waiting_truck", "truck waits"),
        Headline("waiting_drone", "drone waits"),
    ),
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
    paddings={"num_nodes": Padding(void_beyond)},
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
