"""`benchmarks.peers`: both sides in turn, what is not installed or fails is a line, and all really play and learn."""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers import __main__ as peers
from benchmarks.peers import jaxmarl_baselines as baselines
from benchmarks.peers import players
from benchmarks.peers.players import LEARNER_PAIRS, LEARNERS, PAIRS, PLAYERS, Pair, Player
from jaxvrp.io.command_line import UserError
from train.on_policy import ppo

SMALL = baselines.Settings(num_envs=8, rollout_length=5, width=16, num_updates=10)


@pytest.fixture
def args():
    return argparse.Namespace(batch=8, steps=4, seconds=0.1, repeats=3, cores=(1,))


@pytest.fixture
def rates_of(monkeypatch):
    """`rates_of(NAME=[...])`: processes give these figures, one after the other; the log of who was asked."""

    def install(**figures):
        log, given = [], {name: iter(values) for name, values in figures.items()}

        def process(name, cores, args):
            log.append((name, cores))
            return next(given[name])

        monkeypatch.setattr(peers, "measure_apart", process)
        return log

    return install


def test_the_sides_take_turns_and_medians_are_compared(args, rates_of, monkeypatch):
    monkeypatch.setitem(PLAYERS, "a", Player("A", "jaxvrp", 3, None))
    monkeypatch.setitem(PLAYERS, "b", Player("B", "jax", 1, None))
    log = rates_of(a=[30.0, 10.0, 20.0], b=[5.0, 4.0, 9.0])
    record = peers.measure_pair(Pair("a", "b", 2.0), 2, args)
    assert log == [("a", 2), ("b", 2)] * 3
    assert record["ratio"] == 4.0
    assert record["peer"]["version"] == jax.__version__
    line = peers.table([record]).splitlines()[-1].split()
    assert line[-3:] == ["4.00", "2", "12.00"]  # three decisions of ours against one


def test_a_suite_that_is_not_installed_is_a_line(args, rates_of, monkeypatch):
    monkeypatch.setitem(PLAYERS, "b", Player("B", "no-such-suite", 1, None))
    assert rates_of() == []
    record = peers.measure_pair(Pair("darp", "b", 2.0), 1, args)
    text = peers.table([record])
    assert "B, 1 cores: no-such-suite is not installed; pip install -e '.[peers]'" in text


def test_a_side_that_fails_is_a_line_with_its_last_words(args, rates_of, monkeypatch):
    monkeypatch.setitem(PLAYERS, "b", Player("B", "jax", 1, None))
    rates_of(darp=[1.0], b=["RuntimeError: out of luck"])
    record = peers.measure_pair(Pair("darp", "b", 2.0), 1, args)
    assert "B: RuntimeError: out of luck" in peers.table([record])


def test_all_pairs_are_of_known_players():
    assert {name for pair in PAIRS for name in (pair.ours, pair.peer)} == set(PLAYERS)
    assert {name for pair in LEARNER_PAIRS for name in (pair.ours, pair.peer)} == set(LEARNERS)


@pytest.mark.slow
def test_our_player_goes_on_where_it_was(monkeypatch):
    played = []
    step = players.jaxvrp.VecEnv.step

    def counted(self, state, action, *, refresh):
        jax.debug.callback(lambda cursor: played.append(int(cursor)), state.cursor)
        return step(self, state, action, refresh=refresh)

    monkeypatch.setattr(players.jaxvrp.VecEnv, "step", counted)
    run = PLAYERS["darp"].build(3, 3)  # not shared by two devices
    run()
    run()
    jax.effects_barrier()
    assert played == [0, 1, 2, 0, 1, 2]  # a fresh pool of instances in every call


def test_the_command_line_writes_all_parts(args, rates_of, monkeypatch, tmp_path, capsys):
    asked = []

    def process(name, cores, args):
        asked.append((name, args.batch, args.steps))
        return {"darp": 3e6, "our ippo": 8e4}.get(name, 1e4)

    monkeypatch.setattr(peers, "measure_apart", process)
    monkeypatch.setattr(peers, "PAIRS", (Pair("darp", "truck_drone small", 1.5),))
    monkeypatch.setattr(peers, "LEARNER_PAIRS", (Pair("our ippo", "darp", 1.2),))
    words = ["--cores", "1", "--repeats", "1", "--train_envs", "64"]
    peers.main([*words, "--out", str(tmp_path / "result.json")])
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["pairs"][0]["steps_per_second"] == {"ours": [3e6], "peer": [1e4]}
    assert result["training"][0]["steps_per_second"] == {"ours": [8e4], "peer": [3e6]}
    assert asked[2:] == [("our ippo", 64, 25), ("darp", 64, 25)]
    out = capsys.readouterr().out
    assert "3 M" in out
    assert "240 k" in out  # decisions of three agents


@pytest.mark.parametrize(("name", "critic"), [("our mappo", "central"), ("our ippo", "local")])
def test_our_learners_have_the_sizes_of_the_peers(monkeypatch, name, critic):
    monkeypatch.setattr("benchmarks.training.Learning", lambda config: argparse.Namespace(chunk=config))
    config = LEARNERS[name].build(8, 5)
    assert (config.critic, config.steps_per_update, config.sequence_length) == (critic, 40, 5)
    assert (config.num_epochs, config.num_minibatches, config.log_interval) == (4, 4, 1)
    assert config.recurrent_size == 64
    assert config.hidden_sizes == ((64, 64) if name == "our mappo" else (128, 128))


