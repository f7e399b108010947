"""Vectors of the list API: what a learner in NumPy collects on them, auto-reset, and processes that fail."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from jaxvrp.adapters.multi_agent import VRPDummyVecEnv, VRPEnv, VRPSubprocVecEnv

SIZES = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 3, "max_steps": 12}
NUM_ENVS, NUM_STEPS, NUM_AGENTS = 2, 26, 3


def makers(count=NUM_ENVS):
    return [lambda rank=rank: VRPEnv({**SIZES, "seed": 100 + rank}) for rank in range(count)]


class Collector:
    """The rollout of a MAPPO code in NumPy, in its own words: buffers `[T + 1, n_envs, n_agents, dim]`.

    It knows the classical interface and nothing else; policies are linear, one for each agent.
    """

    def __init__(self, envs, num_steps, one_hot):
        self.envs, self.one_hot = envs, one_hot
        self.random = np.random.default_rng(0)
        n_envs, n_agents = envs.num_envs, len(envs.action_space)
        self.n_actions = [space.n for space in envs.action_space]
        shape = (num_steps + 1, n_envs, n_agents)
        self.obs = np.zeros((*shape, envs.observation_space[0].shape[0]), np.float32)
        self.share_obs = np.zeros((*shape, envs.share_observation_space[0].shape[0]), np.float32)
        self.available_actions = np.zeros((*shape, max(self.n_actions)), np.float32)
        self.masks = np.ones((*shape, 1), np.float32)
        self.actions = np.zeros((num_steps, n_envs, n_agents, 1), np.int64)
        self.rewards = np.zeros((num_steps, n_envs, n_agents, 1), np.float32)
        self.weights = [self.random.normal(0.0, 0.1, (self.obs.shape[-1], number)) for number in self.n_actions]
        self.episodes = []

    def act(self, step):
        for agent, (weights, number) in enumerate(zip(self.weights, self.n_actions, strict=True)):
            logits = self.obs[step, :, agent] @ weights
            logits[self.available_actions[step, :, agent, :number] == 0] = -np.inf
            probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            chosen = (probabilities.cumsum(axis=1) < self.random.random((len(logits), 1))).sum(axis=1)
            self.actions[step, :, agent, 0] = chosen
        actions = self.actions[step, ..., 0]
        if not self.one_hot:
            return actions
        return [[np.eye(n)[a] for n, a in zip(self.n_actions, row, strict=True)] for row in actions]

    def insert(self, step, obs, infos):
        self.obs[step] = obs
        for env, env_infos in enumerate(infos):
            for agent, info in enumerate(env_infos):
                self.share_obs[step, env, agent] = info["share_obs"]
                self.available_actions[step, env, agent, : self.n_actions[agent]] = info["available_actions"]

    def collect(self):
        self.insert(0, self.envs.reset(), self.envs.infos)
        for step in range(len(self.rewards)):
            obs, rewards, dones, infos = self.envs.step(self.act(step))
            self.rewards[step] = rewards
            self.masks[step + 1] = 1.0 - dones[..., None]
            self.insert(step + 1, obs, infos)
            ended = [env_infos[0] for env_infos, done in zip(infos, dones, strict=True) if done.all()]
            self.episodes += [(info["customers_served"], info["time_step"]) for info in ended]
        return self

    def returns(self, gamma=0.99):
        values = np.zeros_like(self.rewards)
        carried = np.zeros_like(self.rewards[0])
        for step in reversed(range(len(self.rewards))):
            carried = self.rewards[step] + gamma * self.masks[step + 1] * carried
            values[step] = carried
        return values


@pytest.fixture(scope="module")
def dummy():
    return Collector(VRPDummyVecEnv(makers()), NUM_STEPS, one_hot=True).collect()


@pytest.fixture(scope="module")
def in_processes():
    """What is collected in processes, and whether they were left behind."""
    envs = VRPSubprocVecEnv(makers())
    try:
        collector = Collector(envs, NUM_STEPS, one_hot=False).collect()
        alive = len(multiprocessing.active_children())
    finally:
        envs.close()
    return collector, alive, multiprocessing.active_children()


def test_a_learner_in_numpy_collects_on_it(dummy):
    assert dummy.obs.shape == (NUM_STEPS + 1, NUM_ENVS, NUM_AGENTS, dummy.envs.observation_space[1].shape[0])
    assert dummy.returns().shape == (NUM_STEPS, NUM_ENVS, NUM_AGENTS, 1)
    assert np.isfinite(dummy.returns()).all()
    assert len(dummy.episodes) >= NUM_ENVS * (NUM_STEPS // SIZES["max_steps"])
    assert (dummy.masks == 0).all(axis=(2, 3)).sum() == len(dummy.episodes)
    assert all(0 < length <= SIZES["max_steps"] for _, length in dummy.episodes)


def test_masked_actions_are_all_legal(dummy):
    assert max(info["invalid_actions"] for infos in dummy.envs.infos for info in infos) == 0


@pytest.mark.slow
def test_processes_play_the_same_bit_for_bit(dummy, in_processes):
    collector, alive, left = in_processes
    assert (alive, left) == (NUM_ENVS, [])
    for name in ("obs", "share_obs", "available_actions", "actions", "rewards", "masks"):
        np.testing.assert_array_equal(getattr(collector, name), getattr(dummy, name))
    assert collector.episodes == dummy.episodes


def test_after_an_end_everything_is_of_the_new_episode(dummy):
    """Twins are told to begin again by hand, at the same places."""
    twins = [make() for make in makers()]
    size = dummy.obs.shape[-1]
    seen = [twin.reset() for twin in twins]
    ends, changes = 0, 0
    for step in range(NUM_STEPS):
        for env, twin in enumerate(twins):
            seen[env], _, done_n, _ = twin.step(dummy.actions[step, env, :, 0])
            if all(done_n):
                last = [info["available_actions"] for info in twin.infos]
                seen[env] = twin.reset()
                ends += 1
                changes += any(
                    not np.array_equal(a, b["available_actions"]) for a, b in zip(last, twin.infos, strict=True)
                )
                assert dummy.masks[step + 1, env].max() == 0
            for agent, info in enumerate(twin.infos):
                np.testing.assert_array_equal(
                    dummy.obs[step + 1, env, agent], np.pad(seen[env][agent], (0, size - seen[env][agent].size))
                )
                np.testing.assert_array_equal(dummy.share_obs[step + 1, env, agent], info["share_obs"])
                mask = info["available_actions"]
                np.testing.assert_array_equal(dummy.available_actions[step + 1, env, agent, : mask.size], mask)
    assert ends == len(dummy.episodes)
    assert changes


def test_the_last_observation_of_an_episode_is_kept():
    envs, twin = VRPDummyVecEnv(makers(1)), makers(1)[0]()
    begun, _ = envs.reset(), twin.reset()
    done = False
    while not done:
        obs, _, dones, infos = envs.step([[0, 0, 0]])
        last, _, _, twin_infos = twin.step([0, 0, 0])
        done = dones.all()
    for agent, info in enumerate(infos[0]):
        np.testing.assert_array_equal(info["final_observation"][: last[agent].size], last[agent])
        assert info["final_observation"].shape == obs.shape[2:]
        np.testing.assert_array_equal(info["final_share_obs"], twin_infos[agent]["share_obs"])
        assert not np.array_equal(info["share_obs"], info["final_share_obs"])
        assert info["time_step"] == SIZES["max_steps"]
    assert not np.array_equal(obs, begun)
    assert "final_observation" not in envs.step([[0, 0, 0]])[3][0][0]
    envs.close()


def test_the_wrong_number_of_actions_is_named(dummy):
    with pytest.raises(ValueError, match="actions for 1 environments; it needs actions for each of 2"):
        dummy.envs.step([[0, 0, 0]])
    with pytest.raises(ValueError, match="step got None; it needs actions for each of 2"):
        dummy.envs.step(None)


def test_a_wrong_action_is_refused_before_any_environment_steps():
    envs = VRPDummyVecEnv(makers())
    envs.reset()
    for actions in ([0, 0, "a"], [0, 0, np.zeros(4)], None):
        with pytest.raises(ValueError, match=r"environment 1\b"):
            envs.step([[0, 0, 0], actions])
    assert [infos[0]["time_step"] for infos in envs.step([[0, 0, 0]] * 2)[3]] == [1, 1]


@pytest.mark.parametrize("kind", [VRPDummyVecEnv, VRPSubprocVecEnv])
def test_no_environment_is_a_mistake(kind):
    with pytest.raises(ValueError, match="env_fns is empty"):
        kind([])


def test_environments_of_different_sizes_are_a_mistake():
    with pytest.raises(ValueError, match="different agents or spaces"):
        VRPDummyVecEnv([*makers(1), lambda: VRPEnv({**SIZES, "num_drones": 1})])


@pytest.mark.parametrize("kind", [VRPDummyVecEnv, VRPSubprocVecEnv])
def test_environments_in_the_place_of_functions_are_a_mistake(kind):
    for given in (None, makers(1)[0], [None], [VRPEnv(SIZES)]):
        with pytest.raises(TypeError, match=r"^env_fns is .*; it must be a list of functions, each of which makes an"):
            kind(given)


def test_functions_of_other_environments_are_a_mistake(env):
    with pytest.raises(TypeError, match=r"returned TruckDroneBasic.*; it must return an environment of the list API"):
        VRPDummyVecEnv([lambda: env])


class Fragile:
    """An environment of the list API that breaks on command."""

    def __init__(self):
        space = VRPEnv(SIZES).observation_space[1]
        self.observation_space = self.share_observation_space = [space]
        self.action_space = [Discrete(3)]
        self.infos = [{"share_obs": np.zeros(1)}]

    def reset(self):
        return [np.zeros(3, np.float32)]

    def step(self, actions):
        if actions[0] == 1:
            raise OSError("the road is gone")
        if actions[0] == 2:
            time.sleep(600)
        return self.reset(), [[0.0]], [False], self.infos

    def close(self):
        pass


@pytest.fixture
def fragile():
    envs = VRPSubprocVecEnv([Fragile, Fragile])
    yield envs
    envs.close()
    assert not multiprocessing.active_children()


def test_what_an_environment_raises_is_reported_with_its_traceback_and_ends_all(fragile, monkeypatch):
    monkeypatch.setattr("jaxvrp.adapters.multi_agent.vector.PATIENCE", 0.2)
    assert fragile.reset().shape[:2] == (2, 1)
    traceback = r"(?s)worker 0 failed in 'step':\nTraceback.*in step\n.*OSError: the road is gone"
    with pytest.raises(ValueError, match="action of agent 0 of environment 1 is 'a'"):
        fragile.step([[1], ["a"]])
    assert len(multiprocessing.active_children()) == 2
    with pytest.raises(RuntimeError, match=traceback):
        fragile.step([[1], [2]])
    assert not multiprocessing.active_children()
    with pytest.raises(RuntimeError, match="after the environments were closed"):
        fragile.step([[0], [0]])
    fragile.close()


@pytest.mark.slow
def test_the_death_of_a_process_is_reported_and_ends_the_others(fragile):
    dead, *_ = sorted(multiprocessing.active_children(), key=lambda process: process.name)
    os.kill(dead.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker 0 died in 'reset' with exit code -9"):
        fragile.reset()
    assert not multiprocessing.active_children()


def _unmakeable():
    raise ValueError("no such map")


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_is_reported():
    with pytest.raises(RuntimeError, match=r"(?s)worker 0 failed in 'spaces':\nTraceback.*ValueError: no such map"):
        VRPSubprocVecEnv([_unmakeable])
    assert not multiprocessing.active_children()
