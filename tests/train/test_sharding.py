"""Several devices do what one does: the same gradients, one set of parameters, and across processes as well."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys

import chex
import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from train.algorithms import make_train
from train.learning.sharding import DATA, make_mesh, shard
from train.on_policy import ppo
from train.on_policy.config import PPOConfig
from train.on_policy.imitation import guidance_at
from train.on_policy.rollout import Recording
from train.run.checkpoint import Checkpoints

ROOT = pathlib.Path(__file__).parents[2]
TINY = {"num_envs": 8, "rollout_length": 12, "num_minibatches": 2, "hidden_sizes": (8,), "total_steps": 96 * 4}
ENV = {"name": "tests.toy_environments:Errands", "cut": True}
"""By its path, so that other processes find it."""

ATTENTION = {
    "env": {"name": "tests.toy_environments:Deliveries", "cut": True},
    "network": "attention",
    "attention_size": 8,
    "attention_heads": 2,
    "attention_encode": "step",
}

TAUGHT = {
    **ATTENTION,
    "env": {"name": "tests.taught_environment:TaughtDeliveries"},
    "attention_encode": "instance",
    "imitate": "nearest",
    "imitate_steps": 10**6,
    "actor_lr": 0.03,
}
"""Shared by the roles: an encoder, and a teacher."""

CHUNKS = 3


def trainer(num_devices, **overrides):
    return make_train(PPOConfig(**{"env": ENV, "num_devices": num_devices, **TINY, **overrides}))


@pytest.fixture(scope="module")
def trained_on_two():
    """A run on two devices: the winds of its first episodes, its last state, and the metrics of every chunk."""
    learner = trainer(2)
    state, metrics = learner.init(jax.random.key(0)), []
    winds = np.asarray(state.players.vec.env.errand.wind)
    for _ in range(CHUNKS):
        state, of_chunk = learner.train_chunk(state)
        metrics.append(jax.device_get(of_chunk))
    return winds, state, metrics


def gradients(learner, data):
    """Gradients and new value statistics of one big minibatch, from the same data on any number of devices."""

    def local(params, norm, recording):
        batch, norm, _ = ppo.prepare(learner.config, recording, norm)
        envs = jax.numpy.arange(batch.reset.shape[1])
        whole = ppo.take(batch, envs)
        guidance = guidance_at(learner.config, jax.numpy.int32(0))
        grads, metrics = jax.grad(learner.loss, has_aux=True)(params, whole, guidance)
        return jax.lax.psum((grads, metrics), DATA), norm

    # The table of static entities is that of one device, which its rows are counted in.
    parts = Recording(P(None, None, DATA), P(None, DATA), last_value=P(DATA), static=P(), statistics=P())
    function = shard(local, learner.mesh, (P(), P(), parts), P())
    return jax.jit(function)(*data)


@pytest.mark.parametrize(
    "overrides",
    [{}, {"network": "gru", "chunk_length": 6, "recurrent_size": 8}, ATTENTION],
    ids=["mlp", "gru", "attention"],
)
@pytest.mark.slow("gru", "attention")
def test_two_devices_give_the_gradients_of_one(overrides, learner, fresh_norm):
    """On what one device has played with parameters that are drawn at random: nothing of it is trained."""
    tiny = {"env": ENV, **TINY, **overrides}
    played = learner(**tiny).played
    data = jax.device_get((played.params, fresh_norm, played.recording))
    (grads, metrics), norm = gradients(learner(**tiny).trainer, data)
    (grads_2, metrics_2), norm_2 = gradients(trainer(2, **overrides), data)
    assert max(float(abs(leaf).max()) for leaf in jax.tree.leaves(grads)) > 1e-3
    chex.assert_trees_all_close(
        jax.device_get((grads, metrics, norm)), jax.device_get((grads_2, metrics_2, norm_2)), atol=1e-5
    )


@pytest.mark.slow
def test_devices_play_different_environments_with_the_same_parameters(trained_on_two):
    winds, state, metrics = trained_on_two
    assert len(np.unique(winds)) == TINY["num_envs"]
    first, second = np.split(np.asarray(state.players.vec.env.errand.wind), 2)
    assert not set(first) & set(second)
    for leaf in jax.tree.leaves((state.params, state.optimizer)):
        copies = [np.asarray(piece.data) for piece in leaf.addressable_shards]
        assert len(copies) == 2
        np.testing.assert_array_equal(*copies)
    assert np.isfinite(np.concatenate([np.ravel(m) for m in jax.tree.leaves(metrics)])).all()


def assert_read_as_played(metrics):
    """Before anything is learned, a policy is the one that played: all ratios are 1, if it is shown the same."""
    for role in ("truck", "drone"):
        np.testing.assert_allclose(metrics[f"{role}/ratio"], 1.0, atol=1e-5)
        np.testing.assert_allclose(metrics[f"{role}/approx_kl"], 0.0, atol=1e-6)
        assert np.min(metrics[f"{role}/grad_norm"]) > 1e-5


@pytest.mark.slow
def test_seeds_on_two_devices_imitate_and_go_on_to_the_last_bit(tmp_path):
    """The update on each device reads the entities that were played there."""
    intervals = {"log_interval": 12, "eval_interval": 12, "save_interval": 12, "lr_decay": False}
    learner = trainer(2, **TAUGHT, **intervals, num_seeds=2, num_epochs=1, num_minibatches=1)
    state, first = learner.train_chunk(learner.init(jax.random.key(0)))
    Checkpoints(tmp_path).save(1, state, None, {})
    state, last = learner.train_chunk(state)
    assert_read_as_played(first)
    assert_read_as_played(last)
    for role in ("truck", "drone"):
        loss = np.stack([first[f"{role}/teacher_loss"], last[f"{role}/teacher_loss"]]).reshape(2, 2, 12)
        assert (loss[1, :, -1] < 0.9 * loss[0, :, 0]).all(), "every seed comes closer to the teacher"
        assert np.min(last["shared_encoder/grad_norm"]) > 1e-5
    again, same = learner.train_chunk(Checkpoints(tmp_path).load(learner.init(jax.random.key(1))))
    chex.assert_trees_all_equal(jax.device_get(same), jax.device_get(last))
    chex.assert_trees_all_equal(jax.device_get(again.params), jax.device_get(state.params))
    seeds = [np.asarray(leaf) for leaf in jax.tree.leaves(state.params)]
    assert all((leaf[0] != leaf[1]).any() for leaf in seeds)


def test_too_many_devices_are_refused():
    with pytest.raises(ValueError, match="num_devices is 64, but there are 2"):
        make_mesh(64)


PROCESS = """
import pathlib
import sys
import jax, numpy as np
from train.on_policy.config import PPOConfig
from train.algorithms import make_train
from train.run.checkpoint import Checkpoints
from train.learning.sharding import initialize
initialize(sys.argv[1], 2, int(sys.argv[2]))
assert jax.process_count() == 2 and jax.device_count() == 2 and jax.local_device_count() == 1
learner = make_train(PPOConfig(env={env}, **{tiny}))
state = learner.init(jax.random.key(0))
for _ in range({chunks}):
    state, metrics = learner.train_chunk(state)
