"""Policies by name, folder or file, ready to play; `train` is not imported."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.environment import Environment
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import shown
from jaxvrp.policies.actors import build_actors
from jaxvrp.policies.environment import playing_environment
from jaxvrp.policies.folder import (
    CARD,
    CONFIG,
    REMEDY,
    find_run,
    read_card,
    read_policy,
    read_values,
    refuse_dotted_paths,
)
from jaxvrp.policies.networks import NetworkKeys
from jaxvrp.policies.policy import Policy, of_networks
from jaxvrp.policies.program import read_program

LEARNERS = ("mappo", "ippo")
"""Algorithms whose policies are played without `train`."""

ALGORITHMS = (*LEARNERS, "td3", "sac")


def load_policy(source: str | os.PathLike, /, *, trust: bool = False, **parameters: Any) -> Policy:
    """A trained policy, with the environment that it plays: `policy.act(state)` gives actions.

    Args:
        source: the name of a shipped policy, or the folder or file that `jaxvrp export` wrote, of MAPPO or IPPO; not
            the folder of a run, whose checkpoints `train` reads.
        trust: whether a dotted path that it names may be imported and run.
        parameters: changes of the environment, not of a file's; of its sizes if the network is `attention`.

    Raises:
        ValueError: there is none, it is damaged, or it does not fit the parameters; one line.
        TypeError: a parameter has the wrong type.
    """
    try:
        return _load(source, trust, parameters)
    except UserError as error:
        raise ValueError(str(error)) from None


def _load(source: str | os.PathLike, trust: bool, parameters: dict[str, Any]) -> Policy:
    path = find_run(source)
    if path.is_file():
        if parameters:
            raise UserError(f"{path} is a program, with its parameters in it; leave out {', '.join(parameters)}")
        return read_program(path, trust=trust)
    if not (path / CARD).is_file():
        kind = "a run" if (path / CONFIG).is_file() else "something else"
        raise UserError(
            f"{path} is not the folder of a policy, but of {kind}; load what `jaxvrp export RUN FOLDER` wrote, with "
            f"{path if kind == 'a run' else 'the folder of the run'} for RUN"
        )
    card = read_card(path)
    values, algorithm = read_values(path, ALGORITHMS)
    if algorithm not in LEARNERS:
        raise UserError(
            f"{path} was trained by {algorithm}, and only policies of {' and '.join(LEARNERS)} are loaded; "
            f"train.RunFolder('{path}').load('latest') has its learner and params: learner.actor(params, ...) plays"
        )
    if not isinstance(values.get("env"), dict):
        raise UserError(
            f"{path / CONFIG}: env is {shown(values.get('env'))}; it must be a mapping with a name; {REMEDY}"
        )
    refuse_dotted_paths(values["env"], path / CONFIG, "trust=True", trust=trust, named=list(parameters.values()))
    names = {field.name for field in dataclasses.fields(NetworkKeys)}
    try:
        keys = fields.build(NetworkKeys, {name: value for name, value in values.items() if name in names}, "key")
        env = playing_environment(values, {})
    except (ValueError, TypeError) as error:
        raise UserError(f"{path / CONFIG}: {error}") from None
    shapes = _shapes(keys, env)
    params = read_policy(path, shapes)
    if parameters:
        env = playing_environment(values, parameters)
        if jax.tree.map(jnp.shape, _shapes(keys, env)) != jax.tree.map(jnp.shape, shapes):
            raise UserError(
                f"the networks of {path} ({keys.network}) are tied to the sizes that they were trained with; leave out "
                "what changes these"
            )
    return of_networks(env, build_actors(keys, env), params, card.about)


def _shapes(keys: NetworkKeys, env: Environment) -> Any:
    return jax.eval_shape(build_actors(keys, env).init_all, jax.random.key(0))
