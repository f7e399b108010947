"""Who plays `pcb` besides policies."""

from __future__ import annotations

from jaxvrp.envs.pcb import plan
from jaxvrp.envs.pcb.baselines.annealing import anneal_episode
from jaxvrp.players import Players

PLAYERS = Players(
    searches={"annealing": anneal_episode},
    cost=plan.cost,
)
