"""The NumPy ground truth against cases worked by hand from the spec. A drone flies 0.2 a step, the truck drives 0.1."""

import numpy as np
import pytest

from benchmarks.reference.truck_drone import NumpyTruckDrone

ONBOARD, FLYING, RETURNING, CRASHED = 0, 1, 2, 3
STAY, MOVE_0 = 0, 1  # every world below has one node, so RELEASE_d is 2 + d and RECOVER_d is 2 + D + d
RELEASE_0 = 2
HOVER, RETURN, DELIVER_0, DELIVER_1 = 0, 1, 2, 3


def make(customers=((0.5, 0.0), (-0.5, -0.5)), drones=1, window_end=200, max_steps=200, **parameters):
    """A world with the truck at the origin, one node at (0.6, 0) and customers of demand 0.75."""
    env = NumpyTruckDrone(drones, len(customers), 1, max_steps, **parameters)
    count = len(customers)
    env.reset_to(
        {
            "customer_position": np.array(customers, np.float32),
            "demand": np.full(count, 0.75, np.float32),
            "window_start": np.zeros(count, np.int32),
            "window_end": np.full(count, window_end, np.int32),
            "node_position": np.array([[0.6, 0.0]], np.float32),
            "truck_position": np.zeros(2, np.float32),
        }
    )
    return env


def put(env, **fields):
    """Overwrites the named fields of the state."""
    state = env.state()
    for name, value in fields.items():
        state[name][...] = value
    env.load_state(state)
    return env


def flying(x=0.4, y=0.0, battery=1.0, **kwargs):
    """A world whose only drone flies at (x, y)."""
    return put(make(**kwargs), status=FLYING, drone_position=[[x, y]], battery=battery)


def check(env, **expected):
    """Compares named fields of the state with numbers worked by hand."""
    state = env.state()
    for name, value in expected.items():
        np.testing.assert_allclose(state[name], value, atol=2e-6, err_msg=name)


def test_release_fly_deliver():
    env = make(customers=[(0.5, 0.0)])
    assert env.step(RELEASE_0, [HOVER]) == (pytest.approx(-0.0001), False)
    check(env, status=[FLYING], battery=[0.999], battery_used=[0.001], has_target=[False], drone_velocity=0)
    assert env.step(STAY, [DELIVER_0]) == (pytest.approx(-0.01), False)
    check(env, drone_position=[[0.2, 0]], drone_velocity=[[2, 0]], battery=[0.899], carrying=[0])
    check(env, target_position=[[0.5, 0]], has_target=[True])
    assert env.step(STAY, [DELIVER_0]) == (pytest.approx(-0.01), False)
    assert env.step(STAY, [DELIVER_0]) == (pytest.approx(10 - 0.1 * 0.05 + 50, abs=1e-5), True)
    check(env, drone_position=[[0.5, 0]], drone_velocity=[[1, 0]], battery=[0.749], status=[FLYING], carrying=[-1])
    check(env, served=[True], just_served=[True], arrival_step=[4], has_target=[False], target_position=0, step=4)
    counts = {"invalid_actions": 0, "forced_returns": 0, "crashed_drones": 0, "time_step": 4}
    service = {"customers_served": 1, "total_customers": 1, "completion_rate": 1, "success": 1, "on_time_rate": 1}
    travel = {"battery_used": 0.251, "truck_distance": 0, "drone_distance": 0.5}
    assert env.metrics() == pytest.approx(counts | service | travel)


def test_a_finished_instance_stands_still():
    env = flying(customers=[(0.5, 0.0)])
    assert env.step(STAY, [DELIVER_0])[1]
    before, metrics = env.state(), env.metrics()
    assert env.step(99, [99]) == (0.0, True)
    for name, value in env.state().items():
        np.testing.assert_array_equal(value, before[name])
    assert env.metrics() == metrics


def test_lower_index_serves_and_every_other_package_is_dropped():
    env = make(drones=3)
    put(env, status=FLYING, drone_position=[[0.4, 0.1], [0.4, -0.1], [-0.3, 0]], carrying=[-1, -1, 0])
    reward, terminated = env.step(STAY, [DELIVER_0] * 3)
    # Two flights of sqrt(0.02) and one of 0.2, at 0.5 battery per unit.
    assert (reward, terminated) == (pytest.approx(10 - 0.1 * (0.1414214 + 0.1)), False)
    check(env, served=[True, False], arrival_step=[1, -1], served_by=[0, -1], carrying=[-1, -1, -1], status=FLYING)
    check(env, has_target=[False, True, True], target_position=[[0, 0], [0.5, 0], [0.5, 0]])
    env.step(STAY, [HOVER, HOVER, DELIVER_1])
    check(env, has_target=[False, False, True], target_position=[[0, 0], [0, 0], [-0.5, -0.5]], just_served=False)


