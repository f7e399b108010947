"""Actions of a caller: checks of shape and dtype, comparison with the mask, and fallbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.io.messages import shown
from jaxvrp.spaces import Discrete, Role, Space


def no_action(role: Role) -> jax.Array:
    """Index 0 for every agent (`i32[agents]`), or the point of the box that is nearest to 0 (`f32[agents, ...]`)."""
    if isinstance(role.action, Discrete):
        return jnp.zeros(role.num_agents, jnp.int32)
    return jnp.full((role.num_agents, *role.action.shape), np.clip(0.0, role.action.low, role.action.high), jnp.float32)


def lowest_true(mask: jax.Array) -> jax.Array:
    """`i32[...]`, the lowest index at which `mask` (`bool[..., n]`) is true; 0 where it never is.

    Not `argmax`, which reduces pairs: no kernel of a GPU can read the index as it is computed.
    """
    size = mask.shape[-1]
    lowest = jnp.min(jnp.where(mask, jnp.arange(size, dtype=jnp.int32), size), axis=-1)
    return jnp.where(lowest < size, lowest, 0)


def judge(
    roles: dict[str, Role],
    action: dict[str, jax.Array],
    mask: dict[str, jax.Array],
    fallback: dict[str, jax.Array],
    valid: dict[str, jax.Array],
) -> tuple[dict[str, jax.Array], jax.Array]:
    """The executed actions, and the number of `valid` agents whose action was replaced (`i32[]`).

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
    """The actions `{role: [*batch, agents, ...]}` as arrays of the right dtype.

    Raises:
        ValueError: a role is missing or unknown, or an array has the wrong shape.
        TypeError: an array has the wrong dtype.
    """
    if not isinstance(action, Mapping) or set(action) != set(roles):
        given = sorted(map(str, action)) if isinstance(action, Mapping) else type(action).__name__
        raise ValueError(f"action must be a dict with exactly the roles {list(roles)}; got {given}")
    typed = {}
    for name, role in roles.items():
        shape = (*batch, role.num_agents, *role.action.shape)
        typed[name] = jnp.asarray(typed_action(f"action['{name}']", role.action, action[name], shape, bool(batch)))
    return typed


def typed_action(
    subject: str, space: Space, action: Any, shape: tuple[int, ...], is_batch: bool = False
) -> jax.Array | np.ndarray:
    """An array of `shape` and of the dtype of `space`: a JAX array if `action` is one, else a NumPy array.

    An index is compared with the space before the cast. An index beyond `int32` would wrap around into a legal
    one; it becomes -1, which is always illegal. Messages call the action `subject`, and say whether the first axis of
    `shape` counts environments.

    Raises:
        ValueError: the wrong shape.
        TypeError: the wrong dtype, or no numbers at all.
    """
    array = as_array(subject, action)
    wanted = f"it needs {space.dtype} of shape {shape}"
    is_discrete = isinstance(space, Discrete)
    if not (are_integers(array) if is_discrete else jnp.issubdtype(array.dtype, jnp.floating)):
        given = f"has dtype {array.dtype}" if hasattr(action, "dtype") else f"is {shown(action)}"
        raise TypeError(f"{subject} {given}; {wanted}")
    if array.shape != shape:
        axes = ["environment"] * is_batch + ["agent"] * (len(shape) - len(space.shape) - is_batch)
        each = f", one entry for each {' and '.join(axes)}" if axes else ""
        raise ValueError(f"{subject} has shape {array.shape}; it needs {shape}{each}")
    if isinstance(space, Discrete) and array.dtype.itemsize > space.dtype.itemsize:
        xp: Any = jnp if isinstance(array, jax.Array) else np
        inside = (array >= 0) & (array < space.num_actions)
        return xp.where(inside, xp.where(inside, array, 0).astype(space.dtype), xp.asarray(-1, space.dtype))
    with np.errstate(over="ignore"):  # beyond float32 is inf, which `judge` counts
        return array.astype(space.dtype)


def as_array(subject: str, action: Any) -> jax.Array | np.ndarray:
    """JAX arrays unchanged, other values as NumPy arrays; `subject` names the action in messages.

    Raises:
        ValueError: NumPy makes no array of the value, because its rows have different lengths, for example.
    """
    if isinstance(action, jax.Array):
        return action
    try:
        return np.asarray(action)
    except (ValueError, TypeError):
        raise ValueError(f"{subject} is {shown(action)}; it needs to be one array, its rows all of one shape") from None


def are_integers(array: jax.Array | np.ndarray) -> bool:
    """Whether the entries can be indices; integers of Python beyond 64 bits, which NumPy keeps as objects, can."""
    if array.dtype == object:
        return array.size > 0 and all(type(entry) is int for entry in np.asarray(array).flat)
    # NumPy counts spans of time as integers.
    return jnp.issubdtype(array.dtype, jnp.integer) and array.dtype.kind != "m"
