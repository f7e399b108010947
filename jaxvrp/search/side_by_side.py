"""Parts of a search that go on side by side, one on each core."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax

Part = TypeVar("Part")

MOST_THREADS = 8
"""The best of more chains is hardly better."""


def num_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_threads() -> int:
    """How many parts a search of a single problem has."""
    return min(num_cores(), MOST_THREADS)


def advanced(
    pool: ThreadPoolExecutor, advance: Callable[[Part, jax.Array], Part], parts: Sequence[Part], key: jax.Array
) -> list[Part]:
    """Each part after `advance(part, key)` with a key of its own, in a thread of its own."""
    return list(pool.map(advance, parts, jax.random.split(key, len(parts))))
