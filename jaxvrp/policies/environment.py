"""The environment that a policy plays: as its network reads it, and as it is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from jaxvrp import fields, registry
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment
from jaxvrp.policies.networks import NETWORKS


def observation_read(network: str | None) -> Literal["flat", "entities"]:
    """How a network reads environments; those of learners without a key `network`, and unknown ones, read vectors."""
    return "entities" if network in NETWORKS and NETWORKS[network].reads_entities else "flat"


def playing_environment(values: Mapping[str, Any], changes: dict[str, Any]) -> Environment:
    """The environment of a configuration as it is evaluated, with `changes` of its parameters.

    Raises a ValueError or a TypeError of one line where a name or a value is wrong.
    """
    env = registry.make(**values["env"])
    if changes:
        env = registry.make(**changed_parameters(env, values["env"], changes))
    evaluation = evaluation_parameters(env, values.get("eval_env", {}))
    evaluation |= {name: changes[name] for name in evaluation if name in changes}
    return changed_for_evaluation(seen_as(env, observation_read(values.get("network"))), evaluation)


def changed_for_evaluation(env: Environment, chosen: dict[str, Any]) -> Environment:
    """The environment with what its card changes for evaluation, and what is `chosen`, which goes first."""
    changed = fields.replace(env, evaluation_parameters(env, chosen), "parameter", "eval_env.")
    if changed.roles != env.roles:
        raise ValueError(
            f"eval_env ({', '.join(chosen)}) changes what the agents see or do; leave the sizes of the environment as "
            "they are"
        )
    return changed


def changed_parameters(env: Environment, parameters: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The parameters that `env` was made from after some `changes`, by keyword of its factory."""
    changed = registry.card_of(env).changed
    return changed(parameters, changes) if changed else {**parameters, **changes}


def evaluation_parameters(env: Environment, chosen: dict[str, Any]) -> dict[str, Any]:
    """The parameters that evaluation changes: what is `chosen`, and else what the environment's card says."""
    return {**registry.card_of(env).evaluation, **chosen}
