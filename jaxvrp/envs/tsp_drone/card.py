"""What is said of `tsp_drone`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline, Padding
from jaxvrp.envs.truck_and_drone.instance import void_beyond

CARD = Card(
    headlines=(
        Headline("makespan", "makespan", progress="makespan"),
        Headline("served_by_drone", "by drone"),
        Headline("waiting_truck", "truck waits"),
        Headline("waiting_drone", "drone waits"),
    ),
    paddings={"num_nodes": Padding(void_beyond)},
)
