"""The NumPy ground truth of darp against cases worked by hand from the spec."""

import numpy as np
import pytest

from benchmarks.reference.darp import NumpyDarp, feasible_schedule
from jaxvrp.envs.darp.problem.instance import make_instance

CORNERS = [(0, 0), (3, 0), (3, 4), (6, 4), (6, 0)]
"""Depot, pickup 1, drop-off 2, pickup 3, drop-off 4: 0-1 3, 1-2 4, 2-3 3, 3-4 4, 4-0 6, 0-2 5, 1-3 5, 1-4 3."""


def world(locs=CORNERS, demand=(1, 2), deadline=100, capacity=(3, 2), **fields):
    """An instance with speed 1, exact travel times and one demand per request; a number holds for all nodes."""
    nodes = len(locs)
    signed = np.zeros(nodes)
    signed[1::2], signed[2::2] = demand, np.negative(demand)
    arrays = {name: np.broadcast_to(fields.pop(name, 0.0), nodes) for name in ("earliest", "service_time")}
    return make_instance(
        np.array(locs, float), signed, np.broadcast_to(deadline, nodes), capacity=capacity, **arrays, **fields
    )


def line(places, **fields):
    """The same with all nodes on a line, the depot at 0."""
    return world([(0, 0), *((place, 0) for place in places)], demand=(1,) * (len(places) // 2), **fields)


def start(instance, **options):
    """An environment of the instance's size, reset to it."""
    env = NumpyDarp(instance.num_nodes, instance.num_agents, **options)
    env.reset_to(instance)
    return env


def play(env, *actions):
    """Plays the actions, which must be allowed, and returns the rewards."""
    rewards = []
    for action in actions:
        assert env.action_mask()[action], f"node {action} is forbidden after {env.route}"
        rewards.append(env.step(action)[0])
    return rewards


def allowed(env):
    return np.flatnonzero(env.action_mask()).tolist()


def test_one_tour_step_by_step():
    env = start(world(earliest=[0, 0, 10, 0, 0], service_time=[0, 1, 2, 0, 0]))
    assert allowed(env) == [1, 3]
    assert env.step(1) == (0.0, False)
    assert (env.current_node, env.current_time, env.current_load, env.route) == (1, 4.0, 1, [0, 1])
    assert env.pickup_time.tolist() == [0, 4, 0, 0, 0]  # the end of the service that began at 3
    assert env.picked_up_by_current.tolist() == [False, True, False, False, False]
    assert allowed(env) == [2, 3]
    play(env, 2)
    assert (env.current_time, env.current_load, env.total_distance) == (12.0, 0, 7.0)  # there at 8, waits until 10
    assert allowed(env) == [0, 3]
    play(env, 3)
    assert (env.current_time, env.current_load, allowed(env)) == (15.0, 2, [4])
    assert env.step(4) == (-20.0, True)
    assert (env.current_node, env.current_agent, env.total_distance, env.num_steps) == (4, 0, 20.0, 4)
    assert env.visited.tolist() == [False, True, True, True, True]
    totals = {
        "requests_served": 2.0, "served_share": 1.0, "unvisited_nodes": 0.0, "stranded": 0.0,
        "total_distance": 20.0, "vehicles_used": 1.0, "invalid_actions": 0.0,
    }  # fmt: skip
    assert env.metrics() == totals
    assert env.step(0) == env.step(99) == (0.0, True)  # nothing changes any more
    assert (env.metrics(), env.num_steps, env.current_node) == (totals, 4, 4)


def test_the_depot_ends_the_tour_and_the_next_vehicle_takes_over():
    env = start(world(earliest=[5, 0, 0, 0, 0]))
    assert env.current_time == 5.0
    play(env, 1, 2, 0)
    assert (env.current_node, env.current_agent, env.current_time, env.current_load) == (0, 1, 5.0, 0)
    assert env.vehicle_finished.tolist() == [True, False]
    assert env.visited.tolist() == [False, True, True, False, False]
    assert not env.picked_up_by_current.any()
    assert (env.route, env.total_distance) == ([0], 12.0)
    assert play(env, 3, 4)[-1] == pytest.approx(-12 - np.sqrt(52) - 4 - 6)
    assert env.metrics()["vehicles_used"] == 2.0


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_dense_and_sparse_rewards_with_a_stranded_passenger(factor):
    late = world(deadline=[30, 30, 30, 30, 5], capacity=(3,))  # 4 is reached at 12 at best
    rules = {"penalty_unvisited": 10.0, "orphan_factor": factor}
    dense, sparse = start(late, reward="dense", **rules), start(late, **rules)
    assert play(sparse, 1, 3, 2) == [0.0] * 3
    assert play(dense, 1, 3, 2) == [-3.0, -5.0, -3.0]
    assert allowed(dense) == [0]  # with a passenger on board: the emergency
    assert dense.metrics()["stranded"] == 0.0
    assert dense.step(0) == (-5.0 - 10.0 * factor, True)
    assert sparse.step(0) == (-16.0 - 10.0 * factor, True)
    assert sparse.metrics() | {"unvisited_nodes": 1.0, "stranded": 1.0, "served_share": 0.5} == sparse.metrics()
    assert (dense.current_node, dense.current_agent, dense.current_load, dense.route) == (0, 0, 0, [0])


def test_a_drop_off_belongs_to_the_vehicle_of_its_pickup():
    env = start(world(deadline=[30, 30, 5, 30, 30]))  # drop-off 2 is 7 away by way of its pickup
    play(env, 1, 3, 4, 0)
    assert env.metrics()["stranded"] == 1.0
    assert allowed(env) == [0]  # drop-off 2 would be reached at 5, but the first vehicle had the passenger
    assert env.step(0) == (-(3 + 5 + 4 + 6) - 100.0, True)
    assert env.metrics()["vehicles_used"] == 1.0


@pytest.mark.parametrize("action", [0, 2, -2, 5, 10**6])
def test_a_forbidden_action_becomes_the_first_customer(action):
    env = start(world(deadline=[50, 1, 50, 50, 50]))  # pickup 1 is 3 away
    env.step(action)
    assert (env.current_node, env.invalid_actions) == (3, 1)


def test_a_forbidden_action_becomes_the_depot_without_customers():
    env = start(world(deadline=[50, 1, 50, 1, 50]))
    assert allowed(env) == [0]
    env.step(3)
    assert (env.current_node, env.current_agent, env.invalid_actions) == (0, 1, 1)
    assert play(env, 0) == [-400.0]
    assert env.metrics()["vehicles_used"] == 0.0


@pytest.mark.parametrize(("first", "way", "nodes"), [(2, [1], [2]), (1, [], [1]), (1, [1, 2, 0], [3])])
def test_capacity_is_that_of_the_current_vehicle(first, way, nodes):
    env = start(world(capacity=(first, 3)))
    play(env, *way)
    assert allowed(env) == nodes


@pytest.mark.parametrize(("deadline", "reached"), [(3.0, True), (2.9999, True), (2.9996, False)])
def test_deadline_has_a_slack_of_two_millionths_of_the_horizon(deadline, reached):
    env = start(world(deadline=[100, deadline, 100, 100, 100]))
    assert allowed(env) == ([1, 3] if reached else [3])


@pytest.mark.parametrize(("home", "reached"), [(11.0, True), (10.99999, True), (10.9999, False)])
def test_the_way_home_counts_from_the_end_of_service(home, reached):
    env = start(world(deadline=[home, 90, 90, 90, 90], earliest=[0, 6, 0, 0, 0], service_time=[0, 2, 0, 0, 0]))
    assert allowed(env) == ([1] if reached else [0])  # 6, then 2, then 3; pickup 3 is 2 * 7.2 away


@pytest.mark.parametrize(("place", "time"), [(2.5, 2.0), (3.5, 4.0), (0.5, 0.0), (2.6, 3.0)])
def test_travel_times_are_rounded_half_to_even_and_distances_are_not(place, time):
    env = start(line([place, place], deadline=9, round_travel_time=True))
    play(env, 1)
    assert (env.current_time, env.total_distance) == (time, pytest.approx(place))
    env = start(line([2 * place, 2 * place], deadline=9, vehicle_speed=2.0))
    play(env, 1)
    assert (env.current_time, env.total_distance) == (pytest.approx(place), pytest.approx(2 * place))


def test_lookahead_keeps_every_passenger_deliverable():
    # Pickup 1 at 3, drop-off 2 at 7 by the clock 8 (its service may last longer); pickup 3 at -1, drop-off 4 at 8.
    given = {"places": [3, 7, -1, 8], "service_time": [0, 0, 3, 0, 0]}
    tight, loose = (line(**given, deadline=[99, 99, 8, 99, last]) for last in (9, 99))
    assert allowed(start(tight)) == allowed(start(loose, lookahead=True)) == [1, 3]
    assert allowed(start(tight, lookahead=True)) == [1]  # 3 would be done at 1, and drop-off 4 reached at 10
    for instance, lookahead, nodes in ((tight, True, [2]), (loose, True, [2]), (tight, False, [2, 3])):
        env = start(instance, lookahead=lookahead)
        play(env, 1)
        assert allowed(env) == nodes  # 3 is reached at 7, so drop-off 2 only at 15


def test_lookahead_is_lifted_only_with_passengers_on_board():
    # Both passengers can be delivered straight away, 5 to either side, but not one after the other.
    env = start(line([0, 5, 0, -5], deadline=[99, 99, 6, 99, 6], capacity=(2,)), lookahead=True)
    play(env, 1, 3)
    assert allowed(env) == [2, 4]
    play(env, 4)
    assert allowed(env) == [0]
    assert env.step(0) == (-10.0 - 100.0, True)
    # An empty vehicle does not begin what it cannot finish.
    late = line([1, 9], deadline=[99, 99, 5])
    assert (allowed(start(late)), allowed(start(late, lookahead=True))) == ([1], [0])


def test_schedule_of_windows():
    instance = line([3, 7], earliest=[0, 0, 10], deadline=[17, 5, 12], service_time=[0, 1, 0])
    assert feasible_schedule(instance, [0, 1, 2, 0], 0.0)  # 3, 10, home at 17
    assert feasible_schedule(instance, [0], 0.0)
    late = line([3, 7], earliest=[0, 0, 10], deadline=[16.9, 5, 12])
    assert not feasible_schedule(late, [0, 1, 2, 0], 0.0)
    assert feasible_schedule(late, [0, 1, 2, 0], 0.11)
    assert feasible_schedule(late, [0, 1, 2], 0.0)  # without the way home
    assert not feasible_schedule(line([3, 7], deadline=[99, 2, 99]), [0, 1], 0.0)
    assert not feasible_schedule(line([3, 7], deadline=7, service_time=[0, 1, 0]), [0, 1, 2], 0.0)  # there at 8


@pytest.mark.parametrize(("pickup_by", "ride", "feasible"), [(6, 4, True), (5, 4, False), (5, 5, True), (99, 3, False)])
def test_schedule_delays_a_pickup_for_the_ride_time(pickup_by, ride, feasible):
    # Drop-off at 7 opens at 11, so pickup at 3 with service 1 must begin at 11 - ride - 1 or later.
    given = {"earliest": [0, 0, 11], "deadline": [99, pickup_by, 99], "service_time": [0, 1, 0]}
    instance = line([3, 7], max_ride_time=ride, **given)
    assert feasible_schedule(instance, [0, 1, 2, 0], 0.0) is feasible
    assert feasible_schedule(instance, [0, 1, 0], 0.0)  # the limit needs both ends


@pytest.mark.parametrize(("duration", "feasible"), [(15.0, True), (14.9, False)])
def test_schedule_delays_the_departure_for_the_duration(duration, feasible):
    # Out by 7 and back 7; pickup at 3 by the clock 9, drop-off from 14: leave at 6, back at 21, one unit of waiting.
    instance = line([3, 7], earliest=[0, 0, 14], deadline=[99, 9, 99], max_route_duration=duration)
    assert feasible_schedule(instance, [0, 1, 2, 0], 0.0) is feasible
    assert feasible_schedule(instance, [0, 1, 2], 0.0)  # no duration before the return


@pytest.mark.parametrize(("opens", "feasible"), [(20.0, True), (20.1, False)])
def test_schedule_passes_a_delay_on_through_two_rides(opens, feasible):
    # 0 1 3 2 4, one apart: drop-off 4 at 20, so pickup 3 at 10 or later, drop-off 2 at 11, pickup 1 at 1: its deadline.
    windows = {"earliest": [0, 0, 0, 0, opens], "deadline": [99, 1, 99, 99, 99]}
    instance = line([1, 3, 2, 4], max_ride_time=10.0, **windows)
    assert feasible_schedule(instance, [0, 1, 3, 2, 4, 0], 0.0) is feasible


def test_schedule_of_a_ride_that_is_longer_than_its_limit():
    instance = line([1, 3], deadline=np.inf, max_ride_time=1.9)  # no window ever ends the search
    assert not feasible_schedule(instance, [0, 1, 2, 0], 0.0)
    assert feasible_schedule(instance, [0, 1, 2, 0], 0.11)


def test_limits_replace_the_earliest_clock():
    # Served as early as possible, at 3, passenger 1 would ride until 20, when drop-off 2 opens.
    given = {"earliest": [0, 0, 20, 0, 0], "max_ride_time": 6.0}
    env = start(line([3, 7, 4, 5], **given), limits=True, tighten=False)
    play(env, 1)
    assert env.current_time == 3.0
    assert allowed(env) == [2, 3]
    play(env, 3, 2)
    assert (env.current_time, env.route) == (20.0, [0, 1, 3, 2])
    assert allowed(env) == [4]  # at 22, with pickup 3 from 16 to 17 and pickup 1 from 14 to 16
    tight = line([3, 7, 4, 5], deadline=[99, 99, 99, 15, 99], **given)  # pickup 3 by 15, so drop-off 4 by 21
    for limits, nodes in ((True, [0]), (False, [4])):
        env = start(tight, limits=limits, tighten=False)
        play(env, 1, 3, 2)
        assert allowed(env) == nodes
    env = start(line([3, 7, 4, 5], **given), limits=True)
    play(env, 1)
    assert env.current_time == 14.0  # the window of pickup 1, tightened, opens 6 before that of its drop-off


@pytest.mark.parametrize(("duration", "nodes"), [(14.0, [2, 3]), (13.9999, [2, 3]), (13.99, [3]), (11.99, [0])])
def test_limits_include_the_duration_of_the_way_home(duration, nodes):
    env = start(line([3, 7, -3, -3], max_route_duration=duration), limits=True)  # 0 1 2 0 is 14 long, 0 1 3 0 is 12
    play(env, 1)
    assert allowed(env) == nodes


def test_lookahead_with_limits_schedules_the_whole_sequence():
    # Pickup 1 at 3, drop-off 2 at 7; pickup 3 at 2 is 1 aside, so 1 3 2 rides 1 + 5. Service at 2 is after the ride.
    places, service = [3, 7, 2, 1], [0, 0, 2, 0, 0]
    for ride, lookahead, nodes in ((5.0, False, [2, 3]), (5.0, True, [2]), (6.0, True, [2, 3])):
        env = start(line(places, max_ride_time=ride, service_time=service), limits=True, lookahead=lookahead)
        play(env, 1)
        assert allowed(env) == nodes
    far = line([3, 7], max_ride_time=3.0)
    assert (allowed(start(far, limits=True)), allowed(start(far, limits=True, lookahead=True))) == ([1], [0])


def test_observation():
    windows = {"earliest": [0, 0, 10, 0, 0], "deadline": [100, 100, 40, 100, 100], "service_time": [0, 0, 2, 0, 0]}
    env = start(world(**windows, max_ride_time=20.0, max_route_duration=50.0))
    play(env, 1)  # time 3, load 1 of 3; the unit of length is 6, of time 100
    assert (env.observation().dtype, env.observation().shape) == (np.float32, (16,))
    context = [0.03, 1 / 3, 1, 0, 1 / 2, 2 / 3, 1 / 2, 1 / 2, 1 / 2, 0, 0.06, 0.2, 0.5, 0, 1 / 2, 0.94]
    np.testing.assert_allclose(env.observation(), context, atol=1e-6)
    places = [[1 / 2, 1], [0, 2 / 3], [1 / 2, 1], [2 / 3, 0]]
    times = [[0, 0], [0.1, 0], [1, 1], [0.4, 1], [0, 0], [0.02, 0]]
    np.testing.assert_allclose(env.static_entities(), [*places, [1 / 3, 2 / 3], *times], atol=1e-6)
    home = 1 - 0.08 - np.sqrt(52) / 100
    aboard = [1, 0, 1, 0, 1, 0, 2 / 3, 0, 0.07, 0, 0.33, 0, 0.83, 0.13]
    waiting = [1, 1, 0, 1, 0, 5 / 6, 1 / 2, 0.05, 0.03, 0.92, 0.94, home, 0.88, 1]
    np.testing.assert_allclose(env.entities(), np.transpose([aboard, waiting]), atol=1e-6)
    play(env, 2)
    assert not env.entities()[:, 0].any()


def test_observation_without_a_depot_deadline():
    env = start(line([3, 7], deadline=[np.inf, np.inf, 5]))  # unit of time 5, of length 7
    context = [0, 0, 1, 1, 0.5, 2 / 3, 1, 0, 0, 0, 1.4, 1, 1, 0, 0, 1]
    np.testing.assert_allclose(env.observation(), context, atol=1e-6)
    np.testing.assert_allclose(env.static_entities()[7:9, 0], [1, 1])
    np.testing.assert_allclose(env.entities()[7:, 0], [0.6, 1, 1, -0.4, 1, 1, 1], atol=1e-6)
    endless = start(line([0, 0], deadline=np.inf))
    np.testing.assert_allclose(endless.observation()[10], 1)  # units 1 and 1
    assert np.isfinite(endless.observation()).all() and np.isfinite(endless.entities()).all()


def test_padding_changes_nothing_but_the_length():
    small, large = start(world()), NumpyDarp(8, 4)
    large.reset_to(world())
    for action in (1, 2, 0, 3, 4):
        assert not large.action_mask()[5:].any()
        np.testing.assert_array_equal(large.action_mask()[:5], small.action_mask())
        np.testing.assert_array_equal(large.observation(), small.observation())
        for planes, of_small in (
            (large.entities(), small.entities()),
            (large.static_entities(), small.static_entities()),
        ):
            np.testing.assert_array_equal(planes[:, :2], of_small)
            assert not planes[:, 2:].any()
        assert small.step(action) == large.step(action)
    assert large.done and large.metrics() == small.metrics()
    assert large.vehicle_finished.tolist() == [True, False, True, True]


def test_instances_with_padding_and_too_large_ones():
    env = start(world(demand=(0, 2), capacity=(0, 2)))
    assert (env.current_agent, env.visited.tolist(), allowed(env)) == (1, [False, True, True, False, False], [3])
    assert play(env, 3, 4)[-1] == pytest.approx(-np.sqrt(52) - 10)
    assert env.metrics()["served_share"] == 1.0
    assert start(world(demand=(0, 0))).done
    with pytest.raises(ValueError, match="4 nodes and 2 vehicles does not fit"):
        NumpyDarp(2, 2).reset_to(world())


def test_generated_instances():
    env, rng = NumpyDarp(20, 3, vehicle_capacity=[4, 5, 6], min_loc=10.0, max_loc=60.0), np.random.default_rng(1)
    many = [env.generate(rng) for _ in range(300)]
    locs, demand, deadline = (np.stack([getattr(i, name) for i in many]) for name in ("locs", "demand", "deadline"))
    assert locs.dtype == deadline.dtype == np.float64
    np.testing.assert_allclose([locs.min(), locs.max()], [10, 60], atol=0.1)
    np.testing.assert_allclose(np.bincount(demand[:, 1::2].ravel())[1:] / 3000, 1 / 3, atol=0.04)
    np.testing.assert_array_equal(demand[:, 2::2], -demand[:, 1::2])
    assert np.unique(deadline[:, 1::2]).tolist() == list(range(10, 31)) and (deadline[:, 0] == 48).all()
    direct = np.maximum(1, np.hypot(*np.moveaxis(locs[:, 1::2] - locs[:, 2::2], -1, 0)) / 25)
    extra = deadline[:, 2::2] - deadline[:, 1::2]
    low, high = np.ceil(direct), np.maximum(np.ceil(2 * direct), np.ceil(direct) + 1)
    assert (extra >= low).all() and (extra <= high).all()
    assert (extra[direct == 1] == 1).any() and (extra[direct == 1] == 2).any()
    np.testing.assert_allclose((extra == low)[high - low == 2].mean(), 1 / 3, atol=0.05)
    assert many[0].capacity.tolist() == [4, 5, 6]
    assert many[0].round_travel_time and not many[0].earliest.any() and not many[0].service_time.any()
    assert (many[0].vehicle_speed, many[0].max_ride_time, many[0].max_route_duration) == (25, np.inf, np.inf)


@pytest.mark.parametrize("options", [{"lookahead": True}, {"limits": True, "lookahead": True, "max_ride_time": 5.0}])
def test_random_episodes_end_and_pay_what_they_cost(options):
    env, rng = NumpyDarp(10, 3, vehicle_capacity=3, horizon=30.0, **options), np.random.default_rng(2)
    for _ in range(20):
        env.reset(rng)
        total = 0.0
        while not env.done:
            total += env.step(rng.choice(np.flatnonzero(env.action_mask())))[0]
        metrics = env.metrics()
        assert total == pytest.approx(-metrics["total_distance"] - 100 * metrics["unvisited_nodes"])
        assert env.num_steps <= 13 and metrics["invalid_actions"] == 0


@pytest.mark.parametrize("options", [{"num_nodes": 5}, {"num_nodes": 0}, {"reward": "rich"}, {"speed": 3}])
def test_a_wrong_option_is_named(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        NumpyDarp(**options)
