"""What a run needs of a learner."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax

from jaxvrp import Environment
from jaxvrp.actor import Actor
from jaxvrp.spaces import ByRole
from train.settings.config import RunConfig


class Insight(NamedTuple):
    """What a policy makes of every state of an episode."""

    # `{role: f32[L, agents, actions]}`, 0 for masked actions; {} for policies of continuous actions
    probability: ByRole
    # `{role: f32[L, agents]}`, the discounted return from there on, in units of the reward; {} without critic
    value: ByRole


class Learner(Protocol):
    """An algorithm that is ready to train in `env`, and to play `evaluation_env`.

    Where `init` and `train_chunk` are jitted, they are compiled side by side. The state after `train_chunk` is that
    after `config.log_interval` more updates; metrics are `{name: [(seeds,) updates, ...]}`. The state that is passed is
    donated.
    """

    config: RunConfig
    env: Environment
    evaluation_env: Environment

    def init(self, key: jax.Array) -> Any:
        """A fresh training state, from a typed key."""

    def train_chunk(self, state: Any) -> tuple[Any, dict[str, jax.Array]]:
        """See the class."""

    def actor_params(self, state: Any) -> Any:
        """The part of a state that acts."""

    def init_actors(self, key: jax.Array) -> Any:
        """Fresh parameters of the actors, of one seed, from a typed key; no episode begins."""

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> Actor:
        """A player with these parameters (of one seed); samples are of logits divided by `temperature`."""

    def critic_params(self, state: Any) -> Any:
        """The part of a state that values, as `insight` takes it; None if nothing does."""

    def insight(self, params: Any, critic: Any, states: Any) -> Insight:
        """What a player with these parameters, and its critic (or None), make of an episode's states, `[L, ...]`."""
