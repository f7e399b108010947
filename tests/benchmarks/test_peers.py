"""`benchmarks.peers`: both sides in turn, what is not installed or fails is a line, and all really play and learn."""

import argparse
import contextlib
import dataclasses
import json
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.peers import __main__ as peers
from benchmarks.peers import curves, learners, players, scripts, training
from benchmarks.peers.learners import COMPARISONS, SIDES, Comparison, Update
from benchmarks.peers.players import PAIRS, PLAYERS, Pair, Player
from jaxvrp.io.command_line import UserError
from train.settings.config_file import read_config_file


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
    assert {name for pair in PAIRS for name in (pair.player, pair.peer)} == set(PLAYERS)


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


SCRIPT = '''
"""As JaxMARL's scripts are: settings by Hydra, a log of every update."""
import hydra
import jax
import jax.numpy as jnp
from omegaconf import OmegaConf
import wandb
import jaxmarl


def make_train(config):
    config["NUM_UPDATES"] = config["TOTAL_TIMESTEPS"] // config["NUM_STEPS"] // config["NUM_ENVS"]

    def train(key):
        def update(carry, number):
            returned = (number + jax.random.key_data(key)[-1]) * 2.0
            jax.experimental.io_callback(lambda metric: wandb.log(metric), None, {"returns": returned})
            return carry, None

        return jax.lax.scan(update, 0, jnp.arange(config["NUM_UPDATES"]))

    return train


@hydra.main(version_base=None, config_path="config", config_name="script")
def main(config):
    raise AssertionError("not called")
'''

SETTINGS = """
"LR": 5e-4
"NUM_ENVS": 4
"NUM_STEPS": 8
"TOTAL_TIMESTEPS": 1e7
"UPDATE_EPOCHS": 3
"NUM_MINIBATCHES": 2
"GAMMA": 0.98
"GAE_LAMBDA": 0.9
"CLIP_EPS": 0.3
"ENT_COEF": 0.02
"MAX_GRAD_NORM": 0.25
"ACTIVATION": "tanh"
"ANNEAL_LR": True
"FC_DIM_SIZE": 16
"GRU_HIDDEN_DIM": 16
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder as a clone of JaxMARL is, with one script, which is compared in `COMPARISONS` alone."""
    folder = tmp_path / "baselines" / "IPPO"
    folder.mkdir(parents=True)
    (folder / "script.py").write_text(SCRIPT)
    (folder / "script.yaml").write_text(SETTINGS)
    env = {"name": "darp", "num_nodes": 2, "num_agents": 1}
    changes = {"GRU_HIDDEN_DIM": 8}
    comparison = Comparison("a problem", "IPPO, GRU", env, "IPPO/script.py", "IPPO/script.yaml", 5, changes, counted=2)
    monkeypatch.setattr(training, "COMPARISONS", (comparison,))
    monkeypatch.setattr(peers, "COMPARISONS", (comparison,))
    monkeypatch.setitem(sys.modules, "jaxmarl", SimpleNamespace(make=None))
    return tmp_path


def test_a_script_trains_as_it_is_published(clone):
    (comparison,) = training.COMPARISONS
    train = learners.by_jaxmarl(comparison, clone)
    for seed in (3, 4):
        updates = train(seed)
        assert [update.returned for update in updates] == [seed + number for number in range(5)]  # half of the log's
        assert sorted(update.wall for update in updates) == [update.wall for update in updates]


def test_the_environment_of_the_main_job_is_that_of_its_configuration():
    settings = read_config_file("truck_drone_basic")
    assert {key: value for key, value in settings.items() if key.startswith("env.")} == {
        f"env.{name}": value for name, value in learners.MAIN_JOB.items()
    }


def test_a_script_for_smax_trains_on_another_environment(clone):
    (clone / "baselines" / "smax.py").write_text("HeuristicEnemySMAX = map_name_to_scenario = None\n")
    module = scripts.loaded(clone, "smax.py", print, env := SimpleNamespace())
    assert module.HeuristicEnemySMAX(scenario=module.map_name_to_scenario("3m"), walls_cause_death=True) is env


