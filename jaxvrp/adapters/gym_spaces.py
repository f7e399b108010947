"""Spaces of the suite as Gymnasium's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import numpy as np

from jaxvrp.adapters.common import missing_extra
from jaxvrp.spaces import Discrete, Space

try:
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise missing_extra("gymnasium", error) from None


def to_gym(space: Space, count: int | None = None) -> spaces.Space:
    """The space of one element, or of `count` of them together."""
    if isinstance(space, Discrete):
        number = space.num_actions
        return spaces.Discrete(number) if count is None else spaces.MultiDiscrete([number] * count)
    shape = space.shape if count is None else (count, *space.shape)
    if not space.bounds:
        return spaces.Box(space.low, space.high, shape, np.float32)
    low, high = np.array(space.bounds, np.float32).T
    return spaces.Box(np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy(), shape, np.float32)


def with_mask(observation: spaces.Space, shape: tuple[int, ...]) -> spaces.Dict:
    """`{"observation": ..., "action_mask": i8[*shape]}`, as PettingZoo's own environments have it."""
    return spaces.Dict({"observation": observation, "action_mask": spaces.Box(0, 1, shape, np.int8)})


def pad(rows: Sequence[np.ndarray | jax.Array], size: int) -> np.ndarray:
    """`f32[len(rows), size]`, zeros at the end of shorter ones."""
    padded = np.zeros((len(rows), size), np.float32)
    for target, row in zip(padded, rows, strict=True):
        target[: row.size] = row
    return padded


def longest(observation_spaces: Iterable[spaces.Space]) -> int:
    """The size of the largest vectors."""
    return max(space.shape[0] for space in observation_spaces if space.shape)
