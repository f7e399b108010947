"""The loop of a search: it stops when its criterion says so, cools down by the budget, and is renewed in between."""

import itertools

import jax
import numpy as np
import pytest

from jaxvrp.search.annealing import Cycle, geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.side_by_side import num_threads
from jaxvrp.search.stop import Rounds, Seconds, stop_of

ROUNDS = 4
CYCLES = (Cycle(0.0, 0.5, 0.0), Cycle(0.5, 1.0, 0.4))


def played(stop, **how):
    """What each call of a search was given, and yielded; its clock goes on by a second whenever it is read."""
    ticks, calls = itertools.count(), []

    def advance(state, key, progress):
        calls.append(progress)
        return state + 1

    yields = []
    for spent, state in anytime(
        advance, 0, jax.random.key(0), stop, rounds=ROUNDS, clock=lambda: float(next(ticks)), **how
    ):
        yields.append((spent.rounds, spent.seconds, spent.share, state))
    return calls, yields


@pytest.mark.parametrize("stop", [8.0, Seconds(8.0), Rounds(8 * ROUNDS)])
def test_it_stops_when_its_budget_is_used_up(stop):
    calls, yields = played(stop)
    assert yields == [(ROUNDS * call, float(call), call / 8, call) for call in range(1, 9)]
    assert len(calls) == 9, "the first compiles, and counts for nothing"


@pytest.mark.parametrize("stop", [0.0, 1e-9, Rounds(0), Rounds(1)])
def test_it_yields_at_least_once(stop):
    assert len(played(stop)[1]) == 1


def test_rounds_say_how_far_a_call_will_get_and_seconds_guess_by_the_last_one():
    shares = np.linspace(0, 1, ROUNDS)
    by_rounds, by_seconds = (played(stop)[0][1:] for stop in (Rounds(2 * ROUNDS), Seconds(2.0)))
    np.testing.assert_allclose(by_rounds, [shares / 2, (1 + shares) / 2])
    np.testing.assert_allclose(by_seconds, [np.zeros(ROUNDS), (1 + shares) / 2])


def test_it_cools_down_in_every_cycle_and_begins_each_but_the_first_anew():
    keys = []
    calls, yields = played(
        Rounds(8 * ROUNDS), cycles=CYCLES, renew=lambda state, key: (keys.append(key), state + 100)[1]
    )
    progress = np.concatenate(calls[1:]).reshape(2, -1)
    assert (np.diff(progress, axis=1) >= 0).all()
    np.testing.assert_allclose(progress[:, [0, -1]], [[0.0, 1.0], [0.4, 1.0]])
    assert [state for *_, state in yields] == [1, 2, 3, 4, 105, 106, 107, 108] and len(keys) == 1


def test_no_two_calls_draw_alike():
    keys = []

    def noted(state, key, *_):
        keys.append(jax.random.key_data(key).tolist())
        return state

    list(anytime(noted, 0, jax.random.key(0), Rounds(8 * ROUNDS), rounds=ROUNDS, cycles=CYCLES, renew=noted))
    drawn = keys[1:]  # the first call compiles
    assert len(drawn) == 9 == len(set(map(tuple, drawn)))


def test_cycles_may_follow_from_the_rounds_that_there_is_time_for():
    asked = []
    calls, _ = played(Seconds(3.0), cycles=lambda rounds: asked.append(rounds) or CYCLES)
    assert asked == [3 * ROUNDS] and len(calls) == 2 + 3, "one call compiles, one is timed"
    np.testing.assert_allclose(calls[2], np.linspace(0, 2 / 3, ROUNDS).clip(0, 1))


def test_a_call_longer_than_a_cycle_goes_on_with_the_cycle_that_is_due():
    cycles = [Cycle(k / 10, (k + 1) / 10, k / 10, k / 10) for k in range(10)]
    calls, _ = played(Rounds(2 * ROUNDS), cycles=cycles)
    assert {float(call[0]) for call in calls[1:]} == {0.0, 0.5}


def test_what_is_geometric_falls_by_equal_factors():
    values = geometric(8.0, 1.0, np.linspace(0, 1, 4), unit=2.0)
    np.testing.assert_allclose(values, [16, 8, 4, 2])


def test_a_number_means_seconds_and_threads_are_few():
    assert stop_of(5.0) == Seconds(5.0) and stop_of(Rounds(3)) == Rounds(3)
    assert 1 <= num_threads() <= 8
