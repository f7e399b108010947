"""What is said of `truck_drone_tours`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline, Padding
from jaxvrp.envs.truck_and_drone.instance import void_beyond

CARD = Card(
    headlines=(
        Headline("travel_cost", "cost", progress="cost"),
        Headline("tours", "tours"),
        Headline("served_by_drone", "by drone"),
        Headline("unserved", "unserved"),
    ),
    paddings={"num_nodes": Padding(void_beyond)},
)
