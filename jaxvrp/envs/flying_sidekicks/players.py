"""Who plays `flying_sidekicks` besides policies."""

from __future__ import annotations

from jaxvrp.envs.flying_sidekicks.annealing import search_episode
from jaxvrp.players import Players

PLAYERS = Players(
    searches={"search": search_episode},
)
