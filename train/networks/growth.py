"""Parameters for a network that reads more than theirs did: what is new counts for nothing at first."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import Environment

Names = tuple[str, ...]


def grown(params: Any, wanted: Any, before: Environment, after: Environment) -> Any:
    """Parameters for a network of the shapes `wanted`, which chooses as theirs does.

    The layers that read features have a row for each. Rows of features that only `after` has are 0; where other rows
    follow them (what the network makes of places), these stay theirs.

    Args:
        params: of networks that read what `before` shows.
        wanted: arrays or shapes of the same structure.
        before, after: environments.

    Returns:
        The parameters; as they are, where shapes agree or no features explain the difference.
    """
    old_readings, new_readings = readings(before), readings(after)
    same_structure = jax.tree.map(lambda _: 0, params) == jax.tree.map(lambda _: 0, wanted)
    if not same_structure or len(old_readings) != len(new_readings):
        return params

    def fit(leaf: jax.Array, like: Any) -> jax.Array:
        if leaf.shape == like.shape or leaf.shape[1:] != like.shape[1:]:
            return leaf
        for old, new in zip(old_readings, new_readings, strict=True):
            if leaf.shape[0] - len(old) == like.shape[0] - len(new) >= 0 and set(old) <= set(new):
                return _spread(leaf, old, new)
        return leaf

    return jax.tree.map(fit, params, wanted)


def _spread(kernel: jax.Array, old: Names, new: Names) -> jax.Array:
    """The rows of `old` features where they are among `new` ones, then the rows after them."""
    rows = np.array([new.index(name) for name in old], np.int32)
    of_features = jnp.zeros((len(new), *kernel.shape[1:]), kernel.dtype).at[rows].set(kernel[: len(old)])
    return jnp.concatenate([of_features, kernel[len(old) :]])


def readings(env: Environment) -> list[Names]:
    """Names of what is read together: of each role's context, and of each kind of entities."""
    contexts = [tuple(feature.name for feature in role.context) for role in env.roles.values()]
    return contexts + [tuple(feature.name for feature in kind.features) for kind in env.entity_kinds]
