"""What a policy thought of the states of an episode: how probable its actions were, and what its critic expected."""

from __future__ import annotations

from typing import NamedTuple

from jaxvrp.spaces import ByRole


class Insight(NamedTuple):
    """Of every state of an episode.

    Attributes:
        probability: `{role: f32[L, agents, actions]}`, 0 for masked actions; {} for policies of continuous actions.
        value: `{role: f32[L, agents]}`, the discounted return from there on, in units of the reward; {} without critic.
    """

    probability: ByRole
    value: ByRole


NO_INSIGHT = Insight({}, {})
"""Of a policy that gives none."""
