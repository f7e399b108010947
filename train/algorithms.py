"""The algorithms: by name, the keys of their configurations, and the learner that a configuration describes."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxvrp.spaces import Box, Discrete
from train.config import RunConfig
from train.off_policy.config import OffPolicyConfig, SACConfig, TD3Config
from train.on_policy.config import IPPOConfig, PPOConfig
from train.running.command.prepare import prepare


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm: the class of its configurations, and the space of the actions that it learns to choose."""

    config_class: type[RunConfig]
    actions: type[Discrete] | type[Box]

    def make_train(self, config: RunConfig) -> Any:
        return make_train(config)


ALGORITHMS = {
    "mappo": Algorithm(PPOConfig, Discrete),
    "ippo": Algorithm(IPPOConfig, Discrete),
    "td3": Algorithm(TD3Config, Box),
    "sac": Algorithm(SACConfig, Box),
}

KINDS = {Discrete: "discrete", Box: "continuous"}


def make_train(config: RunConfig) -> Any:
    """The learner (`train.running.loop.learner.Learner`) of a configuration, with its environment and its devices.

    Raises:
        ValueError: a value is out of range, or contradicts another value; the message names it.
        TypeError: a value has the wrong type.
    """
    actions = next(each.actions for each in ALGORITHMS.values() if isinstance(config, each.config_class))
    config, env, evaluation_env, mesh = prepare(config)
    for name, role in env.roles.items():
        if not isinstance(role.action, actions):
            kind = type(role.action)
            learners = " or ".join(key for key, value in ALGORITHMS.items() if value.actions is kind)
            raise ValueError(
                f"role '{name}' of env.name '{config.env['name']}' has {KINDS[kind]} actions; use {learners}"
            )
    # Imported here: the libraries behind them take a second, which commands that only read a configuration do without.
    if isinstance(config, PPOConfig):
        from train.on_policy.trainer import make_trainer as on_policy

        return on_policy(config, env, evaluation_env, mesh)
    assert isinstance(config, OffPolicyConfig)
    from train.off_policy.sac import SAC
    from train.off_policy.td3 import TD3
    from train.off_policy.trainer import make_trainer as off_policy

    return off_policy(config, env, evaluation_env, mesh, TD3 if isinstance(config, TD3Config) else SAC)
