"""From a configuration to what a learner is made of: the checked configuration, its environments, its devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from jax.sharding import Mesh

import jaxvrp
from jaxvrp import Environment, fields, registry
from jaxvrp.entities import PARAMETER, seen_as
from jaxvrp.memory import memory_of
from jaxvrp.policies.environment import changed_for_evaluation, observation_read
from jaxvrp.policies.networks import NETWORKS
from jaxvrp.randomized import unwrapped
from jaxvrp.testing import check_shapes
from train.config import RunConfig, check_divides
from train.sharding import make_mesh

Config = TypeVar("Config", bound=RunConfig)

Ranges = Mapping[str, Any]
"""As `jaxvrp.randomize` takes them."""


def prepare(config: Config) -> tuple[Config, Environment, Environment, Mesh]:
    """The checked configuration, its environments of training and of evaluation, and its devices.

    Raises a ValueError or a TypeError where a value is wrong, or does not fit the others; the message says which.
    """
    config = fields.validate(config, "key")
    env = _seen_as_read(config)
    num_steps = config.randomize_steps / config.num_envs
    env = randomized(env, config.randomize, config.randomize_from, num_steps)
    check_shapes(env)
    mesh = make_mesh(config.num_devices)
    check_divides(config, "num_envs", "num_devices", mesh.size)
    memory = memory_of(env)
    if mesh.size > 1 and memory is not None and memory.merge is None:
        raise ValueError(
            f"env.name '{config.env['name']}' learns from one episode to the next, which {mesh.size} devices would "
            "each do alone; give its memory a function `merge`, or set num_devices to 1"
        )
    for name in ("eval_interval", "save_interval"):
        check_divides(config, name, "log_interval", config.log_interval)
    return config, env, evaluation_env(env, config), mesh


def _seen_as_read(config: RunConfig) -> Environment:
    """The environment of a configuration, with entities if the network reads them, else with flat observations."""
    network, name = getattr(config, "network", None), config.env["name"]
    wanted = observation_read(network)
    others = [f"'{other}'" for other, kind in NETWORKS.items() if kind.reads_entities != (wanted == "entities")]
    # A learner without a key `network` has no others.
    take = f"take {' or '.join(others)}" if network else ""
    asked = config.env.get(PARAMETER, wanted)
    if asked in ("flat", "entities") and asked != wanted:
        remedy = ", or ".join(filter(None, ("leave it out", take)))
        raise ValueError(f"env.observation is '{asked}', which the network does not read; {remedy}")
    env = jaxvrp.make(**config.env)
    try:
        return seen_as(env, wanted)
    except ValueError:
        if wanted == "entities":
            text = f"network is '{network}', which reads entities; '{name}' shows none: {take}"
        elif network:
            text = f"network is '{network}', which reads vectors; '{name}' shows entities: {take}"
        else:
            text = f"env.name '{name}' shows entities, which this learner does not read; let it show vectors as well"
        raise ValueError(text) from None


def randomized(env: Environment, ranges: Ranges, first_ranges: Ranges, num_steps: float = 1.0) -> Environment:
    """The environment with what is drawn for each episode, as `jaxvrp.randomize`; itself, if that is nothing.

    Where it shows entities, it has room for all sizes that are drawn, beyond its own; vectors are tied to these.
    """
    if env.entity_kinds:
        drawn = [name for name in registry.toolbox_of(env).paddings if name in ranges]
        greatest = {name: max(_greatest(ranges[name]), _greatest(first_ranges.get(name))) for name in drawn}
        larger = {name: size for name, size in greatest.items() if size > getattr(env, name)}
        env = fields.replace(env, larger, "parameter", "randomize.")
    return jaxvrp.randomize(env, ranges, first_ranges=first_ranges, num_steps=num_steps)


def _greatest(bounds: Any) -> int:
    """The greatest size of a range; 0 if it is none, which `jaxvrp.randomize` says."""
    try:
        _, greatest = bounds
        return int(greatest)
    except (TypeError, ValueError, OverflowError):
        return 0


def evaluation_env(env: Environment, config: RunConfig) -> Environment:
    """The environment that policies are evaluated in: see `changed_for_evaluation`, by `config.eval_env`.

    Nothing is drawn there but problems, and its sizes are those of `config.env`, so that figures of runs that randomise
    differently can be compared.
    """
    env = unwrapped(env)
    if drawn := [name for name in registry.toolbox_of(env).paddings if name in config.randomize]:
        given = jaxvrp.make(**config.env).parameters
        env = fields.replace(env, {name: given[name] for name in drawn}, "parameter", "env.")
    return changed_for_evaluation(env, config.eval_env)