def test_the_advantages_of_the_baseline_are_ours():
    keys = jax.random.split(jax.random.key(0), 4)
    reward, value = (jax.random.normal(key, (7, 3)) for key in keys[:2])
    done, last_value = jax.random.bernoulli(keys[2], 0.3, (7, 3)), jax.random.normal(keys[3], (3,))
    next_value = jnp.concatenate([value[1:], last_value[None]])
    cut = jnp.zeros_like(done)
    expected = ppo.gae(reward, value, next_value, done, cut, gamma=0.99, gae_lambda=0.95)
    for unroll in (1, 8, 16):
        got = baselines.gae(reward, value, done, last_value, SMALL, unroll)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_the_losses_of_the_baseline_by_hand():
    # Normalised, the advantages are 1 and -1. Ratios 1.5 and 0.5 are clipped to 1.2 and 0.8: the worse of both counts.
    log_prob, advantage = jnp.log(jnp.array([1.5, 0.5])), jnp.array([3.0, 1.0])
    loss = baselines.policy_loss(log_prob, jnp.zeros(2), advantage, 0.2)
    np.testing.assert_allclose(loss, -(1.2 - 0.8) / 2, rtol=1e-5)
    # Not clipped: 0.5 against 2; clipped to 0.2 against 2, which is worse.
    error = baselines.value_loss(jnp.array([0.5]), jnp.array([0.0]), jnp.array([2.0]), 0.2)
    np.testing.assert_allclose(error, 0.5 * 1.8**2, rtol=1e-5)


def test_the_distribution_of_the_baseline_by_hand():
    logits = jnp.log(jnp.array([[0.25, 0.75]]))
    np.testing.assert_allclose(baselines.log_prob_of(logits, jnp.array([1])), [np.log(0.75)], rtol=1e-5)
    expected = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(baselines.entropy_of(logits), expected, rtol=1e-5)


def test_agents_are_joined_and_split_in_their_order():
    values = {"b": jnp.arange(2), "a": jnp.arange(2) + 10}
    rows = baselines.joined(values, ["a", "b"])
    assert rows.tolist() == [10, 11, 0, 1]
    assert baselines.split(rows, ["a", "b"])["b"].tolist() == [0, 1]


class Guess:
    """An environment with JaxMARL's face: two agents are paid for the action that they are shown; 3 steps."""

    agents = ("agent_0", "agent_1")

    def __init__(self):
        self.agents = list(Guess.agents)

    def action_space(self, agent):
        return argparse.Namespace(n=3)

    def _shown(self, key):
        wanted = jax.random.randint(key, (2,), 0, 3)
        return {agent: jax.nn.one_hot(wanted[i], 3) for i, agent in enumerate(self.agents)}, wanted

    def reset(self, key):
        seen, wanted = self._shown(key)
        return seen, (wanted, jnp.int32(0))

    def step(self, key, state, action):
        wanted, clock = state
        paid = {agent: jnp.float32(action[agent] == wanted[i]) for i, agent in enumerate(self.agents)}
        seen, wanted = self._shown(key)
        done = clock == 2
        return seen, (wanted, (clock + 1) % 3), paid, dict.fromkeys(self.agents, done), {"paid": sum(paid.values()) / 2}


@pytest.mark.parametrize("kind", [baselines.IPPO, baselines.MAPPO])
@pytest.mark.slow
def test_the_baselines_learn(kind):
    settings = baselines.Settings(num_envs=64, rollout_length=6, width=16, num_updates=40, learning_rate=1e-2)
    baseline = kind(settings, Guess())
    first = jax.jit(baseline.init)(jax.random.key(0))
    last, metrics = jax.jit(lambda runner: jax.lax.scan(lambda r, _: baseline.update(r), runner, length=40))(first)
    assert metrics["paid"][0] < 0.5
    assert metrics["paid"][-1] > 0.9
    assert jax.tree.map(jnp.shape, first) == jax.tree.map(jnp.shape, last)
    assert all(int(network.step) == 40 * 16 for network in last.networks)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [baselines.IPPO, baselines.MAPPO])
def test_an_update_on_the_peers_environment_changes_all_parameters(kind):
    pytest.importorskip("jaxmarl", reason="the extra is not installed: pip install -e '.[peers]'")
    baseline = baselines.make(kind, SMALL)
    before = jax.jit(baseline.init)(jax.random.PRNGKey(0))
    after, metrics = jax.jit(baseline.update)(before)
    assert jax.tree.map(jnp.shape, before) == jax.tree.map(jnp.shape, after)
    pairs = zip(jax.tree.leaves(before.networks), jax.tree.leaves(after.networks), strict=True)
    assert not any(np.array_equal(old, new) for old, new in pairs)
    assert all(np.isfinite(value) for value in metrics.values())
    widths = {leaf.shape[-1] for leaf in jax.tree.leaves(before.networks[0].params)}
    assert widths == {16, 5, *([1] if kind is baselines.IPPO else [])}


def test_systems_without_affinity_are_told(monkeypatch):
    monkeypatch.delattr(peers.os, "sched_setaffinity")
    with pytest.raises(UserError, match="run this benchmark on Linux"):
        peers.main([])
