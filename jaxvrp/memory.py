"""What later episodes may learn of earlier ones; `VecEnv` carries it for a whole batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Memory:
    """How an environment remembers: pure functions of a *content*, any pytree of arrays.

    Attributes:
        initial: the content before the first episode.
        update: `(content, states [E]) -> content`, after a step of a batch of states, before any reset.
        apply: `content -> Environment`: the environment whose `generate` draws by it.
        merge: `(content, axis name) -> content`: one content of those of all devices along a mapped axis; None where an
            environment can only be played on one device.
    """

    initial: Any
    update: Callable[[Any, Any], Any]
    apply: Callable[[Any], Any]
    merge: Callable[[Any, str], Any] | None = None
