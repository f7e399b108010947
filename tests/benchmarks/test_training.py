"""The training benchmark in small: what it writes and says. No figure is judged."""

import json

import jax
import numpy as np
import pytest

from benchmarks import training
from train.algorithms import make_train
from train.on_policy.config import PPOConfig

TINY = {"num_envs": 8, "rollout_length": 4, "chunk_length": 2, "num_epochs": 1, "num_minibatches": 2}
TINY |= {"hidden_sizes": (8,), "recurrent_size": 4}
WORDS = "--num_envs 8 --rollout_length 4 --chunk_length 2 --num_epochs 1 --num_minibatches 2 --hidden_sizes [8]"
"""As typed."""


@pytest.fixture(scope="module")
def printed_and_written(tmp_path_factory):
    """One small row, through the command line."""
    out = tmp_path_factory.mktemp("training") / "a.json"
    row = "--networks mlp --sizes 1,2,3 --log_interval 2 --repeats 3 --seconds 0.001 --recurrent_size 4"
    with pytest.MonkeyPatch.context() as patch:
        lines = []
        patch.setattr("builtins.print", lines.append)
        training.main([*WORDS.split(), *row.split(), "--out", str(out)])
    return lines, json.loads(out.read_text())


@pytest.mark.slow
def test_result_is_complete(printed_and_written):
    _, content = printed_and_written
    assert set(content) == {"machine", "protocol", "rows"}
    assert [row["network"] for row in content["rows"]] == ["mlp"]
    for row in content["rows"]:
        assert row["size"] == [1, 2, 3]
        assert row["config"]["num_envs"] == 8
        assert row["config"]["env"]["num_customers"] == 2
        assert row["updates_per_repeat"] % 2 == 0
        assert [len(values) for values in row["seconds_per_chunk"].values()] == [3, 3]


@pytest.mark.slow
def test_figures_follow_from_the_times(printed_and_written):
    _, content = printed_and_written
    for row in content["rows"]:
        seconds = {name: np.array(values) for name, values in row["seconds_per_chunk"].items()}
        np.testing.assert_allclose(row["steps_per_second"], 2 * 8 * 4 / seconds["chunk"])
        assert row["rollout_share"] == pytest.approx(np.median(seconds["rollout"] / seconds["chunk"]))
        assert row["rollout_share"] + row["update_share"] == pytest.approx(1.0)


@pytest.mark.slow
def test_table_is_aligned_and_names_the_settings(printed_and_written):
    printed, content = printed_and_written
    assert training.table(content["rows"]) in printed[0]
    row = content["rows"][0]
    longer = {**row, "network": "gru", "settings": training.settings(PPOConfig(**TINY, network="gru"))}
    lines = training.table([row, longer]).splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert lines[2].endswith("8 envs x 4 steps, 1 epochs x 2 minibatches, 8 relu, layer norm on")
    assert lines[3].endswith("layer norm on, gru 4, chunks of 2")


@pytest.mark.slow("gru")
@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_rollout_alone_plays_what_the_update_would_read(network):
    trainer = make_train(PPOConfig(**TINY, network=network, num_seeds=3))
    state = jax.eval_shape(trainer.init, jax.eval_shape(lambda: jax.random.key(0)))
    played = jax.eval_shape(training.rollout_alone(trainer), state)
    players, recording = played
    chunks = (1, 4) if network == "mlp" else (2, 2)
    assert recording.transitions.reward["drone"].shape == (3, *chunks, 8, 2)
    assert recording.statistics["episodes"].shape == (3,)
    assert jax.tree.map(lambda leaf: leaf.shape, players) == jax.tree.map(lambda leaf: leaf.shape, state.players)


@pytest.mark.slow
def test_td3_learns_from_its_first_chunk_on(tmp_path):
    out = tmp_path / "td3.json"
    keys = "num_envs=4 rollout_length=2 hidden_sizes=[8] batch_size=8 gradient_steps=2 buffer_size=400 log_interval=1"
    board = "num_boards=2 max_parts=3 rays=1 max_steps=4"
    words = [*(f"--{key}" for key in keys.split()), *(f"--env.{key}" for key in board.split())]
    training.main([*words, "--learners", "td3", "--repeats", "1", "--seconds", "0.001", "--out", str(out)])
    (row,) = json.loads(out.read_text())["rows"]
    assert (row["network"], row["size"]) == ("td3", [3, 1])
    assert row["settings"].startswith("4 envs x 2 steps, 2 gradient steps of 8 decisions, 8 relu, layer norm on")
    assert (row["config"]["random_steps"], row["config"]["target_exploration_steps"]) == (0, 0)
    assert row["steps_per_second"] == [4 * 2 / row["seconds_per_chunk"]["chunk"][0]]


def test_settings_name_several_seeds():
    assert training.settings(PPOConfig(num_seeds=3, layer_norm=False)).endswith("layer norm off, 3 seeds")
