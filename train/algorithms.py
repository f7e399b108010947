"""The algorithms: by name, what trains, and the keys of its configuration."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from train.config import RunConfig


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm; its parts are imported when they are needed.

    Attributes:
        trainer: dotted path of a function from a configuration to a `train.running.loop.Learner`.
        configuration: dotted path of a subclass of `RunConfig`.
    """

    trainer: str
    configuration: str

    @property
    def config_class(self) -> type[RunConfig]:
        """The class of its configurations."""
        return _attribute(self.configuration)

    def make_train(self, config: RunConfig) -> Any:
        """Build the environment and the learner of a configuration.

        Raises:
            ValueError: a value is out of range, or does not fit the others; the message says which.
            TypeError: a value has the wrong type.
        """
        return _attribute(self.trainer)(config)


ALGORITHMS = {
    "mappo": Algorithm("train.on_policy.trainer:make_train", "train.on_policy.config:PPOConfig"),
    "ippo": Algorithm("train.on_policy.trainer:make_train", "train.on_policy.config:IPPOConfig"),
    "td3": Algorithm("train.td3:make_train", "train.td3:TD3Config"),
    "sac": Algorithm("train.sac:make_train", "train.sac:SACConfig"),
}


def _attribute(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
