"""`to_gymnasium` and `to_gymnasium_vector`: Gymnasium's own checker and wrappers, and episodes played by hand."""

import dataclasses
import importlib
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import jaxvrp
from jaxvrp.adapters.gymnasium import (
    GymnasiumVectorEnv,
    make_env,
    make_vector_env,
    register_ids,
    to_gymnasium,
    to_gymnasium_vector,
)
from jaxvrp.entities import seen_as
from jaxvrp.memory import Memory, RememberingEnvironment
from tests.toy_environments import Team

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


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_a_batch_plays_what_gymnasium_plays_with_one_environment_after_the_other(team, mode):
    env, seeds = team(num_agents=2, max_steps=4), [3, 1, 4, 1, 5]
    truth = SyncVectorEnv([lambda: to_gymnasium(env, mask_in_observation=True)] * 5, autoreset_mode=mode)
    batch = to_gymnasium_vector(env, 5, autoreset_mode=mode, mask_in_observation=True)
    assert (batch.observation_space, batch.action_space) == (truth.observation_space, truth.action_space)
    answer, expected = batch.reset(seed=seeds), truth.reset(seed=seeds)
    assert batch.np_random_seed == truth.np_random_seed == tuple(seeds)
    assert_same_answer(answer, expected)
    random, ends = np.random.default_rng(0), []
    for _ in range(20):
        actions = random.integers(0, 3, (5, 2))
        answer, expected = batch.step(actions), truth.step(actions)
        assert_same_answer(answer, expected)
        assert batch.observation_space.contains(answer[0])
        assert all(part.flags.writeable for part in answer[0].values())
        done = answer[2] | answer[3]
        ends += zip(answer[2][done].tolist(), answer[3][done].tolist(), strict=True)
        if mode is AutoresetMode.DISABLED and done.any():
            with pytest.raises(RuntimeError, match=rf"environments \[{np.flatnonzero(done)[0]}.* are over; begin anew"):
                batch.step(actions)
            again = [None, 9, None, 8, None]
            answer = batch.reset(seed=again, options={"reset_mask": done})
            assert_same_answer(answer, truth.reset(seed=again, options={"reset_mask": done}))
            assert batch.np_random_seed == truth.np_random_seed
    assert len(ends) > 5 and set(ends) == {(True, False), (False, True)}


class Drifting(Team, RememberingEnvironment):
    """Goals lie the farther away the more steps have been played before: what `VecEnv` remembers."""

    far: float = 0.0

    @property
    def memory(self):
        return Memory(
            initial=jnp.zeros((), jnp.float32),
            update=lambda far, states: far + 1,
            apply=lambda far: dataclasses.replace(self, far=far),
        )

    def generate(self, key):
        goal, present = super().generate(key)
        return goal + self.far, present


def test_episodes_of_a_batch_know_nothing_of_each_other():
    """Else a seed would not say what is played, and what one environment did would be seen in another."""
    env = Drifting(num_agents=2, max_steps=4)
    truth = SyncVectorEnv([lambda: to_gymnasium(env)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    batch = to_gymnasium_vector(env, 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert_same_answer(batch.reset(seed=5), truth.reset(seed=5))
    ends = 0
    for _ in range(15):
        answer, expected = (each.step(np.ones((3, 2), np.int64)) for each in (batch, truth))
        assert_same_answer(answer, expected)
        ends += (answer[2] | answer[3]).sum()
    assert ends > 5
    assert_same_answer(batch.reset(), truth.reset())


def assert_same_answer(answer, expected):
    """All that a batch returns, infos where they are marked."""
    for part, expected_part in zip(answer[:-1], expected[:-1], strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), part, expected_part)
        assert jax.tree.map(lambda leaf: leaf.dtype, part) == jax.tree.map(lambda leaf: leaf.dtype, expected_part)
    assert ("final_obs" in answer[-1]) == ("final_obs" in expected[-1])
    _assert_infos(answer[-1], expected[-1])


def _assert_infos(infos, expected):
    assert set(expected) <= set(infos)
    for name in expected:
        if name.startswith("_"):
            assert infos[name].tolist() == expected[name].tolist()
        elif isinstance(expected[name], dict):
            _assert_infos(infos[name], expected[name])
        else:
            for rank in np.flatnonzero(expected[f"_{name}"]):
                info, expected_info = infos[name][rank], expected[name][rank]
                jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), info, expected_info)
            if expected[name].dtype == object:
                assert all(info is None for info in infos[name][~expected[f"_{name}"]])


