"""What the tests of the learners share: a tiny environment, tiny trainers, what they play, and a way onto the mesh."""

import dataclasses
import gc
import sys
from typing import Any

import jax
import numpy as np
import pytest
from flax import struct
from jax.sharding import PartitionSpec as P

import tests.taught_environment  # noqa: F401  (registers an environment of `config`, and imports the others)
from train import evaluate
from train.algorithms import make_train
from train.commands import entry, launch
from train.learning.sharding import make_mesh, shard
from train.on_policy.config import PPOConfig
from train.on_policy.value_norm import ValueNorm
from train.run import folder, loop
from train.run.evaluator import Evaluator, evaluation_function, recording_function
from train.shown import report

TOYS = {"errands": "toy_of_the_tests", "deliveries": "deliveries_of_the_tests", "taught": "taught_of_the_tests"}
"""Environments that learners are tried in: one with flat observations, one with entities, and this with a teacher."""


@pytest.fixture(scope="session", autouse=True)
def _process_of_the_tests_goes_on():
    """An interrupted command ends by an exception, and not its process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "leave", sys.exit)
        yield


@struct.dataclass
class Experience:
    """One rollout, the second of a run, so that it begins in the middle of episodes.

    Attributes:
        params: of the networks; noise.
        start, end: players before and after.
        key: what `Rollout.play` was given.
        recording: what it returned.
    """

    params: Any
    start: Any
    end: Any
    key: jax.Array
    recording: Any


@dataclasses.dataclass(frozen=True)
class Learner:
    """A trainer and its `Experience`."""

    trainer: Any
    played: Experience


@pytest.fixture(scope="session")
def on_mesh():
    """`on_mesh(f)`: `f` jitted on a mesh of one device, where sums over devices may be taken."""
    mesh = make_mesh(1)
    return lambda function: jax.jit(shard(function, mesh, P(), P()))


@pytest.fixture(scope="session")
def config():
    """`config(toy="errands", cut=False, **changes)`: a tiny configuration; the toys are `TOYS`, and `cut` is theirs."""

    def build(toy="errands", cut=False, **changes):
        tiny = {"num_envs": 4, "num_devices": 1, "rollout_length": 12, "chunk_length": 4, "hidden_sizes": (8,)}
        tiny |= {"recurrent_size": 6, "num_epochs": 1, "num_minibatches": 2, "total_steps": 96, "eval_episodes": 4}
        tiny |= {"attention_size": 8, "attention_heads": 2}
        tiny["env"] = {"name": TOYS[toy], "cut": cut}
        return PPOConfig(**{**tiny, **changes})

    return build


@pytest.fixture(scope="session")
def learner(config, on_mesh):
    """`learner(**changes)`: a `Learner`, made once per configuration."""
    made = {}

    def make(**changes):
        name = repr(sorted(changes.items(), key=str))
        if name not in made:
            made[name] = _play(make_train(config(**changes)), on_mesh)
        return made[name]

    return make


@pytest.fixture(scope="module")
def programs_once():
    """In the commands that tests call, runs of one configuration share a learner and the programs that play it.

    What the programs compute is computed every time.
    """
    learners, programs = {}, {}

    def remembered(make):
        def make_once(config, made=None, **how):
            name = (make, repr(config))
            if name not in learners:
                learners[name] = make(config, made, **how)
            return learners[name]

        return make_once

    def once(function):
        def make_once(*players, **how):
            *learner, evaluator = players
            of = (evaluator.num_episodes, evaluator.seed, repr(sorted(how.items())))
            name = (function, *map(id, learner), type(evaluator.env), repr(evaluator.env), *of)
            if name not in programs:
                programs[name] = learner, function(*players, **how)  # a learner that is kept keeps its id
            return programs[name][1]

        return make_once

    with pytest.MonkeyPatch.context() as patch:
        for module in (launch, folder):
            patch.setattr(module, "make_train", remembered(make_train))
        for module in (loop, evaluate):
            patch.setattr(module, "evaluation_function", once(evaluation_function))
        for module in (report, evaluate):
            patch.setattr(module, "recording_function", once(recording_function))
        patch.setattr(Evaluator, "baseline_programs", once(Evaluator.baseline_programs))
        yield


@pytest.fixture(scope="module")
def collect_quickly():
    """`gc.collect` looks only at what is made from now on: where much was compiled before, all takes it a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def fresh_norm():
    """Statistics that have seen nothing, for both roles."""
    return {"truck": ValueNorm.create(), "drone": ValueNorm.create()}


def _play(trainer, on_mesh):
    def body(params, key):
        def play(start, key):
            end, recording = trainer.rollout.play(params, start, key)
            return end, Experience(params, start, end, key, recording)

        reset_key, key = jax.random.split(key)
        _, both = jax.lax.scan(play, trainer.rollout.reset(reset_key), jax.random.split(key))
        return jax.tree.map(lambda leaf: leaf[1], both)

    key = jax.random.key(7)
    return Learner(trainer, on_mesh(body)(_noise(jax.eval_shape(trainer.init, key).params), key))


def _noise(shapes):
    """Parameters of the given shapes: no policy is nearly uniform, no scale is 1 and no bias 0."""
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        center = 1.0 if path[-1].key == "scale" else 0.0
        return rng.normal(center, 0.4, leaf.shape).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)