@pytest.mark.slow
def test_our_learner_has_the_settings_of_the_script(clone):
    (comparison,) = training.COMPARISONS
    settings = comparison.published(clone)
    config = learners.config_of(comparison, settings, normalised=False)
    assert settings["TOTAL_TIMESTEPS"] == config.total_steps == 5 * 4 * 8
    assert (config.num_envs, config.rollout_length, config.sequence_length, config.num_updates) == (4, 8, 8, 5)
    assert (config.num_epochs, config.num_minibatches, config.critic) == (3, 2, "local")
    assert (config.actor_lr, config.critic_lr, config.lr_decay) == (5e-4, 5e-4, True)
    assert (config.gamma, config.gae_lambda, config.clip_eps, config.entropy_coef) == (0.98, 0.9, 0.3, 0.02)
    assert (config.max_grad_norm, config.activation, config.layer_norm) == (0.25, "relu", False)
    assert (config.hidden_sizes, config.recurrent_size, config.value_norm) == ((16, 8), 8, False)
    updates = learners.by_jaxvrp(comparison, clone)(0)
    assert len(updates) == 5 and all(update.returned < 0 for update in updates[1:])


def test_a_training_is_told_by_its_curve_and_speed():
    updates = [Update(float(number), 10.0 + 2 * number, 5.0 + number) for number in range(101)]
    run = training.run_of(updates, steps=8)
    assert len(run["curve"]) == training.POINTS
    assert run["curve"][0] == [4 * 8, 2.0]  # the mean of updates 1 to 3, after the fourth
    assert run["curve"][-1][0] == 101 * 8
    assert run["final"] == np.mean(range(91, 101))
    assert (run["steps_per_second"], run["steps_per_cpu_second"]) == (4.0, 8.0)


class Talk:
    """Two agents of other spaces, who are paid for what they see."""

    agents = ("speaker", "listener")

    def observation_space(self, agent):
        return SimpleNamespace(shape=(1,) if agent == "speaker" else (3,))

    def action_space(self, agent):
        return SimpleNamespace(n=2 if agent == "speaker" else 5)

    def reset(self, key):
        return {"speaker": jnp.ones(1), "listener": jnp.ones(3)}, 0

    def step(self, key, state, action):
        seen, _ = self.reset(key)
        return seen, state + action["listener"], {agent: 1.0 for agent in self.agents}, False, {}


