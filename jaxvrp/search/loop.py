"""The loop of every anytime search: calls of a compiled program, and a look at the budget between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import jax
import numpy as np

from jaxvrp.search.annealing import Cycle
from jaxvrp.search.stop import Stop, stop_of

State = TypeVar("State")

WHOLE = (Cycle(0.0, 1.0),)
"""One annealing, for the whole budget."""

Cycles = Sequence[Cycle] | Callable[[float], Sequence[Cycle]]
"""Cycles one after the other, or how they follow from the rounds that the budget comes to."""


class Spent:
    """What a search has spent of its budget so far.

    Attributes:
        rounds: played.
        seconds: since it began, without compilation.
        share: of the budget, by its criterion.
        pace: seconds of the last call.
    """

    def __init__(self, stop: Stop, clock: Callable[[], float] = time.monotonic, pace: float = 0.0):
        """Nothing yet; the clock runs from now on."""
        self._stop, self._clock, self._begun = stop, clock, clock()
        self.rounds, self.seconds, self.share, self.pace = 0, 0.0, 0.0, pace

    def add(self, rounds: int) -> None:
        """So many rounds have been played since the last time."""
        before = self.seconds
        self.rounds, self.seconds = self.rounds + rounds, self._clock() - self._begun
        self.share, self.pace = self._stop(self.rounds, self.seconds), self.seconds - before

    def ahead(self, rounds: int) -> np.ndarray:
        """`f64[rounds]`: the shares during the next call, if it takes as long as the last one."""
        return np.linspace(self.share, self.share + self._stop(rounds, self.pace), rounds)


def anytime(
    advance: Callable[[State, jax.Array, np.ndarray], State],
    state: State,
    key: jax.Array,
    stop: Stop | float,
    *,
    rounds: int,
    cycles: Cycles = WHOLE,
    renew: Callable[[State, jax.Array], State] = lambda state, key: state,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[Spent, State]]:
    """Play a search until it is to stop; yields what it has spent and where it is after each call, at least once.

    Args:
        advance: a call, `(state, key, progress f64[rounds]) -> state`; progress is how far annealing is at each round.
        state: where it begins, a pytree.
        key: typed key.
        stop: when it stops; a number: after so many seconds.
        rounds: of one call.
        cycles: the search stops where the last of them ends.
        renew: `(state, key) -> state`, at the beginning of each cycle but the first.
        clock: seconds from any point on. It starts when the program is compiled.
    """
    stop, pace = stop_of(stop), 0.0
    jax.block_until_ready(advance(state, key, np.zeros(rounds)))
    if callable(cycles):
        begun = clock()
        jax.block_until_ready(advance(state, key, np.zeros(rounds)))
        pace = clock() - begun
        cycles = cycles(rounds / max(stop(rounds, pace), 1e-12))
    spent, number = Spent(stop, clock, pace), 0
    while not spent.rounds or spent.share < cycles[-1].end:
        key, call_key, renew_key = jax.random.split(key, 3)
        if spent.share >= cycles[number].end:
            number = next(index for index, cycle in enumerate(cycles) if spent.share < cycle.end)
            state = renew(state, renew_key)
        state = jax.block_until_ready(advance(state, call_key, cycles[number].progress(spent.ahead(rounds))))
        spent.add(rounds)
        yield spent, state
