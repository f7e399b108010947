"""What belongs to `dispatch` beside its rules."""

from __future__ import annotations

from jaxvrp.toolbox import Headline, Toolbox

TOOLBOX = Toolbox(
    headlines=(
        Headline("served_share", "served", curve="requests served", progress="served"),
        Headline("value", "value"),
        Headline("travel", "travel"),
    ),
)
