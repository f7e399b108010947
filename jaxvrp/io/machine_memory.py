"""How much memory there is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

UNKNOWN = 2**62
"""Bytes: more than any machine has."""

CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def host_bytes() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's; `UNKNOWN` if nobody says."""
    known = [UNKNOWN]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on every system
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in CONTAINER_LIMITS:
        with contextlib.suppress(ValueError, OSError):  # "max": no limit
            known.append(int(Path(path).read_text(encoding="utf-8")))
    return min(known)
