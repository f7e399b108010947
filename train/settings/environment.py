"""The environments of a configuration: as its network reads them, with what it draws, and for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jaxvrp
from jaxvrp import Environment, fields, registry
from jaxvrp.entities import PARAMETER, seen_as
from jaxvrp.policies.environment import changed_for_evaluation, observation_read
from jaxvrp.policies.networks import NETWORKS
from jaxvrp.testing import check_shapes
from train.settings.config import RunConfig

Ranges = Mapping[str, Any]
"""As `jaxvrp.randomize` takes them."""


def environments(
    config: RunConfig, made: Environment | None = None, *, check: bool = True
) -> tuple[Environment, Environment]:
    """The environments of training and of evaluation; `made` is that of `config.env`, if it has been made already.

    That of training is traced, to `check` its shapes.

    In evaluation nothing is drawn but problems, and sizes are those of `config.env`, so that figures of runs that
    randomise differently can be compared.

    Raises:
        ValueError, TypeError: a value is wrong, or does not fit the others; the message says which.
    """
    plain = _seen_as_read(config, made)
    env = randomized(plain, config.randomize, config.randomize_from, config.randomize_steps / config.num_envs)
    if check:
        check_shapes(env)
    return env, changed_for_evaluation(plain, config.eval_env)


def _seen_as_read(config: RunConfig, made: Environment | None) -> Environment:
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
    env = jaxvrp.make(**config.env) if made is None else made
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
        drawn = [name for name in registry.card_of(env).paddings if name in ranges]
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
