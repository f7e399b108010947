"""`VRPEnv`: the list API, against the environment played by hand."""

import argparse
import re

import numpy as np
import pytest

from jaxvrp.adapters.multi_agent import VRPEnv
from tests.refusals import refusal

SIZES = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 3, "max_steps": 12}
NUM_ACTIONS = (8, 4, 4)


def random_actions(seed, count):
    random = np.random.default_rng(seed)
    return [[random.integers(number) for number in NUM_ACTIONS] for _ in range(count)]


def one_hot(actions):
    return [np.eye(number)[action] for action, number in zip(actions, NUM_ACTIONS, strict=True)]


@pytest.fixture(scope="module")
def vrp():
    return VRPEnv({**SIZES, "seed": 7})


def test_spaces_and_names_are_lists_with_one_entry_per_agent(vrp, env):
    assert (vrp.n, vrp.agents) == (3, ["truck_0", "drone_0", "drone_1"])
    assert [space.n for space in vrp.action_space] == list(NUM_ACTIONS)
    sizes = [env.roles[role].observation.shape for role in ("truck", "drone", "drone")]
    assert [space.shape for space in vrp.observation_space] == sizes
    assert [type(space).__name__ for space in vrp.action_space] == ["Discrete"] * 3
    assert len({space.shape for space in vrp.share_observation_space}) == 1


def test_it_plays_what_the_environment_plays(vrp, env, by_hand):
    actions = random_actions(2, 12)
    by_role = [{"truck": np.array(a[:1], np.int32), "drone": np.array(a[1:], np.int32)} for a in actions]
    truth = by_hand(env, np.random.default_rng(5), by_role)
    vrp.seed(5)
    obs_n, done_n = vrp.reset(), [False]
    for time, expected in enumerate(truth):
        rows = [("truck", 0), ("drone", 0), ("drone", 1)]
        assert len(obs_n) == vrp.n
        for agent, (role, row) in enumerate(rows):
            info = vrp.infos[agent]
            np.testing.assert_allclose(obs_n[agent], expected.observation[role][row], atol=1e-6)
            np.testing.assert_array_equal(info["available_actions"], expected.action_mask[role][row])
            np.testing.assert_allclose(info["share_obs"], expected.global_observation, atol=1e-6)
            assert info["policy_id"] == (0 if role == "truck" else 1)
            assert (info["time_step"], info["total_customers"]) == (time, 2)
            assert info["customers_served"] == expected.metrics["customers_served"]
            assert type(info["customers_served"]) is type(info["time_step"]) is int
        assert done_n == [bool(expected.done)] * len(done_n)
        if expected.done:
            break
        obs_n, reward_n, done_n, info_n = vrp.step(actions[time])
        assert np.shape(reward_n) == (3, 1)
        np.testing.assert_allclose(reward_n, np.full((3, 1), truth[time + 1].reward["truck"]), atol=1e-5)
        assert info_n is vrp.infos
        assert not info_n[0]["bad_transition"]
    assert all(done_n)
    last = vrp.step(actions[0])
    assert last[1] == [[0.0]] * 3
    assert last[3][0]["time_step"] == time
    np.testing.assert_array_equal(last[0][0], obs_n[0])


def test_time_is_that_of_the_simulation_where_decisions_hold(env):
    vrp = VRPEnv(env=env.replace(decide="events", max_repeat=2))
    vrp.seed(0)
    vrp.reset()
    times = [vrp.step([0, 0, 0])[3][1]["time_step"] for _ in range(2)]
    assert times == [2, 4] and type(times[0]) is int


def test_one_hot_rows_and_indices_are_the_same_actions(vrp):
    played = []
    for encode in (list, one_hot, np.array, lambda actions: [[action] for action in actions]):
        vrp.seed(1)
        vrp.reset()
        played.append([vrp.step(encode(actions)) for actions in random_actions(3, 4)])
    for other in played[1:]:
        for (seen, paid, *_), (same, likewise, *_) in zip(played[0], other, strict=True):
            assert paid == likewise
            assert all(map(np.array_equal, seen, same))


@pytest.mark.slow
def test_a_namespace_may_hold_more_than_the_environment_knows():
    args = argparse.Namespace(
        scenario_name="truck_drone_basic", num_drones=1, num_customers=4, num_route_nodes=None, episode_length=9,
        delivery_bonus=7.0, seed=3, lr=5e-4, hidden_size=64, use_recurrent_policy=False,
    )  # fmt: skip
    vrp = VRPEnv(args)
    assert vrp.agents == ["truck_0", "drone_0"]
    assert [space.n for space in vrp.action_space] == [1 + 5 + 2, 2 + 4]
    assert (vrp.reset()[0] == VRPEnv(args).reset()[0]).all()
    for _ in range(9):
        done_n = vrp.step([0, 0])[2]
    assert done_n == [True, True]
    assert vrp.infos[1]["time_step"] == 9


