"""What belongs to `darp` beside its rules."""

from __future__ import annotations

from pathlib import Path

from jaxvrp.envs.darp import replay
from jaxvrp.envs.darp.baselines.greedy import EarliestDeadlineActor, NearestNeighbourActor
from jaxvrp.envs.darp.baselines.search import SearchActor
from jaxvrp.envs.darp.pictures import notebook
from jaxvrp.envs.darp.pictures.render import render_episode
from jaxvrp.envs.darp.problem.instance import void_nodes_beyond, void_vehicles_beyond
from jaxvrp.toolbox import Headline, Padding, ReplayKind, Toolbox

TOOLBOX = Toolbox(
    baselines={
        "nearest neighbour": lambda env: NearestNeighbourActor(),
        "earliest deadline": lambda env: EarliestDeadlineActor(),
    },
    planners={"search": SearchActor, "short search": lambda env: SearchActor(env, rounds=100)},
    headlines=(
        Headline("served_share", "served", curve="requests served", progress="served"),
        Headline("total_distance", "distance"),
        Headline("vehicles_used", "vehicles"),
    ),
    renderer=render_episode,
    replay=ReplayKind(replay.export_episode, replay.check_episode, Path(__file__).with_name("replay.js")),
    paddings={"num_nodes": Padding(void_nodes_beyond, multiple=2), "num_agents": Padding(void_vehicles_beyond)},
    still=notebook.draw_state,
)
