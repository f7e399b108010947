"""A run folder plays without what only its training needed."""

import pytest

from jaxvrp.io.command_line import UserError
from train.algorithms import make_train
from train.commands.launch import RecordedRun
from train.on_policy.config import PPOConfig
from train.run.folder import RunFolder, write_configuration

TINY = {
    "env": {"name": "truck_drone", "num_drones": 1, "num_customers": 2, "num_route_nodes": 3, "max_steps": 8},
    "num_envs": 4,
    "num_devices": 1,
    "rollout_length": 8,
    "num_minibatches": 1,
    "hidden_sizes": (8,),
}


def folder_of(config, tmp_path):
    write_configuration(tmp_path, RecordedRun(config, "mappo"))
    return tmp_path


def test_a_run_is_read_when_its_teacher_is_gone(tmp_path):
    config = PPOConfig(**TINY, imitate=str(tmp_path / "gone"), imitate_steps=64, imitate_coef=0.5)
    with pytest.raises((UserError, ValueError), match="gone"):
        make_train(config)
    player = RunFolder(folder_of(config, tmp_path)).player
    assert player.env.num_customers == 2
    assert player.config.imitate is None


def test_a_run_of_whole_episodes_plays_longer_ones(tmp_path):
    config = PPOConfig(**TINY, rollout="episodes", baseline="group", group_size=2)
    folder = folder_of(config, tmp_path)
    assert RunFolder(folder).player.config.rollout == "episodes"
    player = RunFolder(folder, {"max_steps": 20}).player
    assert player.env.max_steps == 20
    assert player.config.rollout == "continuing"


def test_what_is_changed_goes_before_what_evaluation_changes(tmp_path):
    folder = folder_of(PPOConfig(**TINY, eval_env={"max_steps": 9, "dt": 0.5}), tmp_path)
    player = RunFolder(folder, {"max_steps": 20}).player
    env = player.evaluation_env
    assert (env.max_steps, env.dt) == (20, 0.5)
