"""The algorithms: by name, the keys of their configurations, and the learner that a configuration describes."""

from __future__ import annotations

import dataclasses
from typing import Any

from jax.sharding import Mesh

from jaxvrp import Environment, fields
from jaxvrp.memory import memory_of
from jaxvrp.spaces import Box, Discrete
from train.learning.sharding import make_mesh
from train.off_policy.config import OffPolicyConfig, SACConfig, TD3Config
from train.on_policy.config import IPPOConfig, PPOConfig
from train.settings.config import RunConfig, check_divides
from train.settings.environment import environments


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm: the class of its configurations, and the space of the actions that it learns to choose."""

    config_class: type[RunConfig]
    actions: type[Discrete] | type[Box]


ALGORITHMS = {
    "mappo": Algorithm(PPOConfig, Discrete),
    "ippo": Algorithm(IPPOConfig, Discrete),
    "td3": Algorithm(TD3Config, Box),
    "sac": Algorithm(SACConfig, Box),
}

CONFIG_CLASSES = {name: algorithm.config_class for name, algorithm in ALGORITHMS.items()}

KINDS = {Discrete: "discrete", Box: "continuous"}


def make_train(config: RunConfig, made: Environment | None = None, *, check: bool = True) -> Any:
    """The learner (`train.learning.learner.Learner`) of a configuration, with its environments and its devices.

    `made` is the environment of `config.env`, if it has been made already; `check` is whether to trace it, for what is
    wrong in it.

    Raises:
        ValueError: a value is out of range, or contradicts another value; the message names it.
        TypeError: a value has the wrong type.
    """
    config = fields.validate(config, "key")
    env, evaluation_env = environments(config, made, check=check)
    mesh = make_mesh(config.num_devices)
    _check_devices(config, env, mesh)
    for name in ("eval_interval", "save_interval"):
        check_divides(config, name, "log_interval", config.log_interval)
    _check_actions(config, env)
    # Imported here: the libraries behind them take a second, which commands that only read a configuration do without.
    if isinstance(config, PPOConfig):
        from train.on_policy import trainer as on_policy

        return on_policy.Trainer(config, env, evaluation_env, mesh)
    assert isinstance(config, OffPolicyConfig)
    from train.off_policy import trainer as off_policy
    from train.off_policy.sac import SAC
    from train.off_policy.td3 import TD3

    return off_policy.Trainer(config, env, evaluation_env, mesh, TD3 if isinstance(config, TD3Config) else SAC)


def _check_devices(config: RunConfig, env: Environment, mesh: Mesh) -> None:
    check_divides(config, "num_envs", "num_devices", mesh.size)
    memory = memory_of(env)
    if mesh.size > 1 and memory is not None and memory.merge is None:
        raise ValueError(
            f"env.name '{config.env['name']}' learns from one episode to the next, which {mesh.size} devices would "
            "each do alone; give its memory a function `merge`, or set num_devices to 1"
        )


def _check_actions(config: RunConfig, env: Environment) -> None:
    actions = next(each.actions for each in ALGORITHMS.values() if isinstance(config, each.config_class))
    for name, role in env.roles.items():
        if not isinstance(role.action, actions):
            kind = type(role.action)
            learners = " or ".join(key for key, value in ALGORITHMS.items() if value.actions is kind)
            raise ValueError(
                f"role '{name}' of env.name '{config.env['name']}' has {KINDS[kind]} actions; use {learners}"
            )
