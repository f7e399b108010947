"""What is said of `darp`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline, Padding
from jaxvrp.envs.darp.problem.instance import void_nodes_beyond, void_vehicles_beyond

CARD = Card(
    headlines=(
        Headline("served_share", "served", curve="requests served", progress="served"),
        Headline("total_distance", "distance"),
        Headline("vehicles_used", "vehicles"),
    ),
    paddings={"num_nodes": Padding(void_nodes_beyond, multiple=2), "num_agents": Padding(void_vehicles_beyond)},
)
