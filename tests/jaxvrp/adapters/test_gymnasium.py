"""`to_gymnasium` and `to_gymnasium_vector`: Gymnasium's own checker and wrappers, and episodes played by hand."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from jaxvrp.adapters.gymnasium import to_gymnasium, to_gymnasium_vector
from jaxvrp.entities import seen_as

# Observations of `darp` have no bounds that could be named.
unbounded = pytest.mark.filterwarnings("ignore:.*A Box observation space:UserWarning")


@unbounded
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_the_checker_of_gymnasium_passes(darp, mask_in_observation):
    check_env(to_gymnasium(darp, mask_in_observation=mask_in_observation), skip_render_check=True)


@pytest.mark.parametrize(("num_agents", "discrete"), [(3, True), (3, False), (1, False)])
def test_it_passes_for_teams_and_continuous_actions(team, num_agents, discrete):
    env = to_gymnasium(team(num_agents=num_agents, discrete=discrete), mask_in_observation=True)
    check_env(env, skip_render_check=True)


def test_it_plays_what_the_environment_plays(darp, by_hand):
    played = to_gymnasium(darp)
    observation, info = played.reset(seed=6)
    seen, masks, rewards, actions, terminated = [observation], [info["action_mask"]], [], [], False
    while not terminated:
        actions.append(played.action_space.sample(info["action_mask"]))
        observation, reward, terminated, truncated, info = played.step(actions[-1])
        seen.append(observation)
        masks.append(info["action_mask"])
        rewards.append(reward)
        assert not truncated
    assert played.observation_space.contains(observation)
    fresh = to_gymnasium(darp)
    fresh.reset(seed=6)
    truth = by_hand(
        seen_as(darp, "flat"), _generator(6), [{"vehicle": np.array([action], np.int32)} for action in actions]
    )
    np.testing.assert_allclose(seen, [each.observation["vehicle"][0] for each in truth], atol=1e-6)
    assert np.array_equal(masks, [each.action_mask["vehicle"][0] for each in truth])
    np.testing.assert_allclose(rewards, [each.reward["vehicle"][0] for each in truth[1:]], rtol=1e-6)
    assert [bool(each.done) for each in truth] == [False] * len(actions) + [True]
    assert info["total_distance"] == truth[-1].metrics["total_distance"]
    assert info["invalid_actions"] == 0


def _generator(seed):
    from gymnasium.utils import seeding

    return seeding.np_random(seed)[0]


def test_a_team_acts_together_for_its_mean_reward(team, by_hand):
    env = team(num_agents=3)
    played = to_gymnasium(env)
    observation, info = played.reset(seed=1)
    truth = by_hand(env, _generator(1), [{"walker": np.array([2, 1, 0], np.int32)}])
    assert np.array_equal(observation, truth[0].observation["walker"])
    assert info["action_mask"].tolist() == [[0, 1, 1]] * 3
    assert played.action_masks().tolist() == [False, True, True] * 3
    assert info["valid"].tolist() == truth[0].valid["walker"].tolist()
    assert played.action_space.sample(tuple(info["action_mask"])).min() >= 1
    observation, reward, _, _, info = played.step(np.array([2, 1, 0]))
    assert np.array_equal(observation, truth[1].observation["walker"])
    assert reward == pytest.approx(float(truth[1].reward["walker"][info["valid"]].mean()))
    assert info["invalid_actions"] == 1
    assert np.array_equal(info["gap"], truth[1].metrics["gap"])


def test_continuous_actions_have_no_mask(team):
    played = to_gymnasium(team(num_agents=1, discrete=False))
    observation, info = played.reset(seed=0)
    assert "action_mask" not in info
    after = played.step(np.array([0.25], np.float32))[0]
    np.testing.assert_allclose(after - observation, [0.25, -0.25], atol=1e-6)
    with pytest.raises(RuntimeError, match="no action mask"):
        played.action_masks()


NUM_ENVS = 5


@pytest.fixture(scope="module")
def episodes(team):
    """Steps of five teams; every third action is forbidden at the beginning."""
    envs = to_gymnasium_vector(team(num_agents=2, max_steps=4), NUM_ENVS)
    random = np.random.default_rng(0)
    begin = envs.reset(seed=3)
    return envs, begin, [envs.step(random.integers(0, 3, (NUM_ENVS, 2))) for _ in range(20)]


def test_the_batch_has_the_spaces_of_gymnasium(episodes):
    envs, (observation, infos), told = episodes
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.single_observation_space.shape == (2, 2)
    assert envs.observation_space.contains(observation)
    assert infos["action_mask"].shape == (NUM_ENVS, 2, 3)
    assert infos["_action_mask"].all()
    for seen, rewards, terminations, truncations, _ in told:
        assert envs.observation_space.contains(seen)
        assert (rewards.dtype, rewards.shape) == (np.float64, (NUM_ENVS,))
        assert terminations.dtype == truncations.dtype == bool
        assert seen.flags.writeable


def test_an_episode_is_begun_again_in_the_step_that_ends_it(episodes):
    _, _, told = episodes
    kinds = set()
    for seen, _, terminations, truncations, infos in told:
        done = terminations | truncations
        assert ("final_obs" in infos) == done.any()
        # Places are 0 in a fresh episode, and left is forbidden; a step on a running one cannot be the first.
        assert (seen[done, :, 0] == 0).all()
        assert (infos["action_mask"][done, :, 0] == 0).all()
        assert (infos["action_mask"][~done, :, 0] == 1).all()
        for index in np.flatnonzero(done):
            kinds.add((bool(terminations[index]), bool(truncations[index])))
            last = infos["final_obs"][index]
            assert last.shape == (2, 2)
            assert terminations[index] == (np.abs(last[:, 1]) < 1.0).any()
            np.testing.assert_allclose(last[:, 1], infos["final_info"]["gap"][index], atol=1e-6)
        if done.any():
            assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == done.tolist()
            assert all(infos["final_obs"][index] is None for index in np.flatnonzero(~done))
    assert kinds == {(True, False), (False, True)}


def test_the_statistics_are_of_the_rewards_that_were_paid(episodes):
    _, _, told = episodes
    total, length, ends = np.zeros(NUM_ENVS), np.zeros(NUM_ENVS), 0
    for _, rewards, terminations, truncations, infos in told:
        total, length = total + rewards, length + 1
        for index in np.flatnonzero(terminations | truncations):
            assert infos["final_info"]["episode_length"][index] == length[index]
            assert infos["final_info"]["episode_return"][index] == pytest.approx(total[index], rel=1e-5)
            total[index], length[index], ends = 0.0, 0, ends + 1
    assert ends > NUM_ENVS


def test_seeds_of_a_batch_reproduce(team):
    def places(envs, seed=None):
        return envs.reset(seed=seed)[0]

    env = team(num_agents=2, max_steps=4)
    one, two = to_gymnasium_vector(env, NUM_ENVS), to_gymnasium_vector(env, NUM_ENVS)
    first, second = places(one, 1), places(one)
    assert not np.array_equal(first, second)
    assert len(np.unique(first, axis=0)) == NUM_ENVS
    assert np.array_equal(places(two, 1), first)
    assert np.array_equal(places(two), second)


def test_mistakes_are_one_clear_line(env, team):
    with pytest.raises(ValueError, match=r"\['truck', 'drone'\]; use jaxvrp.adapters.pettingzoo.to_pettingzoo"):
        to_gymnasium(env)
    with pytest.raises(ValueError, match="to_pettingzoo"):
        to_gymnasium_vector(env, 2)
    alone = team(num_agents=1, max_steps=4)
    envs = to_gymnasium_vector(alone, 2)
    for played, action in ((to_gymnasium(alone), 0), (envs, np.zeros(2, int))):
        with pytest.raises(RuntimeError, match="call reset"):
            played.step(action)
    with pytest.raises(ValueError, match=r"seed is \[1, 2\]"):
        envs.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.ones(2, bool)})
    envs.reset()
    with pytest.raises(ValueError, match=r"shape \(3,\); it needs \(2,\)"):
        envs.step(np.zeros(3, int))
    with pytest.raises(TypeError, match="walker"):
        envs.step(np.zeros(2))
    with pytest.raises(ValueError, match="num_envs is 0; it must be >= 1"):
        to_gymnasium_vector(alone, 0)


@pytest.mark.parametrize(
    ("action", "given"),
    [
        (None, "is None"),
        ("a", "is 'a'"),
        (1.0, "is 1.0"),
        (True, "is True"),
        (np.float32(1), "has dtype float32"),
        ({"walker": 1}, r"is {'walker': 1}"),
    ],
)
def test_what_is_no_index_is_refused_by_name(team, action, given):
    alone = team(num_agents=1, max_steps=4)
    for played in (to_gymnasium(alone), to_gymnasium_vector(alone, 1)):
        played.reset(seed=0)
        batch = played.unwrapped is not played or hasattr(played, "num_envs")
        with pytest.raises(TypeError, match=rf"^action of walker_0 {given}; it needs int32 of shape \(1?,?\)$"):
            played.step(action)
        # The episode goes on as if nothing had been asked.
        played.step(np.ones(1, int) if batch else 1)


def test_a_team_is_named_by_its_role(team):
    played = to_gymnasium(team(num_agents=3))
    played.reset(seed=0)
    with pytest.raises(TypeError, match=r"^action of the 3 agents of role 'walker' is \[0, None, 1\]; it needs int32"):
        played.step([0, None, 1])


@pytest.mark.parametrize("index", [-1, 3, 2**32, 10**30, -(10**30)])
def test_an_index_outside_of_the_space_is_counted_and_never_wraps_around(team, index):
    played, batch = to_gymnasium(team(num_agents=2)), to_gymnasium_vector(team(num_agents=2, max_steps=1), 2)
    played.reset(seed=0)
    batch.reset(seed=0)
    assert played.step([1, index])[4]["invalid_actions"] == played._info["valid"][1]
    _, _, _, _, infos = batch.step([[1, index], [1, 1]])
    assert infos["final_info"]["invalid_actions"][1] == 0


@pytest.mark.parametrize(
    ("module", "library"),
    [("gymnasium", "gymnasium"), ("multi_agent", "gymnasium"), ("pettingzoo", "pettingzoo"), ("jaxmarl", "jaxmarl")],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch, module, library):
    for name in [name for name in sys.modules if name.startswith(("jaxvrp.adapters.", f"{library}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install jaxvrp\[{library}\]$"):
        importlib.import_module(f"jaxvrp.adapters.{module}")


def test_the_package_itself_imports_none_of_them():
    program = "import sys, jaxvrp.adapters; print({'gymnasium', 'pettingzoo', 'jaxmarl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
