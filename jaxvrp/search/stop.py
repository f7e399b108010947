"""When a search stops: criteria as objects, each of them the share of a budget that is used up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Stop(Protocol):
    """A criterion by which a search stops."""

    def __call__(self, rounds: int, seconds: float) -> float:
        """The share of the budget that so many rounds and seconds use up; the search stops at 1."""
        ...


@dataclass(frozen=True)
class Seconds:
    """Stops after so many seconds, without compilation."""

    limit: float

    def __call__(self, rounds: int, seconds: float) -> float:
        """See `Stop`."""
        return _share(seconds, self.limit)


@dataclass(frozen=True)
class Rounds:
    """Stops after so many rounds: the same plans again on the same machine."""

    limit: int

    def __call__(self, rounds: int, seconds: float) -> float:
        """See `Stop`."""
        return _share(rounds, self.limit)


def _share(used: float, limit: float) -> float:
    return used / limit if limit > 0 else 1.0


def stop_of(stop: Stop | float) -> Stop:
    """The criterion; a number stands for so many seconds."""
    return stop if callable(stop) else Seconds(stop)
