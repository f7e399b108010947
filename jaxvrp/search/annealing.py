"""The schedule of annealing: how far it is at a share of a search's budget, and what falls or rises with that."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Cycle(NamedTuple):
    """A part of a search in which it anneals once: from one share of the budget to another."""

    begin: float
    end: float
    first: float = 0.0  # how far annealing is at the beginning, in [0, 1]
    last: float = 1.0  # and at the end

    def progress(self, shares: np.ndarray) -> np.ndarray:
        """How far annealing is at these shares of the budget, `f64[rounds]` each; beyond the end as at the end."""
        passed = np.clip((shares - self.begin) / (self.end - self.begin), 0.0, 1.0)
        return self.first + (self.last - self.first) * passed


def geometric(first: float, last: float, progress: Any, unit: Any = 1.0) -> Any:
    """From `first` to `last` as progress goes from 0 to 1, in equal times by equal factors; in units of `unit`.

    `progress` and `unit` are numbers, or arrays of NumPy or JAX.
    """
    return unit * first * (last / first) ** progress
