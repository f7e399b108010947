"""Who plays `truck_drone` besides policies."""

from __future__ import annotations

from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.baselines.plan_search import search_episode, tidied
from jaxvrp.envs.truck_drone.baselines.rolling_horizon import RollingHorizonActor
from jaxvrp.envs.truck_drone.planned import cost
from jaxvrp.players import Players

PLAYERS = Players(
    baselines={"greedy": GreedyActor},
    planners={"planner": RollingHorizonActor},
    lookahead=RollingHorizonActor,
    searches={"search": search_episode},
    cost=cost,
    tidied=tidied,
    forms=lambda env: [env.replace(decide=moments) for moments in ("steps", "events")],
)
