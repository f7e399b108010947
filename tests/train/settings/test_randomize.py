"""Runs that draw parameters of their environment for each episode: from the command line, learning, resumed, played."""

import jax
import numpy as np
import pytest

from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic
from jaxvrp.io.command_line import UserError
from train.algorithms import make_train
from train.on_policy.config import PPOConfig
from train.run.evaluator import Evaluator
from train.run.folder import RunFolder, read_run, write_configuration
from train.run.resume import RecordedRun, check_same
from train.settings import command_line

TINY = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 2, "max_steps": 6}
RANGES = {"battery_rate": [0.3, 1.2]}
RUN = (
    "--num_envs 4 --num_devices 1 --rollout_length 8 --num_epochs 1 --num_minibatches 1 --eval_episodes 2 "
    "--total_steps 32 --eval_interval 1 --save_interval 1 --network attention --attention_size 4 --attention_heads 1 "
    "--hidden_sizes [4] --critic local --imitate greedy --imitate_steps 10"
)
WORDS = [*RUN.split(" "), *(f"--env.{name}={value}" for name, value in TINY.items())]


def parse(words):
    return command_line.parse(PPOConfig, words, prog="train.mappo", description="").config


def test_ranges_from_the_command_line_and_from_a_file(tmp_path):
    file = tmp_path / "given.yaml"
    file.write_text("randomize: {battery_rate: [0.3, 1.2], dt: [0.1, 0.2]}\n")
    assert parse(["--randomize.battery_rate", "[0.3, 1.2]"]).randomize == RANGES
    both = parse(["--config", str(file), "--randomize.dt=[1, 2]"]).randomize
    assert both == {**RANGES, "dt": [1, 2]}
    assert parse([]).randomize == {}
    moving = parse(["--config", str(file), "--randomize_from.dt=[0.1, 0.1]", "--randomize_steps", "5"])
    assert (moving.randomize_from, moving.randomize_steps) == ({"dt": [0.1, 0.1]}, 5)
    file.write_text("randomize:\n")
    assert parse(["--config", str(file)]).randomize == {}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("--randomize.batery_rate=[0, 1]", "unknown key 'randomize.batery_rate'; did you mean 'randomize.battery_rate"),
        ("--randomise.dt=[0, 1]", "unknown key 'randomise.dt'; did you mean 'randomize.dt'"),
        ("--randomize.dt=[0, 1]", "randomize.dt is 0.0; it must be > 0"),
        (
            "--randomize.dt=0.1",
            r"randomize.dt is 0.1; it must be two finite numbers in order, for example \[0.5, 1.5\]",
        ),
        ("--randomize.observation=[0, 1]", "randomize.observation cannot be drawn: it is no number"),
        ("--randomize_from.dt=[1, 2]", "randomize_from.dt is a range to begin with, and randomize.dt, where it ends"),
        ("--randomize_from.d=[1, 2]", "unknown key 'randomize_from.d'; did you mean 'randomize_from.dt'"),
        ("--randomize=[0, 1]", "unknown key 'randomize'"),
    ],
)
def test_mistakes_are_one_line(word, says):
    with pytest.raises(UserError, match=f"^{says}"):
        parse([word])


def test_a_file_that_gives_no_mapping_is_one_line(tmp_path):
    (tmp_path / "given.yaml").write_text("randomize: [0, 1]\n")
    with pytest.raises(UserError, match=r"randomize is \[0, 1\]; it must be a mapping, for example 'randomize: \{dt:"):
        parse(["--config", str(tmp_path / "given.yaml")])


