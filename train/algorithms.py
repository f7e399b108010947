"""The algorithms: by name, what trains, and the keys of its configuration."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from jaxvrp.spaces import Box, Discrete
from train.config import RunConfig
from train.running.loop.learner import Learner


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm; its parts are imported when they are needed.

    Attributes:
        trainer: dotted path `package.module:function` of a function from a configuration to a `Learner`.
        configuration: dotted path `package.module:Class` of a subclass of `RunConfig`.
        actions: the space of the actions that it learns to choose.
    """

    trainer: str
    configuration: str
    actions: type[Discrete] | type[Box]

    @property
    def config_class(self) -> type[RunConfig]:
        """The class of its configurations."""
        return _import(self.configuration)

    def make_train(self, config: RunConfig) -> Learner:
        """Build the environment and the learner of a configuration.

        Raises:
            ValueError: a value is out of range, or does not fit the others; the message says which.
            TypeError: a value has the wrong type.
        """
        return _import(self.trainer)(config)


ALGORITHMS = {
    "mappo": Algorithm("train.on_policy.trainer:make_train", "train.on_policy.config:PPOConfig", Discrete),
    "ippo": Algorithm("train.on_policy.trainer:make_train", "train.on_policy.config:IPPOConfig", Discrete),
    "td3": Algorithm("train.td3:make_train", "train.td3:TD3Config", Box),
    "sac": Algorithm("train.sac:make_train", "train.sac:SACConfig", Box),
}


def _import(path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module_name), attribute)
