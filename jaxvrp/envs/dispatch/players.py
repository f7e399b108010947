"""Who plays `dispatch` besides policies."""

from __future__ import annotations

from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, CoverActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.known_day import search
from jaxvrp.players import Players

PLAYERS = Players(
    baselines={
        "accept": lambda env: AcceptActor(),
        "threshold": ThresholdActor,
        "cover": lambda env: CoverActor(),
    },
    # Without zones nobody is sent anywhere; with them, the tuned threshold is none.
    repeated=lambda env: ("threshold",) if env.num_zones_each_way else ("cover",),
    searches={"search": search},
)
