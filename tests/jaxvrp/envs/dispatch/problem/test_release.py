"""Parcels that come to the depot after they are ordered: loaded no earlier than that, by everybody who plans."""

import json

import jax
import numpy as np
import pytest

from jaxvrp.envs.dispatch import driven_stops, solution_report
from jaxvrp.envs.dispatch.baselines.hindsight import with_hindsight
from jaxvrp.envs.dispatch.problem.day_file import FORMAT, parse_day
from jaxvrp.envs.dispatch.problem.instance import as_float32, make_instance, stack
from tests.jaxvrp.envs.dispatch.small_days import ENVS
from train import solve

VAN = {"id": "van", "speed": 30, "capacity": 10, "stop_time": 2}
DRONE = {"id": "drone", "speed": 60, "capacity": 1, "is_drone": True, "turnaround": 5}
BREAD = {"id": "bread", "arrival": 5, "dropoff": [3, 0], "pickup_earliest": 60, "dropoff_deadline": 120}


def day_of(*requests, vehicles=(VAN,)):
    return {"format": FORMAT, "horizon": 480, "depot": [0, 0], "vehicles": [*vehicles], "requests": [*requests]}


def planned(write, day):
    """The plan of `accept`, and its stops by request."""
    plan = solve.solve(write(json.dumps(day), "day.json"), method="accept").plan
    return plan, {stop["request"]: stop for stop in plan["stops"]}


def test_a_trip_waits_for_its_parcels(write):
    """Milk is given to the van that waits for bread, in front of it: 2 minutes to load, and 2 for each kilometre."""
    milk = {"id": "milk", "arrival": 10, "dropoff": [1, 0], "dropoff_deadline": 120}
    plan, stops = planned(write, day_of(BREAD, milk))
    assert plan["feasible"] and plan["travel"] == 12
    assert {stop["departs"] for stop in stops.values()} == {60}
    assert (stops["milk"]["begin"], stops["bread"]["begin"]) == (64, 70)


def test_a_trip_does_not_wait_if_that_breaks_a_promise(write):
    """Bread comes too late for the milk on the trip, and later again in time for a trip of its own."""
    milk = {"id": "milk", "arrival": 0, "dropoff": [1, 0], "pickup_earliest": 20, "dropoff_deadline": 30}
    plan, stops = planned(write, day_of(milk, BREAD))
    assert plan["rejected"] == ["bread"] and stops["milk"]["departs"] == 20
    plan, stops = planned(write, day_of(milk, {**BREAD, "arrival": 24}))
    assert plan["feasible"] and [stops[name]["departs"] for name in ("milk", "bread")] == [20, 60]


def test_a_drone_flies_when_each_parcel_is_there(write):
    """One kilometre takes it a minute, there and back, and 5 the next battery."""
    soon = {"id": "soon", "arrival": 5, "dropoff": [0, 4], "pickup_earliest": 58, "dropoff_deadline": 400}
    last = {"id": "last", "arrival": 6, "dropoff": [0, 1], "pickup_earliest": 200, "dropoff_deadline": 400}
    _, stops = planned(write, day_of(soon, BREAD | {"arrival": 5}, last, vehicles=[DRONE]))
    assert [stops[name]["departs"] for name in ("soon", "bread", "last")] == [58, 71, 200]
    assert [stops[name]["begin"] for name in ("soon", "bread", "last")] == [62, 74, 201]


def test_what_comes_too_late_is_unservable_and_the_plan_says_why(write):
    day = day_of({**BREAD, "pickup_earliest": 290, "dropoff_deadline": 295})
    with pytest.warns(
        UserWarning, match="no vehicle can ever serve bread; .*: it can't be dropped off before 298, and"
    ):
        plan, _ = planned(write, day)
    assert not plan["feasible"] and plan["unservable"] == plan["rejected"] == ["bread"]
    assert plan["reasons"] == ["bread can't be served: it can't be dropped off before 298, and its deadline is 295"]


def test_the_check_finds_what_is_loaded_too_early():
    instance = parse_day(day_of(BREAD)).instance
    env = ENVS["same_day"]
    stops = driven_stops(env, instance, {"dispatcher": np.ones((10, 1), np.int32)})
    assert solution_report(instance, stops).feasible and stops[0].departs == 60
    early = [stops[0]._replace(departs=5.0, start=13.0)]
    broken = {name for name, found in solution_report(instance, early).violations.items() if found.count}
    assert broken == {"earliest"}


def test_hindsight_loads_no_parcel_before_it_is_there():
    """One of two parcels is there from 30 on and due at 37: six minutes away, so that the van waits for both."""
    day = make_instance(
        [0.0, 0.0],
        [[3.0, 0.0], [3.0, 1.0]],
        [37.0, 60.0],
        pickup_earliest=[30.0, 0.0],
        depot=[0.0, 0.0],
        capacity=[2],
        speed=30.0,
        horizon=60.0,
    )
    batch = stack([day, day.replace(pickup_earliest=np.array([32.0, 0.0]))])
    found = with_hindsight(as_float32(batch), jax.random.key(0), rounds=20, max_stops=4)
    assert np.asarray(found.value).tolist() == [2.0, 1.0]
    start = np.asarray(found.routes.planes["start"][0, 0])
    number = np.asarray(found.routes.row.number[0, 0])
    assert start[number == 0] == pytest.approx(36.0, abs=1e-3)
