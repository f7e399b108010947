"""Who plays `tsp_drone` besides policies."""

from __future__ import annotations

import functools

from jaxvrp.envs.truck_and_drone.greedy import NearestNeighbourActor
from jaxvrp.envs.tsp_drone.baselines.annealing import PLANNED, plan_annealed, search_episode
from jaxvrp.envs.tsp_drone.baselines.planners import TourActor
from jaxvrp.envs.tsp_drone.baselines.tours import plan_tours
from jaxvrp.players import Players

MANY = {"starts": 2, "window": 8, "hasty": True}
"""The local search where it plans by the thousand, at n = 20 ten times as fast as it is defined (`plan_tours`): the
mean makespan of 256 instances comes to 283.5, and to 282.6 without haste."""

PLAYERS = Players(
    baselines={"nearest neighbour": lambda env: NearestNeighbourActor()},
    planners={
        "TSP-ep": lambda env: TourActor(env, functools.partial(plan_tours, method="ep")),
        "TSP-ep-all": lambda env: TourActor(
            env, functools.partial(plan_tours, method="ep_all", **MANY), window=MANY["window"]
        ),
        "annealing": lambda env: TourActor(env, plan_annealed, window=PLANNED.window),
    },
    searches={"search": search_episode},
)
