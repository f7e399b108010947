"""What comes before the loop, for every learner: a configuration's environment and devices, the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh

import jaxvrp
from jaxvrp import Environment, fields
from jaxvrp.spaces import Box, Discrete
from jaxvrp.testing import check_shapes
from train import cli, loop
from train.config import CONFIGS, RunConfig, check_divides
from train.sharding import initialize, make_mesh

Config = TypeVar("Config", bound=RunConfig)

KINDS = {Discrete: ("discrete", "mappo or ippo"), Box: ("continuous", "td3 or sac")}
"""How actions are called, and what learns them."""


def prepare(config: Config, actions: type[Discrete] | type[Box]) -> tuple[Config, Environment, Mesh]:
    """The checked configuration, its environment, and its devices, for a learner of such actions.

    Raises:
        ValueError: a value is out of range, or does not fit the others; the message says which.
        TypeError: a value has the wrong type.
    """
    config = fields.validate(config, "key")
    env = jaxvrp.make(**config.env)
    check_shapes(env)
    for name, role in env.roles.items():
        if not isinstance(role.action, actions):
            kind, learners = KINDS[type(role.action)]
            raise ValueError(f"role '{name}' of env.name '{config.env['name']}' has {kind} actions; use {learners}")
    mesh = make_mesh(config.num_devices)
    check_divides("num_envs", config.num_envs, "the number of devices", mesh.size)
    if mesh.size > 1 and jax.tree.leaves(env.memory) and type(env).agreed is Environment.agreed:
        raise ValueError(
            f"env.name '{config.env['name']}' learns from one episode to the next, which {mesh.size} devices would "
            "each do alone; write its function `agreed`, or set num_devices to 1"
        )
    for name in ("eval_interval", "save_interval"):
        check_divides(name, getattr(config, name), "log_interval", config.log_interval)
    return config, env, mesh


def main(algorithm: str, make_train: Callable[[Any], Any], argv: Sequence[str] | None = None) -> None:
    """The command line of an algorithm; `python -m train.<algorithm> --help` lists every key."""
    description = f"Train with {algorithm.upper()}, end to end on the device, and see what was learned."
    launch = cli.parse(
        CONFIGS[algorithm], sys.argv[1:] if argv is None else argv, prog=f"train.{algorithm}", description=description
    )
    if launch.coordinator:
        initialize(launch.coordinator, launch.num_processes, launch.process_id)
    config = loop.configuration(launch, algorithm)
    try:
        trainer = make_train(config)
    except (ValueError, TypeError) as error:
        raise cli.UserError(str(error)) from None
    loop.run(trainer, loop.run_folder(launch, config, algorithm), resume=launch.resume is not None)