@pytest.mark.slow
def test_it_learns_with_attention_from_a_teacher_who_knows_what_was_drawn():
    words = ["--randomize.battery_rate=[0.3, 1.2]", "--randomize_from.battery_rate=[0.3, 0.4]", "--randomize_steps=64"]
    trainer = make_train(parse([*WORDS, *words]))
    state = trainer.init(jax.random.key(0))
    drawn = np.asarray(state.players.vec.env.drawn["battery_rate"])
    assert len(set(drawn.tolist())) == 4
    assert drawn.max() <= np.float32(0.4)
    before = jax.device_get(trainer.actor_params(state))
    state, metrics = trainer.train_chunk(state)
    assert all(np.isfinite(values).all() for name, values in metrics.items() if not name.startswith("episode/"))
    assert state.players.vec.memory == ((), 8)
    assert trainer.env.memory.apply(state.players.vec.memory).progress == 0.5
    after = trainer.actor_params(state)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    assert not all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True))


def test_it_is_evaluated_in_the_environment_itself():
    trainer = make_train(parse([*WORDS, "--randomize.battery_rate=[0.3, 1.2]", "--eval_env.battery_rate=0.9"]))
    env = trainer.evaluation_env
    assert env == trainer.env.base.replace(battery_rate=0.9)
    assert trainer.actor(None, deterministic=True).env == env


@pytest.mark.slow
def test_its_folder_says_so_and_plays_any_environment(tmp_path):
    run = RecordedRun(parse([*WORDS, "--randomize.battery_rate=[0.3, 1.2]"]), "mappo")
    write_configuration(tmp_path, run)
    assert read_run(tmp_path) == run
    check_same(run, run.values, tmp_path)
    with pytest.raises(UserError, match=r"randomize.battery_rate is \[0.3, 1.2\], in the checkpoint not there"):
        check_same(run, {**run.values, "randomize": {}}, tmp_path)
    for changes in ({}, {"num_customers": 3}):
        player = RunFolder(tmp_path, changes).player
        assert type(player.env) is TruckDroneBasic
        assert player.env.num_customers == changes.get("num_customers", 2)


SIZES = "--env.name=darp --env.num_nodes=4 --env.num_agents=2 --num_envs=4 --num_devices=1 --rollout=episodes "
SIZES += "--rollout_length=12 --total_steps=48 --num_epochs=1 --num_minibatches=1 --critic=local"
SIZES = [*SIZES.split(), "--randomize.num_nodes=[4,8]", "--randomize.num_agents=[1,3]"]
ATTENTION = ["--network=attention", "--attention_size=4", "--attention_heads=1"]


def test_sizes_beyond_the_environments_own_are_of_training_alone():
    trainer = make_train(parse([*ATTENTION, *SIZES]))
    sizes = trainer.env.base.num_nodes, trainer.env.base.num_agents
    assert sizes == (8, 3)
    env = trainer.evaluation_env
    assert (env.num_nodes, env.num_agents) == (4, 2)
    state = trainer.init(jax.random.key(0))
    requests = np.asarray((state.players.vec.env.base.instance.demand > 0).sum(axis=1))
    assert (requests <= 4).all()
    assert (requests >= 2).all()
    evaluator = Evaluator(env, 4, 5)
    figures = jax.jit(lambda params: evaluator.play(trainer.actor(params, deterministic=True)))(
        trainer.actor_params(state)
    )
    assert 2 <= figures["length"] <= 6


@pytest.mark.slow
def test_whole_episodes_of_drawn_sizes_teach():
    trainer = make_train(parse([*ATTENTION, *SIZES, "--imitate=search", "--imitate_steps=48", "--baseline=group"]))
    state = trainer.init(jax.random.key(0))
    after, metrics = trainer.train_chunk(state)
    assert all(np.isfinite(values).all() for values in metrics.values())
    before, learned = trainer.actor_params(state), trainer.actor_params(after)
    assert not all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (before, learned)), strict=True))


def test_networks_that_read_vectors_are_tied_to_the_environments_own_sizes():
    with pytest.raises(
        UserError, match=r"randomize.num_nodes is \[4, 8\], and instances are padded up to env.num_nodes"
    ):
        parse([*SIZES, "--network=mlp"])
