"""What is known of a day in advance is planned ahead; every promise is checked, and what arrives later is answered."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import show
from jaxvrp.envs.dispatch import make_instance
from jaxvrp.envs.dispatch.baselines import hindsight
from jaxvrp.envs.dispatch.baselines.known_day import stops_of
from jaxvrp.envs.dispatch.driven_day import PlannedDay, driven_day
from jaxvrp.envs.dispatch.problem.day_file import FORMAT, read_days
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.envs.dispatch.problem.solution import Stop
from jaxvrp.episodes import follow
from jaxvrp.registry import players_of
from train import solve

VAN = {"speed": 30, "capacity": 20, "stop_time": 2, "max_trip": 100}
DRONE = {"speed": 50, "capacity": 1, "stop_time": 1, "turnaround": 5, "max_trip": 25, "is_drone": True}


def day(path, *, windows=False, later=0):
    rng = np.random.default_rng(3)
    requests = [
        {"arrival": 0, "dropoff": place.tolist(), "dropoff_deadline": float(opens + 70)}
        | ({"dropoff_earliest": float(opens)} if windows else {})
        for place, opens in zip(rng.normal(0, 3, (12, 2)), rng.uniform(0, 80, 12), strict=True)
    ]
    for request in requests[len(requests) - later :]:
        request["arrival"] = 20
    content = {"format": FORMAT, "horizon": 200, "depot": [0, 0], "vehicles": [VAN, DRONE], "requests": requests}
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("windows", [False, True])
def test_a_known_day_is_planned_ahead_and_keeps_every_promise(tmp_path, windows):
    path = day(tmp_path / "day.json", windows=windows)
    planned = solve.solve(path, seconds=0.5)
    answered = solve.solve(path, method="accept")
    assert planned.method == "search" and answered.method == "accept"
    assert planned.plan["violations"] == {}
    assert planned.plan["value"] >= answered.plan["value"]
    for solution in (planned, answered):
        assert solution.cost == solution.plan["cost"] == -solution.plan["value"]
    assert planned.plan["totals"]["known"] == "all 12 requests when the day begins; planned ahead"
    served, rest = planned.words.split(" of 12 requests served, ")
    assert int(served) == planned.plan["value"] and " min driven" in rest
    ways = [float(words.split()[0]) for words in rest.split(", ")]
    assert sum(ways) == pytest.approx(planned.plan["travel"], abs=0.1)
    summary = show.export_episode(planned.episode)["summary"]
    assert (summary["served"], summary["rejected"]) == (int(served), 12 - int(served))
    assert summary["return"] == planned.plan["value"] and summary["travel"] == pytest.approx(
        planned.plan["travel"], abs=1e-3
    )
    planned.write(tmp_path / "plan.html")
    planned.write(tmp_path / "plan.csv")


def test_what_is_known_is_planned_ahead_and_what_arrives_later_is_answered(tmp_path):
    path = day(tmp_path / "day.json", later=4)
    planned, answered = solve.solve(path, seconds=0.5), solve.solve(path, method="accept")
    assert planned.method == "search" and planned.plan["violations"] == {}
    known = "8 requests when the day begins"
    assert planned.plan["totals"]["known"] == f"{known}, planned ahead; 4 arrive later, each answered as it arrives"
    assert answered.plan["totals"]["known"] == f"{known}; 4 arrive later; each answered as it arrives"
    assert planned.plan["value"] >= answered.plan["value"]


@pytest.mark.parametrize("windows", [False, True])
def test_nothing_that_has_begun_changes_when_a_request_arrives(tmp_path, windows):
    (found,) = read_days(day(tmp_path / "day.json", windows=windows, later=4))
    instance, later = as_float32(found.instance), jnp.arange(8, 12)
    early = hindsight.known(instance.replace(load=instance.load.at[later].set(0)))
    first = hindsight.first_plan(early, 24, jax.random.key(0))
    after = hindsight.answered(hindsight.known(instance), first, later)
    planned, driven = (list(stops_of(early, each)) for each in (first, after))
    begun = [stop for stop in planned if stop.departs < 20]
    assert begun and set(begun) == {stop for stop in driven if stop.departs < 20}
    assert any(stop.request >= 8 for stop in driven)


def test_a_day_of_rides_that_arrive_is_answered_one_by_one(tmp_path):
    path = day(tmp_path / "day.json", later=4)
    content = json.loads(path.read_text())
    del content["depot"]
    content["vehicles"] = [{"speed": 30, "capacity": 4, "start": [0, 0]}]
    content["requests"] = [{**request, "pickup": [0, 1]} for request in content["requests"]]
    path.write_text(json.dumps(content))
    assert solve.solve(path, seconds=0.5).method == "accept"


def test_a_day_that_is_planned_ahead_is_checked_with_mean_times():
    """As it was planned, whatever noise its environment has."""
    day = make_instance([0], [[3.0, 0.0]], [60], depot=[0, 0], capacity=[1], speed=30, horizon=120)
    sizes = {"num_vehicles": 1, "num_drones": 0, "max_requests": 1, "max_stops": 2}
    env = jaxvrp.make("dispatch", scenario="same_day", travel_noise=0.5, **sizes)
    rejected = jax.device_get(follow(env, day, {"dispatcher": np.zeros((1, 1), np.int32)}).states)
    driven = driven_day(env, PlannedDay(rejected, (Stop(0, 0, False, 6.0, trip=1),)))
    assert driven.report.feasible and driven.travel == pytest.approx(12)


def test_rides_that_are_not_known_are_not_planned_ahead():
    """Of the environment's own days, which no file hands to a search; it was a KeyError."""
    env = jaxvrp.make("dispatch", max_requests=6, num_vehicles=2)
    plans = players_of(env).searches["search"](env, env.generate(jax.random.key(0)), jax.random.key(1), 1.0)
    says = r"\d of 6 requests arrive after the day begins; without a depot, only a day that is known is planned: set"
    with pytest.raises(ValueError, match=says):
        next(plans)
