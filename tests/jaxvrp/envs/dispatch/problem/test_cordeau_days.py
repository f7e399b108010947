"""Files of Cordeau as days: what is read, and that rides keep the limits of the file."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor
from jaxvrp.envs.dispatch.driven_day import stops_of
from jaxvrp.envs.dispatch.problem.cordeau import read_cordeau
from jaxvrp.envs.dispatch.problem.instance import pad
from jaxvrp.episodes import record_episode
from train import solve

ACCEPT, record = AcceptActor(), jax.jit(record_episode, static_argnums=(0, 1))

SAMPLE = """2 2 480 3 30
0 0 0 0 0 0 480
1 3 4 3 1 0 1440
2 -3 4 3 2 100 115
3 3 -4 3 -1 200 215
4 6 8 3 -2 0 1440
"""

# As many vehicles and requests as other days of tests that are solved, so that they share programs.
THREE = """2 3 480 3 30
0 0 0 0 0 0 480
1 3 4 3 1 0 1440
2 -3 4 3 2 100 115
3 0 5 3 1 300 320
4 3 -4 3 -1 200 215
5 6 8 3 -2 0 1440
6 0 9 3 -1 0 1440
"""

ENV = jaxvrp.make("dispatch", num_vehicles=3, max_requests=18, max_stops=24)
"""Both published files fit in."""


def test_a_request_arrives_before_its_window_opens(write):
    day = read_cordeau(write(SAMPLE, "sample.txt"))
    instance = day.instance
    # Request 2 can be picked up from 100 on; request 1 from 200 - 30 - 3, so that it is dropped off in its window.
    assert day.requests == ("2", "1") and instance.arrival.tolist() == [40.0, 107.0]
    np.testing.assert_array_equal(instance.pickup, [[-3, 4], [3, 4]])
    assert instance.pickup_earliest.tolist() == [100.0, 215.0 - 30 - 3]
    assert instance.dropoff_earliest.tolist() == [0.0, 200.0]
    assert instance.dropoff_deadline.tolist() == [100.0 + 3 + 30, 215.0]
    assert instance.load.tolist() == [2, 1] and instance.capacity.tolist() == [3, 3]
    assert (instance.speed == 60).all() and (instance.stop_time == 3).all() and instance.horizon == 480
    assert read_cordeau(write(SAMPLE, "sample.txt"), notice=None).instance.arrival.tolist() == [0.0, 0.0]


def test_the_file_is_solved_as_a_day_if_asked_for(write):
    path = write(THREE, "three.txt")
    assert solve.read_problems(path, None)[0] == "darp"
    plan = solve.solve(path, env="dispatch").plan
    assert plan["feasible"] and plan["method"] == "accept"
    assert [answer["request"] for answer in plan["answers"]] == ["2", "1", "3"]


def test_a_damaged_file_is_one_line(write):
    path = write(SAMPLE.replace("480 3 30", "480 3"), "sample.txt")
    with pytest.raises(solve.UserError, match=r"sample\.txt, line 1") as error:
        solve.open_problem(path, env="dispatch")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a2-16", "b3-18"])
@pytest.mark.parametrize("notice", [60.0, None])
def test_every_driven_ride_keeps_the_windows_and_the_longest_ride_of_the_file(name, notice, published_folder):
    path = published_folder("darp_cordeau2006") / "darp_cordeau2006" / f"{name}.txt"
    rows = [np.array(line.split(), float) for line in path.read_text().splitlines() if line.strip()]
    (vehicles, count, _, capacity, longest), nodes = rows[0], np.array(rows[1:])
    day = read_cordeau(path, notice)
    instance = pad(day.instance, ENV.max_requests, ENV.num_vehicles)
    stops = stops_of(ENV, record(ENV, ACCEPT, instance, jax.random.key(0)).states)
    began = {(day.requests[stop.request], stop.is_pickup): stop for stop in stops}
    served = {request for request, _ in began}
    assert len(served) > 0.4 * count
    for request in served:
        pick, drop = began[request, True], began[request, False]
        at_pick, at_drop = nodes[int(request)], nodes[int(request) + int(count)]
        for stop, node in ((pick, at_pick), (drop, at_drop)):
            assert node[5] - 1e-2 <= stop.start <= node[6] + 1e-2
        assert drop.start - (pick.start + nodes[:, 3].max()) <= longest + 1e-2
        assert pick.vehicle == drop.vehicle
    for v in range(int(vehicles)):
        driven = [(stop, nodes[int(day.requests[stop.request]), 4]) for stop in stops if stop.vehicle == v]
        assert max(np.cumsum([load if stop.is_pickup else -load for stop, load in driven]), default=0) <= capacity
