"""What belongs to `dispatch` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.dispatch import notebook, plan, replay
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, CoverActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.search import search_moment
from jaxvrp.envs.dispatch.pictures import draw, render_episode
from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.problem.inspection import inspect
from jaxvrp.envs.dispatch.problem.instance import void_drones_beyond, void_requests_beyond, void_vehicles_beyond
from jaxvrp.io import plan_files
from jaxvrp.toolbox import Headline, InstanceFiles, Padding, ReplayKind, Toolbox

TOOLBOX = Toolbox(
    baselines={
        "accept": lambda env: AcceptActor(),
        "threshold": ThresholdActor,
        "cover": lambda env: CoverActor(),
    },
    # Without zones nobody is sent anywhere; with them, the tuned threshold is none.
    repeated=lambda env: ("threshold",) if env.num_zones_each_way else ("cover",),
    searches={plan.SEARCH: search_moment},
    headlines=(
        Headline("served_share", "served", curve="requests served", progress="served"),
        Headline("value_served", "value"),
        Headline("mean_delay", "delay"),
        Headline("travel", "travel"),
        Headline("late_share", "late", optional=True),
    ),
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
    paddings={
        "max_requests": Padding(void_requests_beyond),
        "num_vehicles": Padding(void_vehicles_beyond),
        "num_drones": Padding(void_drones_beyond),
    },
    still=notebook.draw_state,
)
