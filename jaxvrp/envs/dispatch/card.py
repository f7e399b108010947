"""What is said of `dispatch`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline, Padding
from jaxvrp.envs.dispatch.problem.instance import void_drones_beyond, void_requests_beyond, void_vehicles_beyond

CARD = Card(
    headlines=(
        Headline("served_share", "served", curve="requests served", progress="served"),
        Headline("value_served", "value"),
        Headline("mean_delay", "delay"),
        Headline("travel", "travel"),
        Headline("late_share", "late", optional=True),
    ),
    paddings={
        "max_requests": Padding(void_requests_beyond),
        "num_vehicles": Padding(void_vehicles_beyond),
        "num_drones": Padding(void_drones_beyond),
    },
)