# At 0.4 from where the truck was, home and one more step cost 1.2 * 0.5 * (0.4 + 0.2) = 0.36; without the step 0.24,
# and from where the truck goes 0.30.
@pytest.mark.parametrize(
    "battery, action, status, x, reward",
    [
        (0.35, DELIVER_0, RETURNING, 0.2, -0.01 - 1),
        (0.35, HOVER, RETURNING, 0.2, -0.01 - 1),
        (0.35, RETURN, RETURNING, 0.2, -0.01),
        (0.37, DELIVER_0, FLYING, 0.6, -0.01),
        (0.37, RETURN, RETURNING, 0.2, -0.01),
    ],
)
def test_guard_has_a_margin_of_one_step(battery, action, status, x, reward):
    env = flying(battery=battery, customers=[(0.8, 0.0)])
    assert env.step(MOVE_0, [action]) == (pytest.approx(reward, abs=1e-6), False)
    check(env, status=[status], drone_position=[[x, 0]], battery=[battery - 0.1], truck_position=[0.1, 0])
    check(env, target_position=[[0, 0]] if status == RETURNING else [[0.8, 0]], forced_return=[reward < -1])


def test_guard_fires_again_until_home():
    env = flying(battery=0.3)
    env.step(STAY, [DELIVER_0])
    env.step(STAY, [DELIVER_0])  # 0.2 left at 0.2 from the truck, below 0.24
    check(env, status=[ONBOARD], battery=[0.1], forced_return=[True], drone_position=0, has_target=[False])
    assert env.metrics()["forced_returns"] == 2


def test_a_drone_recovered_while_the_guard_fires_is_flagged_and_does_not_fly():
    env = flying(x=0.1, battery=0.1)
    assert env.step(3, [DELIVER_0])[0] == pytest.approx(-1)
    check(env, status=[ONBOARD], battery=[0.1], battery_used=[0], forced_return=[True], drone_position=0, carrying=[-1])


def test_crash_by_flight_ends_short_of_the_delivery():
    env = make(drones=2, forced_return_factor=0)
    put(env, status=FLYING, drone_position=[[0.4, 0], [0, 0.3]], battery=[0.04, 1])
    assert env.step(STAY, [DELIVER_0, HOVER]) == (pytest.approx(-0.1 * (0.05 + 0.001), abs=1e-6), False)
    check(env, status=[CRASHED, FLYING], battery=[0, 0.999], battery_used=[0.05, 0.001], drone_velocity=0)
    check(env, drone_position=[[0.5, 0], [0, 0.3]], carrying=[-1, -1], has_target=False, target_position=0)
    check(env, served=False)
    np.testing.assert_array_equal(env.action_mask()["drone"], [[1, 0, 0, 0], [1, 1, 1, 1]])
    assert env.metrics()["crashed_drones"] == 1
    assert env.metrics()["drone_distance"] == pytest.approx(0.1)


def test_crash_by_hover_and_the_end_of_all_drones():
    env = flying(battery=0.0005, forced_return_factor=0)
    assert env.step(STAY, [HOVER]) == (pytest.approx(-0.0001 - 2 * 10), True)
    check(env, status=[CRASHED], battery=[0], battery_used=[0.001])


def test_a_returning_drone_that_crashes_beside_the_truck_does_not_board():
    env = flying(x=0.2, battery=0.1)  # exactly what the flight to the truck takes
    assert env.step(STAY, [RETURN]) == (pytest.approx(-0.01 - 20), True)
    check(env, status=[CRASHED], battery=[0], drone_position=0)


# Powers of two, so that the distance is exactly the threshold.
@pytest.mark.parametrize("threshold, status", [(0.25, RETURNING), (0.26, ONBOARD)])
def test_return_boards_below_the_threshold_recover_also_at_it(threshold, status):
    env = put(flying(x=0.5, dt=0.125, recovery_threshold=threshold), carrying=0)
    env.step(STAY, [RETURN])
    check(env, status=[status])
    if status == ONBOARD:
        check(env, carrying=[-1], has_target=[False], drone_position=0, drone_velocity=0)
        return
    check(env, carrying=[0], has_target=[True], drone_position=[[0.25, 0]], drone_velocity=[[-2, 0]])
    assert env.action_mask()["truck"][0, 3]
    env.step(3, [DELIVER_0])
    check(env, status=[ONBOARD], carrying=[-1], drone_position=0, drone_velocity=0, battery=[0.875], battery_used=[0])
    assert env.metrics()["invalid_actions"] == 0


