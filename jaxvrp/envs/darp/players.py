"""Who plays `darp` besides policies."""

from __future__ import annotations

from jaxvrp.envs.darp.baselines.greedy import NearestActor
from jaxvrp.envs.darp.baselines.search import SearchActor
from jaxvrp.envs.darp.baselines.timed_search import search_all, search_episode
from jaxvrp.players import Players

PLAYERS = Players(
    baselines={"nearest neighbour": lambda env: NearestActor()},
    planners={
        "search": SearchActor,
        "short search": lambda env: SearchActor(env, rounds=100),
    },
    searches={"search": search_episode},
    searches_all={"search": search_all},
)