@pytest.mark.slow
def test_a_problem_can_be_given(darp):
    instance = darp.generate(jax.random.key(5))
    played, batch = to_gymnasium(darp), to_gymnasium_vector(darp, 2)
    seen, _ = played.reset(seed=0, options={"instance": instance})
    other, _ = played.reset(seed=1)
    np.testing.assert_allclose(seen, seen_as(darp, "flat").reset_to(instance)[1].observation["vehicle"][0], atol=1e-6)
    assert not np.array_equal(seen, other)
    batch.reset(seed=2)
    both = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), instance)
    assert (batch.reset(options={"instance": both})[0] == batch.reset(options={"instance": both})[0][0]).all()
    for env, given in ((played, "map.json"), (played, None), (batch, [instance])):
        if given is not None:
            with pytest.raises(
                TypeError, match=r"options\['instance'\] is .*; it needs a problem as `generate` of Darp"
            ):
                env.reset(options={"instance": given})
    with pytest.raises(ValueError, match=r"'instance'\] needs 2 problems"):
        batch.reset(options={"instance": instance})
    with pytest.raises(
        ValueError, match=r"^options\['instance'\] has a leading axis, as of many problems; give one of"
    ):
        played.reset(options={"instance": both})
    with pytest.raises(ValueError, match=r"'instance'\] has parts \(or None\) where drawn problems have none"):
        batch.reset(options={"instance": both.replace(earliest=None)})


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.slow
def test_numbers_of_darp_keep_the_bounds_that_are_known(limits):
    """Flags and shares in [0, 1], clipped times in [-1, 1], distances above 0; what has no bound says so."""
    kinds = {"instances": "cordeau", "limits": True} if limits else {}
    batch = to_gymnasium_vector(jaxvrp.make("darp", num_nodes=8, num_agents=2, **kinds), 16)
    space, random = batch.single_observation_space, np.random.default_rng(0)
    assert np.isfinite(space.high).mean() > 0.6 < np.isfinite(space.low).mean()
    seen, infos = batch.reset(seed=0)
    least, greatest = seen.min(axis=0), seen.max(axis=0)
    for _ in range(20):
        assert batch.observation_space.contains(seen), np.flatnonzero((seen < space.low) | (seen > space.high)) % 116
        seen, _, _, _, infos = batch.step((infos["action_mask"] * random.random((16, 9))).argmax(axis=1))
        least, greatest = np.minimum(least, seen.min(axis=0)), np.maximum(greatest, seen.max(axis=0))
    flags = (space.low == 0) & (space.high == 1)
    assert (greatest[flags] == 1).mean() > 0.5 < (least[flags] == 0).mean()


SMALL = {"pcb": {"min_parts": 2, "max_parts": 2, "rays": 1, "num_boards": 1}}


@pytest.fixture
def own_environments():
    """A class that Gymnasium can play, a function that makes what it cannot, and one that needs an argument."""
    from jaxvrp.registry import _ENTRIES

    factories = {"own_team": Team, "own_fleet": lambda: jaxvrp.make("truck_drone"), "own_choice": lambda kind: Team()}
    for name, factory in factories.items():
        jaxvrp.register(name, factory)
    yield
    for name in factories:
        del _ENTRIES["environment"][name]
        gymnasium.registry.pop(f"jaxvrp/{name}-v0", None)


def test_exactly_the_environments_with_one_role_have_an_id(own_environments):
    ids = register_ids()
    built_in = ("darp", "pcb", "truck_drone", "tsp_drone", "vrpd_tw")
    makeable = {name for name in built_in if len(jaxvrp.make(name, **SMALL.get(name, {})).roles) == 1}
    assert {f"jaxvrp/{name}-v0" for name in makeable | {"own_team", "own_choice"}} <= set(ids)
    assert set(ids) <= set(gymnasium.registry)
    refused = {*built_in, "own_fleet"} - makeable
    assert not {f"jaxvrp/{name}-v0" for name in refused} & {*ids, *gymnasium.registry}
    for name in refused - {"own_fleet"}:
        with pytest.raises(ValueError, match=r"use jaxvrp\.adapters\.pettingzoo\.to_pettingzoo"):
            make_env(name)
        with pytest.raises(ValueError, match=r"use jaxvrp\.adapters\.pettingzoo\.to_pettingzoo"):
            make_vector_env(name, 2)


