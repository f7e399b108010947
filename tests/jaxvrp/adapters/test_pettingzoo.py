"""`to_pettingzoo`: PettingZoo's own tests, and the environment played by hand."""

import jax
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import jaxvrp
from jaxvrp.adapters.host import Host
from jaxvrp.adapters.pettingzoo import to_pettingzoo
from tests.toy_environments import Errands

# The sizes of the other tests, so that all share one compilation.
SMALL = {
    "darp": {"num_nodes": 4, "num_agents": 2},
    "pcb": {"num_boards": 2, "max_steps": 8, "mode": "simultaneous", "rays": 4},
    "truck_drone": {"num_drones": 2, "num_customers": 2, "num_route_nodes": 3, "max_steps": 12},
    "tsp_drone": {"num_nodes": 4},
}

# Agents that are void in an instance do not take part, so they do not end either.
absent = pytest.mark.filterwarnings("ignore:No agents present but not all possible_agents are terminated:UserWarning")


def play(env, seed, choose):
    """Observations, rewards, dones, infos of one episode, from the reset on."""
    steps = [(*env.reset(seed=seed), None)]
    while env.agents:
        observations, rewards, terminations, truncations, infos = env.step(choose(env, *steps[-1][:2]))
        steps.append((observations, infos, (rewards, terminations, truncations)))
    return steps


def legal(env, observations, infos):
    """Drawn by the masks, wherever they are."""
    places = {name: (infos[name], observations[name]) for name in env.agents}
    masks = {
        name: next((place["action_mask"] for place in both if isinstance(place, dict) and "action_mask" in place), None)
        for name, both in places.items()
    }
    return {name: env.action_space(name).sample(mask) for name, mask in masks.items()}


