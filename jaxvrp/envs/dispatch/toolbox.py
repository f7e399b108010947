"""What belongs to `dispatch` beside its rules."""

from __future__ import annotations

from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, RelocateActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.rollout import RolloutActor
from jaxvrp.envs.dispatch.problem.instance import void_drones_beyond, void_requests_beyond, void_vehicles_beyond
from jaxvrp.toolbox import Headline, Padding, Toolbox

TOOLBOX = Toolbox(
    baselines={
        "accept": lambda env: AcceptActor(),
        "threshold": ThresholdActor,
        "relocate": lambda env: RelocateActor() if env.num_zones_each_way else AcceptActor(),
    },
    planners={"rollout": RolloutActor},
    headlines=(
        Headline("served_share", "served", curve="requests served", progress="served"),
        Headline("value_served", "value"),
        Headline("mean_delay", "delay"),
        Headline("travel", "travel"),
    ),
    paddings={
        "max_requests": Padding(void_requests_beyond),
        "num_vehicles": Padding(void_vehicles_beyond),
        "num_drones": Padding(void_drones_beyond),
    },
)