@unbounded
def test_an_id_makes_the_environment_and_the_batch(darp):
    sizes = {"num_nodes": 4, "num_agents": 2}
    played = gymnasium.make("jaxvrp.adapters.gymnasium:jaxvrp/darp-v0", **sizes, mask_in_observation=True)
    assert played.spec.id == "jaxvrp/darp-v0"
    expected, _ = to_gymnasium(darp).reset(seed=4)
    assert np.array_equal(played.reset(seed=4)[0]["observation"], expected)
    assert played.get_wrapper_attr("action_masks")().shape == (5,)
    batch = gymnasium.make_vec("jaxvrp/darp-v0", 2, **sizes)
    assert isinstance(batch, GymnasiumVectorEnv)
    cart_poles = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    assert batch.metadata["autoreset_mode"] is cart_poles.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    same = gymnasium.make_vec("jaxvrp/darp-v0", 2, **sizes, autoreset_mode="SameStep")
    assert same.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert same.autoreset_mode is AutoresetMode.SAME_STEP, "TorchRL looks for it where SyncVectorEnv has it"
    assert np.array_equal(batch.reset(seed=4)[0][0], expected)
    with pytest.raises(ValueError, match=r"unknown parameter of 'darp': 'num_node'"):
        gymnasium.make("jaxvrp/darp-v0", num_node=4)
    with pytest.raises(gymnasium.error.NameNotFound, match="truck_drone"):
        gymnasium.make("jaxvrp/truck_drone-v0")
    with pytest.raises(TypeError, match="unexpected keyword argument 'frameskip'"):  # GymEnv of TorchRL tries it
        gymnasium.make("jaxvrp/darp-v0", **sizes, frameskip=1)


@unbounded
def test_a_batch_that_an_id_makes_is_drawn(darp):
    batch = gymnasium.make_vec("jaxvrp/darp-v0", 2, num_nodes=4, num_agents=2, render_mode="rgb_array")
    batch.reset(seed=0)
    frames = batch.render()
    assert len(frames) == 2 and all(frame.dtype == np.uint8 and frame.ndim == 3 for frame in frames)
    assert batch.render_mode == "rgb_array" and batch.spec.kwargs["render_mode"] == "rgb_array"
    assert gymnasium.make_vec("jaxvrp/darp-v0", 2, num_nodes=4).render_mode is None
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        gymnasium.make_vec("jaxvrp/darp-v0", 2, num_nodes=4, render_mode="human")


@unbounded
def test_it_is_drawn_as_pixels(darp, team):
    played = to_gymnasium(darp, render_mode="rgb_array")
    with pytest.raises(RuntimeError, match="call reset"):
        played.render()
    _, info = played.reset(seed=0)
    frames = [played.render()]
    played.step(played.action_space.sample(info["action_mask"]))
    frames.append(played.render())
    assert {(frame.dtype.name, frame.shape) for frame in frames} == {("uint8", frames[0].shape)}
    assert not np.array_equal(*frames)
    batch = to_gymnasium_vector(darp, 2, render_mode="rgb_array")
    batch.reset(seed=[0, 1])
    assert np.array_equal(batch.render()[0], frames[0])
    assert not np.array_equal(batch.render()[1], frames[0])
    silent = to_gymnasium(darp)
    silent.reset()
    assert silent.render() is None
    with pytest.raises(ValueError, match="nothing draws a state of Team; register it with a"):
        to_gymnasium(team(), render_mode="rgb_array")
    with pytest.raises(ValueError, match="render_mode is 'ansi'; it must be None or 'rgb_array'"):
        to_gymnasium(darp, render_mode="ansi")


@unbounded
def test_the_checker_of_gymnasium_passes_for_what_an_id_makes():
    played = gymnasium.make("jaxvrp/darp-v0", num_nodes=4, num_agents=2, render_mode="rgb_array")
    check_env(played.unwrapped)
    listed = gymnasium.make("jaxvrp/darp-v0", num_nodes=4, num_agents=2, render_mode="rgb_array_list")
    listed.reset(seed=0)
    assert [frame.ndim for frame in listed.render()] == [3]