def test_a_mapping_is_checked():
    with pytest.raises(ValueError, match=r"unknown .*'num_drone'; did you mean 'num_drones'"):
        VRPEnv({"num_drone": 3})
    with pytest.raises(ValueError, match="num_drones is 0"):
        VRPEnv(argparse.Namespace(num_drones=0))


@pytest.mark.parametrize("args", ["truck_drone_scarce", 3, ["num_drones", 2]])
def test_what_is_neither_a_namespace_nor_a_mapping_is_refused(args, env):
    for given in (args, env):
        with pytest.raises(
            TypeError, match=r"^args is .*; it must be a namespace or a mapping.* is given as env=\.\.\.$"
        ):
            VRPEnv(given)


def test_a_parameter_has_one_name():
    with pytest.raises(ValueError, match=r"^episode_length and max_steps are names of the same parameter; leave one"):
        VRPEnv({"max_steps": 5, "episode_length": 7})


def test_what_is_no_seed_is_refused_by_name(vrp):
    with pytest.raises(ValueError, match=r"^seed is -1; it must be a whole number, not below 0, or None$"):
        vrp.seed(-1)
    with pytest.raises(TypeError, match=r"^seed is 1.5; it must be a whole number"):
        vrp.seed(1.5)


def test_padding_appends_zeros(vrp):
    padded = VRPEnv({**SIZES, "pad_observations": True})
    size = max(space.shape[0] for space in vrp.observation_space)
    assert [space.shape for space in padded.observation_space] == [(size,)] * 3
    vrp.seed(4)
    padded.seed(4)
    for plain, wide in ((vrp.reset(), padded.reset()), (vrp.step([1, 0, 0])[0], padded.step([1, 0, 0])[0])):
        for short, row in zip(plain, wide, strict=True):
            np.testing.assert_array_equal(row, np.pad(short, (0, size - short.size)))


def test_actions_can_be_padded_for_a_policy_that_all_share(vrp):
    padded = VRPEnv({**SIZES, "pad_actions": True})
    assert [space.n for space in padded.action_space] == [8, 8, 8]
    for env in (vrp, padded):
        env.seed(4)
        env.reset()
    for plain, wide in zip(vrp.infos, padded.infos, strict=True):
        mask = plain["available_actions"]
        np.testing.assert_array_equal(wide["available_actions"], np.pad(mask, (0, 8 - mask.size)))
    rows = np.eye(8)
    infos = padded.step([rows[0], rows[7], 6])[3]
    assert infos[0]["invalid_actions"] == 2
    with pytest.raises(ValueError, match=r"action of drone_0 is .*; it needs an index below 8, or a one-hot row of 8"):
        padded.step([0, np.zeros(8), 0])


def test_shared_observations_can_be_all_observations_one_after_the_other():
    """As the separated runner of the on-policy repository makes them from the padded observations."""
    vrp = VRPEnv({**SIZES, "pad_observations": True, "seed": 0}, concatenate_share_obs=True)
    size = vrp.observation_space[0].shape[0]
    assert [space.shape for space in vrp.share_observation_space] == [(3 * size,)] * 3
    for play in (vrp.reset, lambda: vrp.step([1, 0, 0])[0]):
        together = np.concatenate(play())
        for info in vrp.infos:
            np.testing.assert_array_equal(info["share_obs"], together)


def test_the_reward_of_each_agent_is_in_its_info(reach):
    vrp = VRPEnv({"seed": 0}, env=reach)
    vrp.reset()
    assert [info["individual_reward"] for info in vrp.infos] == [0.0, 0.0, 0.0]
    _, reward_n, _, info_n = vrp.step([[1.0, 0.0], [-1.0, 0.0], 2])
    assert [[info["individual_reward"]] for info in info_n] == reward_n
    assert len({reward for (reward,) in reward_n}) == 3


