"""Driven days under the independent check, with and without re-planning; and mistakes that the check must find."""

import jax
import numpy as np
import pytest

from jaxvrp.envs.dispatch import solution_report
from jaxvrp.envs.dispatch.driven_day import stops_of
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, each, padded, play

ROUNDS = 4

pytestmark = pytest.mark.slow("('same_day', 4)")


@pytest.fixture(scope="module", params=[(name, rounds) for name in ENVS for rounds in (0, ROUNDS)], ids=str)
def driven(request):
    """The environment, and the first 24 of the days that were played, with their timesteps and stops."""
    scenario, rounds = request.param
    env, rng = ENVS[scenario], np.random.default_rng(5)
    env = env.replace(replan_rounds=rounds) if rounds else env
    batch = padded([DAYS[scenario](rng) for _ in range(COUNT)])
    (states, timesteps), _ = jax.device_get(play(env, batch, jax.random.key(2), 0.05))
    days = each(batch)[:24]
    stops = [stops_of(env, jax.tree.map(lambda leaf, i=i: leaf[:, i], states)) for i in range(len(days))]
    return env, days, timesteps, stops


def test_every_promise_of_a_driven_day_is_kept(driven):
    env, days, timesteps, all_stops = driven
    last = {name: values[-1] for name, values in timesteps.metrics.items()}
    assert (last["broken_promises"] == 0).all()
    for i, (day, stops) in enumerate(zip(days, all_stops, strict=True)):
        report = solution_report(day, stops)
        assert report.feasible, report.summary()
        assert report.served.sum() == last["served"][i]
        np.testing.assert_allclose(report.value, last["value_served"][i], 1e-5)
        there = np.maximum(day.arrival, day.pickup_earliest)
        drops = [stop.start - there[stop.request] for stop in stops if not stop.is_pickup]
        if env.scenario == "same_day":
            np.testing.assert_allclose(report.travel.sum(), last["travel"][i], 1e-4, 1e-3)
            np.testing.assert_allclose(sum(drops), last["mean_delay"][i] * max(last["served"][i], 1), 1e-4, 1e-2)


def test_a_changed_day_is_found(driven):
    _, days, _, all_stops = driven
    day, stops = next((day, stops) for day, stops in zip(days, all_stops, strict=True) if len(stops) >= 6)
    first = stops[0]

    def broken(changed):
        return {name for name, found in solution_report(day, changed).violations.items() if found.count}

    assert "deadline" in broken([first._replace(start=1e4), *stops[1:]])
    assert "time" in broken([first._replace(start=first.start - 1.0), *stops[1:]])
    assert broken([first, first, *stops[1:]]) >= {"twice"}
    assert "unpaired" in broken([stop for stop in stops if stop.is_pickup] or [first._replace(is_pickup=True)])
    heavy = day.replace(load=np.where(day.load > 0, 50, 0))
    assert solution_report(heavy, stops).violations["capacity"].count > 0
    late = day.replace(arrival=day.arrival + 1e3)
    assert solution_report(late, stops).violations["before_arrival"].count > 0