def test_where_nothing_draws_no_mode_is_named():
    sizes = {"num_nodes": 4, "num_drones": 1}
    played = gymnasium.make("jaxvrp/flying_sidekicks-v0", **sizes).unwrapped
    assert played.metadata["render_modes"] == []
    check_env(played)
    assert gymnasium.make_vec("jaxvrp/flying_sidekicks-v0", 2, **sizes).metadata["render_modes"] == []


def test_the_statistics_are_of_the_rewards_that_were_paid(team):
    envs = to_gymnasium_vector(team(num_agents=2, max_steps=4), 5, autoreset_mode="SameStep")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs.reset(seed=3)
    random, total, length, ends = np.random.default_rng(0), np.zeros(5), np.zeros(5), 0
    for _ in range(20):
        _, rewards, terminations, truncations, infos = envs.step(random.integers(0, 3, (5, 2)))
        total, length = total + rewards, length + 1
        for index in np.flatnonzero(terminations | truncations):
            assert infos["final_info"]["episode_length"][index] == length[index]
            assert infos["final_info"]["episode_return"][index] == pytest.approx(total[index], rel=1e-5)
            total[index], length[index], ends = 0.0, 0, ends + 1
    assert ends > 5


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
    with pytest.raises(ValueError, match=r"seed lists 3 numbers; it needs 2, one for each environment"):
        envs.reset(seed=[1, 2, 3])
    for seed in ("12", [1.5, 2], 1.5):
        with pytest.raises(TypeError, match="it needs to be a whole number, a list of them, or None"):
            envs.reset(seed=seed)
    with pytest.raises(TypeError, match=r"seed is 0\.5; it needs to be a whole number"):
        envs.reset(seed=0.5)
    with pytest.raises(ValueError, match="reset got the option 'level'; it knows instance, reset_mask"):
        envs.reset(options={"level": 3})
    some = np.array([True, False])
    with pytest.raises(RuntimeError, match="before the first reset of all"):
        envs.reset(options={"reset_mask": some})
    envs.reset()
    for mask in (some.astype(int), ~(some | True), some[:1], [True, False]):
        with pytest.raises(ValueError, match=r"'reset_mask'\] needs to be an array of bool of shape \(2,\), True at"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(
        ValueError, match=r"^autoreset_mode is 'Sometimes'; it must be one of: NextStep, SameStep, Disabled$"
    ):
        to_gymnasium_vector(alone, 2, autoreset_mode="Sometimes")
    with pytest.raises(ValueError, match=r"shape \(3,\); it needs \(2,\), one entry for each environment$"):
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


def test_the_axes_of_a_wrong_shape_are_named(team):
    of_one = r"it needs \(3,\), one entry for each agent$"
    of_two = r"it needs \(2, 3\), one entry for each environment and agent$"
    for played, needs in (
        (to_gymnasium(team(num_agents=3)), of_one),
        (to_gymnasium_vector(team(num_agents=3), 2), of_two),
    ):
        played.reset(seed=0)
        with pytest.raises(ValueError, match=needs):
            played.step(np.zeros(4, int))


@pytest.mark.parametrize("index", [-1, 3, 2**32, 10**30, -(10**30)])
def test_an_index_outside_of_the_space_is_counted_and_never_wraps_around(team, index):
    played, batch = to_gymnasium(team(num_agents=2)), to_gymnasium_vector(team(num_agents=2, max_steps=1), 2)
    played.reset(seed=0)
    batch_valid = batch.reset(seed=0)[1]["valid"]
    assert played.step([1, index])[4]["invalid_actions"] == played._info["valid"][1]
    _, _, _, _, infos = batch.step([[1, index], [1, 1]])
    assert infos["invalid_actions"].tolist() == [batch_valid[0, 1], 0]


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("gymnasium", "gymnasium"),
        ("multi_agent", "gymnasium"),
        ("pettingzoo", "pettingzoo"),
        ("jaxmarl", "jaxmarl"),
        ("gymnax", "gymnax"),
        ("jumanji", "jumanji"),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch, module, library):
    for name in [name for name in sys.modules if name.startswith(("jaxvrp.adapters.", f"{library}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install -e '\.\[{library}\]' in a clone of jaxvrp$"):
        importlib.import_module(f"jaxvrp.adapters.{module}")


@pytest.mark.slow
def test_the_package_itself_imports_none_of_them():
    program = "import sys, jaxvrp.adapters; print({'gymnasium', 'pettingzoo', 'jaxmarl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
