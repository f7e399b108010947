"""What is said of `truck_drone`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline, Padding
from jaxvrp.envs.truck_drone.problem.instance import void_beyond

CARD = Card(
    headlines=(
        Headline("completion_rate", "completion", curve="completion", progress="completion"),
        Headline("success", "success", mean_name="success_rate", curve="success"),
        Headline("on_time_rate", "on time", curve="on time"),
        Headline("battery_used", "battery used"),
        Headline("crashed_drones", "crashed"),
    ),
    paddings={"num_customers": Padding(void_beyond)},
)
