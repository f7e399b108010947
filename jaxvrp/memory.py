"""Environments whose later episodes depend on what earlier ones have left."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

from jaxvrp.environment import Environment


@dataclasses.dataclass(frozen=True)
class Memory:
    """Data that earlier episodes leave for later ones: pure functions of a *content*, a pytree of arrays.

    `VecEnv` carries the content for a whole batch.

    Attributes:
        initial: the content before the first episode.
        update: `(content, states [E]) -> content`, after a step of a batch of states, before any reset.
        apply: `content -> Environment`, whose `generate` uses the content.
        merge: `(content, axis name) -> content`, which merges the contents of all devices along a mapped axis; None if
            the environment can only be played on one device.
    """

    initial: Any
    update: Callable[[Any, Any], Any]
    apply: Callable[[Any], Any]
    merge: Callable[[Any, str], Any] | None = None


class RememberingEnvironment(Environment):
    """An environment with a memory."""

    @property
    @abc.abstractmethod
    def memory(self) -> Memory | None:
        """Data that earlier episodes leave for later ones; None if these parameters need none."""


def memory_of(env: Environment) -> Memory | None:
    """The memory of an environment that has one."""
    return env.memory if isinstance(env, RememberingEnvironment) else None