def test_boarding_is_judged_where_the_truck_was_and_the_drone_ends_where_it_goes():
    env = flying(x=-0.3, battery=0.9)
    env.step(MOVE_0, [RETURN])  # ends 0.1 from the old, 0.2 from the new position of the truck
    check(env, status=[ONBOARD], drone_position=[[0.1, 0]], battery=[0.8], battery_used=[0.1], drone_velocity=0)
    assert env.metrics()["drone_distance"] == pytest.approx(0.2)
    env.step(MOVE_0, [HOVER])
    check(env, drone_position=[[0.2, 0]], battery=[0.85], truck_velocity=[1, 0], battery_used=[0])


@pytest.mark.parametrize(
    "status, truck, drone, battery",
    [
        (ONBOARD, STAY, HOVER, 0.55),
        (ONBOARD, MOVE_0, HOVER, 0.55),
        (ONBOARD, RELEASE_0, HOVER, 0.499),
        (FLYING, 3, HOVER, 0.5),  # recovered
        (FLYING, STAY, RETURN, 0.5),  # already at the truck: boards without flying
    ],
)
def test_charging_needs_the_whole_step_on_board(status, truck, drone, battery):
    env = put(make(), status=status, battery=0.5)
    env.step(truck, [drone])
    check(env, battery=[battery])


def test_charging_stops_at_a_full_battery():
    env = put(make(drones=2), battery=[0.98, 1.0])
    env.step(STAY, [HOVER, HOVER])
    check(env, battery=[1, 1])


@pytest.mark.parametrize("window_end, reward, on_time", [(3, 10 - 0.5 * 7, 0), (9, 9.5, 0), (10, 10, 0.5)])
def test_late_penalty(window_end, reward, on_time):
    env = put(flying(x=0.5, window_end=window_end), step=9)
    assert env.step(STAY, [DELIVER_0]) == (pytest.approx(reward), False)
    check(env, arrival_step=[10, -1], battery_used=[0])
    assert env.metrics()["on_time_rate"] == on_time


@pytest.mark.parametrize("threshold, served", [(0.25, False), (0.26, True)])
def test_delivery_threshold_is_strict(threshold, served):
    env = flying(x=0.0, dt=0.125, delivery_threshold=threshold)
    env.step(STAY, [DELIVER_0])
    check(env, drone_position=[[0.25, 0]], served=[served, False], carrying=[-1 if served else 0])


@pytest.mark.parametrize("action", [HOVER, RETURN])
def test_only_deliver_delivers(action):
    env = put(flying(x=0.5), carrying=0)
    env.step(STAY, [action])
    check(env, served=False, carrying=[0])


@pytest.mark.parametrize("action, reward", [(HOVER, -0.0001 - 10), (DELIVER_0, 10 + 50)])
def test_deadline(action, reward):
    env = put(flying(x=0.5, customers=[(0.5, 0.0)], max_steps=5), step=4)
    assert env.step(STAY, [action]) == (pytest.approx(reward), True)


@pytest.mark.parametrize("truck", [3, 4, -1])
@pytest.mark.parametrize("drone", [RETURN, DELIVER_0, DELIVER_1, 4, -1])
def test_illegal_actions_become_index_0_and_are_counted(truck, drone):
    env = put(make(), battery=0.5)
    assert env.step(truck, [drone]) == (0.0, False)
    check(env, status=[ONBOARD], battery=[0.55], truck_position=0, carrying=[-1])
    assert env.metrics()["invalid_actions"] == 2


def test_a_loaded_drone_delivers_to_its_customer_only():
    env = put(flying(), carrying=0)
    np.testing.assert_array_equal(env.action_mask()["drone"], [[1, 1, 1, 0]])
    env.step(STAY, [DELIVER_1])
    check(env, carrying=[0], drone_position=[[0.4, 0]], battery=[0.999])
    assert env.metrics()["invalid_actions"] == 1


def test_masks():
    env = make(drones=4)
    put(env, status=[0, 1, 2, 3], drone_position=[[0, 0], [0.1, 0], [0.13, 0], [0, 0]], served=[False, True])
    truck, drone = env.action_mask()["truck"], env.action_mask()["drone"]
    np.testing.assert_array_equal(truck, [[1, 1, 1, 0, 0, 0, 0, 1, 0, 0]])
    np.testing.assert_array_equal(drone, [[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0]])


