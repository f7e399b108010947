"""What the loop, evaluation and replay need of a learner."""

from __future__ import annotations

from typing import Any, Protocol

import jax

from jaxvrp import Environment
from jaxvrp.actor import Actor
from train.config import RunConfig
from train.running.loop.insight import Insight


class Learner(Protocol):
    """An algorithm that is ready to train in an environment.

    Attributes:
        config: what it was made from.
        env: the environment that it is trained in.
    """

    config: RunConfig
    env: Environment

    def init(self, key: jax.Array) -> Any:
        """A fresh training state, from a typed key."""

    def train_chunk(self, state: Any) -> tuple[Any, dict[str, jax.Array]]:
        """The state after `config.log_interval` more updates, and metrics `{name: [(seeds,) updates, ...]}`.

        The state that is passed is donated.
        """

    def actor_params(self, state: Any) -> Any:
        """The part of a state that acts."""

    def actor(self, params: Any, *, deterministic: bool, temperature: float = 1.0) -> Actor:
        """A player with these parameters (of one seed); samples are of logits divided by `temperature`."""

    def critic_params(self, state: Any) -> Any:
        """The part of a state that values, as `insight` takes it; None if nothing does."""

    def insight(self, params: Any, critic: Any, states: Any, *, temperature: float = 1.0) -> Insight:
        """What a player with these parameters, and its critic (or None), make of an episode's states, `[L, ...]`."""
