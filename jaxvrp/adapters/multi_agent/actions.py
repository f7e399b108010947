"""Actions of the list API: an index, a one-hot row, or a vector for each agent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxvrp.actions import are_integers, as_array
from jaxvrp.adapters.gym_spaces import spaces
from jaxvrp.io.messages import shown

NEAR_ONE_HOT = 1e-4
"""How far the numbers of a one-hot row may lie from 0 and 1: learners make such rows as differences of floats."""


def elements(agents: Sequence[str], action_spaces: Sequence[spaces.Space], actions: Any) -> list[np.ndarray]:
    """For each agent an element of its space, or an index outside of it, which the environment counts.

    Args:
        agents: names for messages.
        action_spaces: of the agents.
        actions: for each agent an index, a one-hot row, or the vector of a continuous action.

    Raises:
        ValueError: too many or too few actions, or one that is none of these.
    """
    if not hasattr(actions, "__len__") or len(actions) != len(agents):
        given = f"{len(actions)} actions" if hasattr(actions, "__len__") else shown(actions)
        raise ValueError(f"step got {given}; it needs {len(agents)}, one for each of {list(agents)}")
    return [_element(*each) for each in zip(agents, action_spaces, actions, strict=True)]


def _element(agent: str, space: spaces.Space, action: Any) -> np.ndarray:
    what = f"action of {agent}"
    array = np.asarray(as_array(what, action))
    if isinstance(space, spaces.Discrete):
        return _index(what, int(space.n), action, array)
    assert space.shape is not None, f"{space} has no vectors"
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{what} is {shown(action)}; it needs numbers of shape {space.shape}")
    if array.size != math.prod(space.shape):
        raise ValueError(f"{what} has shape {array.shape}; it needs {space.shape}")
    with np.errstate(over="ignore"):  # beyond float32 is inf, which the environment counts
        return array.reshape(space.shape).astype(np.float32)


def _index(what: str, number: int, action: Any, array: np.ndarray) -> np.ndarray:
    if array.size == 1 and (are_integers(array) or _is_whole(array)):
        return np.asarray(int(array.item()))
    if array.size == max(array.shape, default=0) == number and _is_one_hot(array.ravel()):
        return np.asarray(array.argmax())
    raise ValueError(f"{what} is {shown(action)}; it needs an index below {number}, or a one-hot row of {number}")


def _is_whole(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and float(array.item()).is_integer()


def _is_one_hot(row: np.ndarray) -> bool:
    if row.dtype.kind not in "biuf":
        return False
    return bool(np.allclose(row, np.arange(row.size) == row.argmax(), rtol=0.0, atol=NEAR_ONE_HOT))