def test_truck_stops_at_the_node():
    env = put(make(), truck_position=[0.55, 0])
    env.step(MOVE_0, [HOVER])
    check(env, truck_position=[0.6, 0], truck_velocity=[0.5, 0], drone_position=[[0.6, 0]], drone_velocity=0)
    env.step(MOVE_0, [HOVER])
    check(env, truck_position=[0.6, 0], truck_velocity=0)
    assert env.metrics()["truck_distance"] == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("drones, customers", [(1, 1), (2, 3), (4, 20)])
def test_sizes_and_types(drones, customers):
    env, rng = NumpyTruckDrone(drones, customers), np.random.default_rng(0)
    env.reset(rng)
    for _ in range(100):
        env.step(rng.integers(6 + 2 * drones), rng.integers(2 + customers, size=drones))
    observation = env.observation()
    assert observation["truck"].shape == (1, 4 + 8 * drones + 5 * customers + 1 + drones)
    assert observation["drone"].shape == (drones, 11 + 5 * customers + 4 * (drones - 1) + 1 + drones)
    assert env.global_observation().shape == (4 + 7 * drones + 5 * customers + 1,)
    floats = ("truck_position", "truck_velocity", "drone_position", "drone_velocity", "battery", "battery_used")
    arrays = [*observation.values(), env.global_observation(), *(env.state()[name] for name in floats)]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}


def test_a_loaded_state_plays_on_alike_and_is_a_copy():
    envs, rng = [NumpyTruckDrone(4, 3), NumpyTruckDrone(4, 3)], np.random.default_rng(0)
    instance = envs[0].generate(rng)
    for env in envs:
        env.reset_to(instance)
    for _ in range(150):
        state = envs[0].state()
        envs[1].load_state(state)
        for value in state.values():
            value[...] = 0
        truck, drone = rng.integers(14), rng.integers(5, size=4)
        assert envs[0].step(truck, drone) == envs[1].step(truck, drone)
        for name, value in envs[0].state().items():
            np.testing.assert_array_equal(value, envs[1].state()[name], err_msg=name)


def test_observation_entries():
    env = put(make(drones=2, window_end=60), truck_position=[0.1, 0.2], truck_velocity=[1, 0], step=20)
    put(env, status=[FLYING, CRASHED], drone_position=[[0.4, 0], [0.3, 0.3]], battery=[0.5, 0], carrying=[0, -1])
    put(env, drone_velocity=[[2, 0], [0, 0]], target_position=[[0.5, 0], [0, 0]], has_target=[True, False])
    put(env, served=[False, True])
    seen = env.observation()
    drone = [0.4, 0, 2, 0, 0.5, 1, 0.5, 0, 0, -0.3, 0.2]
    near = [0.1, 0, 0, 0.2, 0.75, -0.9, -0.5, 1, 0, 0.75]
    np.testing.assert_allclose(seen["drone"][0], [*drone, *near, -0.1, 0.3, 0, 1, 0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(seen["drone"][1, -7:], [0.1, -0.3, 0.5, 0.25, 0, 0, 1], atol=1e-6)
    fleet = [0.3, -0.2, 2, 0, 0.5, 1, 0.25, 0.2, 0.1, 0, 0, 0, 0, 1]
    customers = [0.4, -0.2, 0, 0.2, 0.75, -0.6, -0.7, 1, 0, 0.75]
    truck = [0.1, 0.2, 1, 0, 0, 0, *fleet, *customers, 1, 0, 0]
    np.testing.assert_allclose(seen["truck"], [truck], atol=1e-6)
    fleet = [0.4, 0, 2, 0, 0.5, 1, 0.25, 0.3, 0.3, 0, 0, 0, 0, 1]
    whole = [0.1, 0.2, 1, 0, *fleet, 0.5, 0, 0, 0.2, 0.75, -0.5, -0.5, 1, 0, 0.75, 0.1]
    np.testing.assert_allclose(env.global_observation(), whole, atol=1e-6)


def test_generated_instances():
    env = NumpyTruckDrone(2, 2000, 4, 100)
    data = env.generate(np.random.default_rng(0))
    assert np.abs(data["customer_position"]).max() <= 0.8
    assert data["demand"].min() >= 0.5 and data["demand"].max() < 1
    assert (data["window_start"].min(), data["window_start"].max()) == (0, 49)
    width = data["window_end"] - data["window_start"]
    assert width.min() == 33 and data["window_end"].max() == 100
    np.testing.assert_allclose(data["node_position"], [[0.6, 0], [0, 0.6], [-0.6, 0], [0, -0.6]], atol=1e-6)


def test_unknown_parameter_is_named():
    with pytest.raises(TypeError, match="truk_speed"):
        NumpyTruckDrone(truk_speed=1.0)
