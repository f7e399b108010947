"""How much memory there is, how much arrays take, and the message where they do not fit."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import jax

UNKNOWN = 2**62
"""Bytes: more than any machine has."""

CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

SAFETY = 8
"""Compiled programs took one to seven times the bytes of the arrays that are known before they are compiled; a value
that is recommended leaves room for that."""


def host_bytes() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's; `UNKNOWN` if not known."""
    known = [UNKNOWN]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on every system
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in CONTAINER_LIMITS:
        with contextlib.suppress(ValueError, OSError):  # "max": no limit
            known.append(int(Path(path).read_text(encoding="utf-8")))
    return min(known)


def machine_bytes(num_devices: int = 1) -> int:
    """Bytes that `num_devices` devices like the first have together: their own, or the host's if they have none."""
    own = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    return num_devices * own if own else jax.process_count() * host_bytes()


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays of a pytree, or of `jax.ShapeDtypeStruct`s."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def in_words(num_bytes: float) -> str:
    """`"1.5 GB"`: three digits, and a unit of 1 000, 1 000 000, ... bytes."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if num_bytes < 999.5:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.3g} EB"


def refusal(name: str, value: int, needed: int, available: int, fitting: int | None) -> str:
    """The message about a size that needs more bytes than are available; `fitting` is a value that fits, if known."""
    remedy = f"{name} {fitting} should fit" if fitting else f"lower {name}"
    takes = f"that takes at least {in_words(needed)} of memory, and there are {in_words(available)}"
    return f"{name} is {value}; {takes}: {remedy}"


def check_count(name: str, count: int, single: int) -> None:
    """Refuse `count` equal objects of `single` bytes each that memory does not hold; `name` is that of the count.

    Raises:
        ValueError: they do not fit; one line with a number that does.
    """
    available = machine_bytes()
    if count * single > available:
        fitting = available // (SAFETY * single)
        raise ValueError(refusal(name, count, count * single, available, fitting))