def test_any_environment_has_this_face(reach, darp):
    vrp = VRPEnv({"seed": 0}, env=reach)
    vrp.reset()
    assert "available_actions" not in vrp.infos[0]
    assert vrp.infos[2]["available_actions"].tolist() == [1, 1, 1]
    assert vrp.infos[0]["valid"]
    info_n = vrp.step([[1.0, 0.0], [-1.0, 0.0], 0])[3]
    assert info_n[0]["place"] > 0.05 > -0.05 > info_n[1]["place"]
    assert "place" not in info_n[2]
    ends = set()
    for _ in range(12):
        vrp.reset()
        done_n = [False]
        while not all(done_n):
            _, _, done_n, info_n = vrp.step([[0.5, -0.5], np.zeros(2), 0])
        ends.add(info_n[0]["bad_transition"])
    assert ends == {True, False}
    single = VRPEnv(env=darp)
    single.reset()
    assert single.agents == ["vehicle_0"]
    assert single.step([1])[3][0]["policy_id"] == 0


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 0], r"got 2 actions; it needs 3, one for each of \['truck_0', 'drone_0', 'drone_1'\]"),
        ([0, np.eye(8)[0], 0], "action of drone_0 is .* below 4, or a one-hot row of 4"),
        ([0, 0, 0.5], "action of drone_1 is 0.5"),
        ([0, 0, float("nan")], "action of drone_1 is nan"),
        ([0, 0, float("inf")], "action of drone_1 is inf"),
        ([0, None, 0], "action of drone_0 is None; it needs an index below 4, or a one-hot row of 4"),
        ([0, "a", 0], "action of drone_0 is 'a'; it needs an index"),
        ([0, True, 0], "action of drone_0 is True; it needs an index"),
        ([0, [[0], [0, 1]], 0], r"action of drone_0 is \[\[0\], \[0, 1\]\]; it needs to be one array"),
        ([0, 1j, 0], "action of drone_0 is 1j; it needs an index"),
        (
            [0, np.zeros(4), 0],
            r"action of drone_0 is array\(\[0., 0., 0., 0.\]\); it needs an index .* one-hot row of 4",
        ),
        ([0, [1, 0, 0, 1], 0], r"action of drone_0 is \[1, 0, 0, 1\]"),
        ([0, [1, 0, 0, float("nan")], 0], "action of drone_0 is .*nan"),
        ([0, [0.4, 0.6, 0, 0], 0], "action of drone_0 is .*0.4"),
        ([0, [-1, 0, 0, 0], 0], "action of drone_0 is .*-1"),
        ([0, [2, 0, 0, 0], 0], "action of drone_0 is .*2, 0"),
        ([0, np.eye(2), 0], "action of drone_0 is array"),
        (None, r"step got None; it needs 3, one for each of \['truck_0', 'drone_0', 'drone_1'\]"),
    ],
)
def test_a_wrong_action_is_named(vrp, actions, message):
    vrp.reset()
    assert re.search(message, refusal(vrp.step, actions))
    # The episode goes on as if nothing had been asked.
    assert vrp.step([0, 0, 0])[3][0]["time_step"] == 1


def test_rows_that_are_one_hot_but_for_rounding_are_taken(vrp):
    """Learners make them as differences of floats."""
    for row in (np.float32([0, 1 - 6e-8, 3e-8, 0]), np.array([False, True, False, False])):
        vrp.reset()
        assert vrp.step([0, row, 0])[3][0]["invalid_actions"] == 1  # RETURN is forbidden on the truck


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3), r"action of mover_1 has shape \(3,\); it needs \(2,\)"),
        (None, r"action of mover_1 is None; it needs numbers of shape \(2,\)"),
        (["a", "b"], r"action of mover_1 is \['a', 'b'\]; it needs numbers"),
        ([0.5, None], r"action of mover_1 is \[0.5, None\]; it needs numbers"),
    ],
)
def test_a_wrong_vector_is_named(reach, action, message):
    vrp = VRPEnv(env=reach)
    vrp.reset()
    with pytest.raises(ValueError, match=message):
        vrp.step([np.zeros(2), action, 0])


@pytest.mark.parametrize("value", [float("nan"), 1e300, 2.0])
def test_a_vector_outside_of_its_box_is_counted(reach, value):
    vrp = VRPEnv(env=reach)
    vrp.reset()
    assert vrp.step([[0.0, value], [0.0, 0.0], 0])[3][0]["invalid_actions"] == 1


@pytest.mark.parametrize("index", [-1, 4, 2**32, 2**40, 10**30, 1e30])
def test_an_index_outside_of_the_space_is_counted(vrp, index):
    vrp.reset()
    assert vrp.step([0, index, 0])[3][0]["invalid_actions"] == 1


def test_a_step_needs_a_reset():
    with pytest.raises(RuntimeError, match="call reset"):
        VRPEnv(SIZES).step([0, 0, 0])
