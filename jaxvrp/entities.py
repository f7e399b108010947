"""Entities as flat vectors, and environments with either kind of observation."""

from __future__ import annotations

import functools
import math
from typing import Literal

import jax
import jax.numpy as jnp

from jaxvrp.environment import Environment, require_environment
from jaxvrp.spaces import Box, ByKind, EntityKind, Feature

PARAMETER = "observation"
"""The parameter of an environment that chooses the kind of observation."""


def flat_box(context: tuple[Feature, ...], kinds: tuple[EntityKind, ...]) -> Box:
    """The space of `flatten`, with the bounds of the features."""
    planes = [feature for kind in kinds for feature in kind.features for _ in range(kind.count)]
    bounds = tuple((feature.low, feature.high) for feature in (*context, *planes))
    return Box(-math.inf, math.inf, (len(bounds),), bounds)


def flatten(context: jax.Array, static: ByKind, dynamic: ByKind) -> jax.Array:
    """The context of an agent, then the planes of each kind, static before dynamic ones: `f32[F]` from `f32[C]`."""
    planes = [plane.ravel() for name in dynamic for plane in (static[name], dynamic[name])]
    # Joined first, so that planes that all agents see are so once, not for each of them.
    return jnp.concatenate([context, jnp.concatenate(planes)])


@functools.singledispatch
def seen_as(env: Environment, kind: Literal["flat", "entities"]) -> Environment:
    """The same environment with flat observations or with entities.

    Raises:
        ValueError: it cannot be seen so.
        TypeError: it is no environment.
    """
    require_environment(env)
    if bool(env.entity_kinds) == (kind == "entities"):
        return env
    if PARAMETER not in env.parameters:
        raise ValueError(f"{type(env).__name__} cannot be seen as {kind}; it has no parameter `{PARAMETER}`")
    return env.replace(**{PARAMETER: kind})
