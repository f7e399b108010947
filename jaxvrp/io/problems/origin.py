"""Where clocks and maps begin. Environments compute in `float32`, which resolves the seconds since 1970 to 128 s, and
metres of a national grid to half a metre. So readers count such numbers from an origin among them, in `float64`, and
whoever writes them adds it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

FAR = 4.0
"""Numbers are far from zero if they are larger than so many times their span: `float32` loses two of its 24 bits."""


FAR_IN_TIME = 50.0
"""Likewise where nothing says when a clock begins: on one that begins at zero, little happens so late."""


def origin_of(rows: ArrayLike, far: float = FAR) -> Any:
    """The least of finite numbers `f[n]`, or of each column of `f[n, k]`, where one is `far` from zero; else 0.

    The span of all columns together counts, in whatever unit.

    Returns:
        `f64[]`, or `f64[k]`.
    """
    table = np.asarray(rows, np.float64)
    finite = np.isfinite(table)
    if not finite.any():
        return np.zeros(table.shape[1:])
    low = np.where(finite, table, np.inf).min(axis=0)
    high = np.where(finite, table, -np.inf).max(axis=0)
    span = (high - low).max()
    is_far = np.isfinite(low) & (np.maximum(np.abs(low), np.abs(high)) > far * span)
    return np.where(is_far, low, 0.0)
