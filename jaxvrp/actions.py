"""What becomes of the actions that a caller passes: checked, judged, and made legal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.spaces import Discrete, Role


def no_action(role: Role) -> jax.Array:
    """Index 0 for every agent (`i32[agents]`), or the point of the box that is nearest to 0 (`f32[agents, ...]`)."""
    if isinstance(role.action, Discrete):
        return jnp.zeros(role.num_agents, jnp.int32)
    return jnp.full((role.num_agents, *role.action.shape), np.clip(0.0, role.action.low, role.action.high), jnp.float32)


def judge(
    roles: dict[str, Role],
    action: dict[str, jax.Array],
    mask: dict[str, jax.Array],
    fallback: dict[str, jax.Array],
    valid: dict[str, jax.Array],
) -> tuple[dict[str, jax.Array], jax.Array]:
    """The actions that are executed, and how many of the `valid` agents' are not those asked for (`i32[]`).

    See `Environment.step`.
    """
    executed, num_invalid = {}, jnp.zeros((), jnp.int32)
    for name, role in roles.items():
        if isinstance(role.action, Discrete):
            chosen = jnp.arange(role.action.num_actions, dtype=jnp.int32) == action[name][:, None]
            legal = (chosen & mask[name]).any(axis=1)
            executed[name] = jnp.where(legal, action[name], fallback[name])
        else:
            inner = tuple(range(1, action[name].ndim))
            finite = jnp.isfinite(action[name]).all(axis=inner, keepdims=True)
            clipped = jnp.clip(action[name], role.action.low, role.action.high)
            executed[name] = jnp.where(finite, clipped, fallback[name])
            legal = (clipped == action[name]).all(axis=inner) & finite.reshape(-1)
        num_invalid += jnp.sum(~legal & valid.get(name, True), dtype=jnp.int32)
    return executed, num_invalid


def checked_action(roles: dict[str, Role], action: Mapping[str, Any], batch: tuple[int, ...] = ()) -> dict[str, Any]:
    """The same actions as arrays of the right dtype, or one clear line.

    Args:
        roles: the agents.
        action: `{role: [*batch, agents, ...]}`.
        batch: leading axes.

    Raises:
        ValueError: a role is missing or unknown, or an array has the wrong shape.
        TypeError: an array has the wrong dtype.
    """
    if not isinstance(action, Mapping) or set(action) != set(roles):
        given = sorted(action) if isinstance(action, Mapping) else type(action).__name__
        raise ValueError(f"action must be a dict with exactly the roles {list(roles)}; got {given}")
    return {name: _typed(name, role, action[name], batch) for name, role in roles.items()}


def _typed(name: str, role: Role, action: Any, batch: tuple[int, ...]) -> jax.Array:
    array = action if isinstance(action, jax.Array) else np.asarray(action)
    wanted = (*batch, role.num_agents, *role.action.shape)
    if not jnp.issubdtype(array.dtype, jnp.integer if isinstance(role.action, Discrete) else jnp.floating):
        raise TypeError(f"action['{name}'] has dtype {array.dtype}; it needs {role.action.dtype} of shape {wanted}")
    if array.shape != wanted:
        raise ValueError(f"action['{name}'] has shape {array.shape}; it needs {wanted}, one entry for each agent")
    if isinstance(role.action, Discrete) and not isinstance(array, jax.Array):
        # An int64 far outside int32 would wrap around into a legal index.
        array = np.clip(array.astype(np.int64), -1, role.action.num_actions)
    return jnp.asarray(array, role.action.dtype)
