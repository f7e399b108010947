"""A day that is known in advance is planned ahead; every promise is checked, and a day that is not is answered."""

import json

import numpy as np
import pytest

from jaxvrp.envs.dispatch.problem.day_file import FORMAT
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
    assert planned.plan["totals"]["known"] == "all 12 requests when the day begins; planned ahead"
    served, rest = planned.words.split(" of 12 requests served, ")
    assert int(served) == planned.plan["value"] and " min driven" in rest
    ways = [float(words.split()[0]) for words in rest.split(", ")]
    assert sum(ways) == pytest.approx(planned.plan["travel"], abs=0.1)
    planned.write(tmp_path / "plan.html")
    planned.write(tmp_path / "plan.csv")


def test_a_day_whose_requests_arrive_is_answered_one_by_one(tmp_path):
    found = solve.solve(day(tmp_path / "day.json", later=4), seconds=0.5)
    assert found.method == "accept"
    assert (
        found.plan["totals"]["known"] == "8 requests when the day begins; 4 arrive later; each answered as it arrives"
    )
