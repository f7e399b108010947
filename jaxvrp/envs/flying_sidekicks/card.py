"""What is said of `flying_sidekicks`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline

CARD = Card(
    headlines=(
        Headline("makespan", "makespan", progress="makespan"),
        Headline("served_by_drone", "by drone"),
        Headline("waiting", "truck waits"),
    ),
)