def local(state):
    leaves = [leaf for leaf in jax.tree.leaves(state) if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    return np.concatenate([np.asarray(leaf.addressable_data(0)).ravel() for leaf in leaves])
np.save(sys.argv[3], local(state.params))
for update, evaluated_return in ((1, 2.0), (2, 1.0), (3, 1.5)):
    Checkpoints(pathlib.Path(sys.argv[4])).save(update, state, evaluated_return, {{"seed": 0}})
saved = Checkpoints(pathlib.Path(sys.argv[4]))
assert (saved.best, saved.latest) == (1, 3)
np.testing.assert_array_equal(local(saved.load(learner.init(jax.random.key(1)))), local(state))
"""


@pytest.mark.slow
def test_two_processes_train_together_agree_and_save(trained_on_two, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    script = PROCESS.format(env=ENV, tiny=TINY, chunks=CHUNKS)
    env = {**os.environ, "JAX_NUM_CPU_DEVICES": "1"}
    files = [tmp_path / f"{i}.npy" for i in range(2)]
    words = [[address, str(i), str(files[i]), str(tmp_path / "checkpoints")] for i in range(2)]
    processes = [
        subprocess.Popen([sys.executable, "-c", script, *w], cwd=ROOT, env=env, stderr=subprocess.PIPE) for w in words
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    first, second = (np.load(file) for file in files)
    np.testing.assert_array_equal(first, second)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["1", "3"]
    _, state, _ = trained_on_two
    expected = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(state.params)])
    np.testing.assert_allclose(first, expected, atol=1e-6)