@pytest.mark.parametrize(
    "name", ["darp", "truck_drone", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pcb", "tsp_drone"))]
)
@absent
def test_the_tests_of_pettingzoo_pass(name):
    env = jaxvrp.make(name, **SMALL.get(name, {}))
    parallel_api_test(to_pettingzoo(env), num_cycles=40)
    parallel_seed_test(lambda: to_pettingzoo(env), num_cycles=40)


@pytest.mark.parametrize("mask_in_observation", [True, False])
@absent
def test_they_pass_with_continuous_actions_void_agents_and_truncation_too(reach, mask_in_observation):
    def make():
        return to_pettingzoo(reach, mask_in_observation=mask_in_observation)

    parallel_api_test(make(), num_cycles=20)
    parallel_seed_test(make, num_cycles=20)


def test_it_plays_what_the_environment_plays(env, by_hand):
    random = np.random.default_rng(3)
    actions = [
        {"truck": random.integers(0, 8, 1).astype(np.int32), "drone": random.integers(0, 4, 2).astype(np.int32)}
        for _ in range(12)
    ]
    expected = by_hand(env, np.random.default_rng(8), actions)
    played = to_pettingzoo(env)
    observations, infos = played.reset(seed=8)
    for time, truth in enumerate(expected):
        rows = {"truck_0": ("truck", 0), "drone_0": ("drone", 0), "drone_1": ("drone", 1)}
        assert list(observations) == list(rows)
        for name, (role, row) in rows.items():
            np.testing.assert_allclose(observations[name]["observation"], truth.observation[role][row], atol=1e-6)
            assert (observations[name]["action_mask"] == truth.action_mask[role][row]).all()
            assert "action_mask" not in infos[name]
            assert infos[name]["customers_served"] == truth.metrics["customers_served"]
        np.testing.assert_allclose(played.state(), truth.global_observation, atol=1e-6)
        if truth.done:
            break
        chosen = dict(zip(rows, [*actions[time]["truck"], *actions[time]["drone"]], strict=True))
        observations, rewards, terminations, truncations, infos = played.step(chosen)
        np.testing.assert_allclose(rewards["drone_1"], expected[time + 1].reward["drone"][1], atol=1e-5)
        assert terminations == dict.fromkeys(rows, bool(expected[time + 1].terminated))
        assert not any(truncations.values())
    assert truth.done
    assert not played.agents


def test_masks_lead_to_legal_actions_and_observations_lie_in_their_spaces(env):
    played = to_pettingzoo(env, seed=0)
    for observations, infos, _ in play(played, 5, legal):
        assert all(played.observation_space(name).contains(seen) for name, seen in observations.items())
        assert all(info["invalid_actions"] == 0 for info in infos.values())
    assert played.state_space.contains(played.state())


@pytest.mark.parametrize("index", [-1, 4, 2**32, 10**30, np.uint8(200)])
def test_an_index_outside_of_the_space_is_counted_and_never_wraps_around(env, index):
    played = to_pettingzoo(env, seed=0)
    played.reset()
    infos = played.step({"truck_0": 0, "drone_0": index, "drone_1": 0})[-1]
    assert infos["drone_0"]["invalid_actions"] == 1


def test_seeds_reproduce_and_episodes_differ(env):
    def places(played, seed=None):
        return played.reset(seed=seed)[0]["truck_0"]["observation"]

    original, twin = to_pettingzoo(env, seed=4), to_pettingzoo(env, seed=4)
    first, second = places(original), places(original)
    assert not np.array_equal(first, second)
    assert np.array_equal([places(twin), places(twin)], [first, second])
    assert np.array_equal(places(twin, seed=4), first)
    assert not np.array_equal(places(to_pettingzoo(env)), places(to_pettingzoo(env)))


def test_masks_can_stay_out_of_the_observation(env):
    played = to_pettingzoo(env, seed=0, mask_in_observation=False)
    observations, infos = played.reset()
    assert played.observation_space("drone_0").contains(observations["drone_0"])
    assert observations["drone_0"].shape == env.roles["drone"].observation.shape
    assert infos["drone_0"]["action_mask"].tolist() == [1, 0, 0, 0]


def test_agents_that_are_void_do_not_take_part(reach):
    played = to_pettingzoo(reach)
    present = []
    for seed in range(8):
        _, _, (rewards, _, _) = play(played, seed, legal)[-1]
        present.append(tuple(rewards))
    assert set(present) == {("mover_0", "mover_1", "caller_0"), ("mover_0", "caller_0")}


def test_agents_that_are_void_can_be_kept(reach):
    played, fewer = to_pettingzoo(reach, keep_void_agents=True), to_pettingzoo(reach)
    there = set()
    for seed in range(8):
        observations, infos = played.reset(seed=seed)
        fewer.reset(seed=seed)
        assert played.agents == ["mover_0", "mover_1", "caller_0"] == list(observations)
        assert [name for name in played.agents if infos[name]["valid"]] == fewer.agents
        actions = legal(played, observations, infos)
        rewards = played.step(actions)[1]
        assert (rewards["mover_1"] != 0) == infos["mover_1"]["valid"]
        there.add(infos["mover_1"]["valid"])
    assert there == {True, False}


def test_a_problem_can_be_given_and_is_drawn(env, reach):
    played = to_pettingzoo(env, seed=3, render_mode="rgb_array")
    with pytest.raises(RuntimeError, match="call reset"):
        played.render()
    instance = env.generate(jax.random.key(1))
    seen = [played.reset(options={"instance": instance})[0]["drone_0"]["observation"] for _ in range(2)]
    assert np.array_equal(*seen)
    frames = [played.render()]
    played.step({"truck_0": 1, "drone_0": 0, "drone_1": 0})
    frames.append(played.render())
    assert frames[0].shape == frames[1].shape
    assert not np.array_equal(*frames)
    with pytest.raises(TypeError, match=r"options\['instance'\] is 3; it needs a problem as `generate`"):
        played.reset(options={"instance": 3})
    with pytest.raises(ValueError, match=r"^an instance of 2 customers and 2 route nodes does not fit num_customers"):
        played.reset(options={"instance": instance.replace(node_position=instance.node_position[:2])})
    with pytest.raises(ValueError, match="nothing draws a state of Reach"):
        to_pettingzoo(reach, render_mode="rgb_array")


def test_a_problem_may_leave_out_what_it_need_not_say():
    env = jaxvrp.make("truck_drone", scenario="vrpd_tw", dynamic_share=0.5, **SMALL["truck_drone"])
    drawn = env.generate(jax.random.key(1))
    assert drawn.known_from is not None
    played = to_pettingzoo(env)
    everybody_known = played.reset(options={"instance": drawn.replace(known_from=None)})[0]
    at_once = played.reset(options={"instance": drawn.replace(known_from=drawn.known_from * 0)})[0]
    for name, seen in everybody_known.items():
        np.testing.assert_array_equal(seen["observation"], at_once[name]["observation"])
    assert played.step({name: 0 for name in played.agents})[0].keys() == everybody_known.keys()


def test_an_episode_that_is_cut_short_is_truncated(reach):
    ends = [play(to_pettingzoo(reach), seed, legal)[-1][2][1:] for seed in range(8)]
    kinds = {(all(terminated.values()), all(truncated.values())) for terminated, truncated in ends}
    assert kinds == {(True, False), (False, True)}


def test_what_it_returns_belongs_to_the_caller(env):
    played = to_pettingzoo(env, seed=0)
    before = played.reset()[0]["truck_0"]["observation"]
    kept = before.copy()
    after = played.step({"truck_0": 1, "drone_0": 0, "drone_1": 0})[0]["truck_0"]["observation"]
    assert np.array_equal(before, kept)
    assert not np.array_equal(before, after)
    after += 1.0


def test_environments_of_one_kind_are_compiled_once(env):
    from jaxvrp.adapters import host

    played = to_pettingzoo(env, seed=0)
    played.reset()
    compiled = host._step._cache_size()
    faster = jaxvrp.make("truck_drone", truck_speed=2.0, **SMALL["truck_drone"])
    for other in (played, to_pettingzoo(faster, seed=1)):
        other.reset()
        other.step({"truck_0": 1, "drone_0": 0, "drone_1": 0})
    assert host._step._cache_size() <= compiled + 1
    assert jax.tree.leaves(faster) != jax.tree.leaves(env)


def test_mistakes_are_one_clear_line(env):
    played = to_pettingzoo(env)
    with pytest.raises(RuntimeError, match="call reset"):
        played.state()
    assert played.step({}) == ({}, {}, {}, {}, {})
    played.reset()
    with pytest.raises(ValueError, match=r"one action for each of \['truck_0', 'drone_0', 'drone_1'\]"):
        played.step({"truck_0": 0, "drone_0": 0})
    with pytest.raises(ValueError, match=r"^seed is -1; it must be a whole number, not below 0, or None$"):
        played.reset(seed=-1)
    with pytest.raises(TypeError, match=r"^seed is 'a'; it must be a whole number"):
        to_pettingzoo(env, seed="a")
    with pytest.raises(TypeError, match=r"^step got None; it needs a dict with one action for each of \['truck_0', "):
        played.step(None)


@pytest.mark.parametrize(
    ("action", "error", "given"),
    [
        (None, TypeError, r"is None; it needs int32 of shape \(\)"),
        ("a", TypeError, "is 'a'; it needs int32"),
        (0.5, TypeError, "is 0.5; it needs int32"),
        (float("nan"), TypeError, "is nan; it needs int32"),
        (np.bool_(True), TypeError, "has dtype bool; it needs int32"),
        ([0, 1], ValueError, r"has shape \(2,\); it needs \(\)"),
        ([[0], [0, 1]], ValueError, "needs to be one array"),
    ],
)
def test_what_is_no_index_is_refused_with_the_name_of_the_agent(env, action, error, given):
    played = to_pettingzoo(env, seed=0)
    played.reset()
    with pytest.raises(error, match=rf"^action of drone_1 .*{given}"):
        played.step({"truck_0": 0, "drone_0": 0, "drone_1": action})
    assert played.step({"truck_0": 0, "drone_0": 0, "drone_1": 0})[4]["truck_0"]["invalid_actions"] == 0


@absent
def test_what_is_no_vector_is_refused_with_the_name_of_the_agent(reach):
    played = to_pettingzoo(reach, seed=0)
    begun = played.reset()
    still = {name: action if name != "mover_0" else "north" for name, action in legal(played, *begun).items()}
    with pytest.raises(TypeError, match=r"^action of mover_0 is 'north'; it needs float32 of shape \(2,\)$"):
        played.step(still)


def test_a_metric_by_agent_goes_to_no_role_where_two_are_of_that_size():
    host = Host(Errands())
    timestep = host.reset(np.random.default_rng(0)).replace(metrics={"trips": np.float32([1, 2]), "all": np.float32(3)})
    assert host.metrics(timestep) == [{"all": 3}, {"all": 3, "trips": 1}, {"all": 3, "trips": 2}]
    host.roles = host.roles | {"truck": host.roles["drone"]}
    assert all(metrics == {"all": 3} for metrics in host.metrics(timestep))
