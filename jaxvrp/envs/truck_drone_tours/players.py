"""Who plays `truck_drone_tours` besides policies."""

from __future__ import annotations

from jaxvrp.envs.truck_and_drone.greedy import NearestNeighbourActor
from jaxvrp.envs.truck_drone_tours.baselines.annealing import search_episode
from jaxvrp.envs.truck_drone_tours.baselines.planner import AnnealedToursActor
from jaxvrp.players import Players

PLAYERS = Players(
    baselines={"nearest neighbour": lambda env: NearestNeighbourActor()},
    planners={"annealing": AnnealedToursActor},
    searches={"search": search_episode},
)
