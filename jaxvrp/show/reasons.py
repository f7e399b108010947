"""Why actions are masked: a function from a state to causes, in numbers, and the words for them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.io.messages import number
from jaxvrp.story import Why

ALLOWED = 0
"""The kind of a cause where there is none: the action is allowed."""


class Kind(enum.IntEnum):
    """Kinds of causes with their words, in their order: `AWAY = "the drone is away"`. The first is `ALLOWED = ""`."""

    words: str

    def __new__(cls, words: str) -> Kind:
        """A member with the next number."""
        member = int.__new__(cls, len(cls.__members__))
        member._value_, member.words = len(cls.__members__), words
        return member


class Cause(struct.PyTreeNode):
    """Why each action of the agents of a role is masked."""

    kind: jax.Array  # `i32[agents, actions]`, the index of its words; `ALLOWED` for an action that is not masked
    amount: jax.Array  # `f32[agents, actions]`, a number in these words
    other: jax.Array  # `i32[agents, actions]`, another one: of a customer, say


Candidates = Sequence[tuple[jax.Array, int, Any]]
"""`(what forbids actions, kind, amount)`, the first and the last broadcast over actions."""


def first_cause(candidates: Candidates, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Kind `i32[shape]` and amount `f32[shape]` of the first candidate that forbids each action."""
    kind, amount = jnp.full(shape, ALLOWED, jnp.int32), jnp.zeros(shape, jnp.float32)
    for forbids, cause, value in reversed(candidates):
        kind, amount = jnp.where(forbids, int(cause), kind), jnp.where(forbids, value, amount)
    return kind.astype(jnp.int32), amount.astype(jnp.float32)


def _numbers(amount: float, other: int) -> dict[str, object]:
    """What `{amount}` and `{other}` stand for, unless an environment says that in words of its own."""
    return {"amount": number(amount), "other": other}


@dataclasses.dataclass(frozen=True)
class Reasons:
    """Why the actions of an environment are masked."""

    kinds: type[Kind]  # with names in braces in their words
    explain: Callable[[Any], Mapping[str, Cause]]  # `state -> {role: Cause}`, from the rules; traceable
    fill: Callable[[float, int], Mapping[str, object]] = _numbers  # `(amount, other)` -> what these names stand for

    def text(self, kind: int, amount: float, other: int) -> str:
        """The words for one cause."""
        return list(self.kinds)[kind].words.format_map(self.fill(amount, other))


def grouped(cause: Cause, allowed: np.ndarray, reasons: Reasons) -> Why:
    """The reasons of one agent, by the first action that each forbids; an action without a cause is left out.

    `cause` has NumPy leaves `[actions]`, and `allowed` is the mask, `bool[actions]`.
    """
    actions: dict[str, list[int]] = {}
    for action in np.flatnonzero(~allowed & (cause.kind != ALLOWED)).tolist():
        text = reasons.text(*(of[action].item() for of in (cause.kind, cause.amount, cause.other)))
        actions.setdefault(text, []).append(action)
    return tuple((text, tuple(group)) for text, group in actions.items())