def test_agents_with_other_spaces_are_filled_up(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxmarl", SimpleNamespace(make=lambda name: Talk()))
    env = scripts._made("any")
    assert {env.observation_space(agent).shape for agent in env.agents} == {(3,)}
    assert {env.action_space(agent).n for agent in env.agents} == {5}
    seen, state = env.reset(jax.random.key(0))
    assert seen["speaker"].tolist() == [1, 0, 0]
    seen, state, *_ = env.step(jax.random.key(0), state, {"speaker": jnp.array([1]), "listener": jnp.array([2])})
    assert state == 2 and seen["listener"].tolist() == [1, 1, 1]


@pytest.fixture
def processes(monkeypatch):
    """Learners that answer at once; the log of who trained which seed."""
    log = []

    class Answering:
        compile_seconds = 7.0

        def __init__(self, side):
            self.side = side

        def trained(self, seed):
            log.append((self.side, seed))
            if self.side == "broken":
                raise RuntimeError("out of luck")
            speed = {"ours": 300.0, "JaxMARL's": 200.0}[self.side] + seed
            speeds = {"steps_per_cpu_second": speed, "steps_per_second": 2 * speed}
            return {"curve": [[8, 1.0], [16, 2.0 + seed]], "final": 2.0 + seed, **speeds}

    monkeypatch.setattr(training, "served", lambda side, *rest: contextlib.nullcontext(Answering(side)))
    return log


def test_the_learners_take_turns_seed_by_seed(clone, processes, tmp_path, capsys):
    words = ["--parts", "training", "--jaxmarl", str(clone), "--cores", "1", "--seeds", "2"]
    peers.main([*words, "--out", str(tmp_path / "result.json")])
    assert processes == [("ours", 0), ("JaxMARL's", 0), ("ours", 1), ("JaxMARL's", 1)]
    result = json.loads((tmp_path / "result.json").read_text())
    jaxvrp_row, jaxmarl_row = training.table(result["training"])[1:]
    assert jaxvrp_row[4:] == ["ours", "2.50 (2.00 to 3.00)", "2.50", "300", "300 - 301", "1.50", "7 CPU s"]
    assert jaxmarl_row[5:7] == ["2.50 (2.00 to 3.00)", "1.00"]  # two thirds of its steps, when ours has made all
    assert jaxmarl_row[-2] == "1.00"
    assert "160" in jaxvrp_row and "scripts of JaxMARL unknown" in capsys.readouterr().out
    curves.main([str(tmp_path / "result.json"), "--out", str(tmp_path / "curves.png")])
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_on_several_cores_the_clock_counts(clone, processes, tmp_path, capsys):
    words = ["--parts", "training", "--jaxmarl", str(clone), "--seeds", "2"]
    peers.main([*words, "--cores", "1", "2", "--out", str(tmp_path / "result.json")])
    head, *rows = training.table(json.loads((tmp_path / "result.json").read_text())["training"])
    assert head[7] == "steps/CPU s, steps/s"
    assert [row[2:3] + row[7:8] for row in rows[::2]] == [["1", "300"], ["2", "601"]]


def test_a_learner_that_fails_is_a_line(clone, processes, monkeypatch, capsys):
    (comparison,) = training.COMPARISONS
    broken = dataclasses.replace(comparison, sides=("broken",))
    monkeypatch.setattr(peers, "COMPARISONS", (broken,))
    peers.main(["--parts", "training", "--jaxmarl", str(clone), "--cores", "1"])
    assert "IPPO, GRU, a problem: out of luck" in capsys.readouterr().out


@pytest.mark.slow
def test_a_process_says_why_it_ended(clone):
    (comparison,) = training.COMPARISONS
    with (
        pytest.raises(RuntimeError, match="not enough values to unpack"),
        training.served("ours", comparison, 1, clone),
    ):
        pass


def test_comparisons_are_of_known_sides_and_have_names_of_their_own():
    assert {side for comparison in COMPARISONS for side in comparison.sides} == set(SIDES)
    assert len({comparison.name for comparison in COMPARISONS}) == len(COMPARISONS)


def test_every_environment_of_ours_to_learn_in_can_be_made():
    for comparison in COMPARISONS:
        assert jaxvrp.make(**comparison.env)


def test_smax_has_three_marines_for_our_learners():
    pytest.importorskip("jaxmarl", reason="JaxMARL is not installed; pip install -e '.[jaxmarl]'")
    assert learners.Smax().agents_of == {"ally": ["ally_0", "ally_1", "ally_2"]}


def test_the_command_line_writes_what_was_played(args, rates_of, monkeypatch, tmp_path, capsys):
    rates_of(darp=[3e6], **{"truck_drone small": [1e4]})
    monkeypatch.setattr(peers, "PAIRS", (Pair("darp", "truck_drone small", 1.5),))
    peers.main(["--cores", "1", "--repeats", "1", "--out", str(tmp_path / "result.json")])
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["pairs"][0]["steps_per_second"] == {"ours": [3e6], "peer": [1e4]} and "training" not in result
    assert "3 M" in capsys.readouterr().out


def test_systems_without_affinity_are_told(monkeypatch):
    monkeypatch.delattr(peers.os, "sched_setaffinity")
    with pytest.raises(UserError, match="run this benchmark on Linux"):
        peers.main([])
