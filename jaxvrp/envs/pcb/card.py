"""What is said of `pcb`."""

from __future__ import annotations

from jaxvrp.card import Card, Headline
from jaxvrp.envs.pcb.factory import Supply, changed
from jaxvrp.envs.pcb.problem.generator import Parameters

CARD = Card(
    headlines=(
        Headline("became_legal", "became legal", curve="became legal", progress="legal"),
        Headline("best_ratio", "best / start HPWL", curve="best legal HPWL / start's"),
        Headline("hpwl", "HPWL at the end"),
        Headline("overlap", "overlap"),
    ),
    evaluation={"max_steps": 600},
    parameters=(Supply, Parameters),
    changed=changed,
)
