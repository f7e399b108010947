"""The learners learn: from random play to serving nearly everybody, within seconds of training."""

from __future__ import annotations

import jax
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from train.algorithms import ALGORITHMS, make_train
from train.run.evaluator import Evaluator, baseline_actors, evaluation_function, to_host

ENV = {"name": "truck_drone", "num_drones": 1, "num_customers": 2, "num_route_nodes": 3, "max_steps": 60}
SETTINGS = {
    "num_envs": 64,
    "num_devices": 1,
    "rollout_length": 40,
    "num_minibatches": 2,
    "hidden_sizes": (32,),
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "log_interval": 40,
    "eval_interval": 40,
    "save_interval": 40,
    "total_steps": 64 * 40 * 40,
}


@pytest.fixture(scope="module")
def random_play():
    evaluator = Evaluator(jaxvrp.make(**ENV), 256, seed=99)
    return to_host(jax.jit(lambda: evaluator.play(RandomActor(evaluator.env)))())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("mappo", {}),
        # Sequences of 10 steps: they are unrolled, and those of 20 took half as long again to compile.
        pytest.param(
            "ippo",
            {"network": "gru", "recurrent_size": 32, "chunk_length": 10, "num_envs": 32, "total_steps": 51_200},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_training_beats_random_play_by_far(algorithm, changes, random_play):
    learner = make_train(ALGORITHMS[algorithm].config_class(env=ENV, **{**SETTINGS, **changes}))
    evaluator = Evaluator(learner.env, 256, seed=99)
    evaluate = evaluation_function(learner, evaluator)
    state = learner.init(jax.random.key(5))
    before = to_host(evaluate(learner.actor_params(state)))
    state, _ = learner.train_chunk(state)
    after = to_host(evaluate(learner.actor_params(state)))
    assert random_play["completion_rate"] < 0.6 and before["completion_rate"] < 0.6
    assert after["completion_rate"] > 0.8
    assert after["return"] > random_play["return"] + 20
    assert after["invalid_actions"] == 0


@pytest.mark.slow
def test_attention_learns_dial_a_ride():
    """Within seconds it drives less than the nearest neighbour, which it knows nothing of."""
    env = {"name": "darp", "num_nodes": 6, "num_agents": 2, "reward": "dense", "lookahead": True}
    attention = {"network": "attention", "attention_size": 32, "critic": "local", "gamma": 1.0}
    sizes = {"num_envs": 128, "rollout_length": 8, "num_epochs": 2, "num_minibatches": 4, "log_interval": 60}
    intervals = {"eval_interval": 60, "save_interval": 60, "total_steps": 60 * 128 * 8}
    learner = make_train(ALGORITHMS["mappo"].config_class(env=env, **{**SETTINGS, **attention, **sizes, **intervals}))
    evaluator = Evaluator(learner.env, 256, seed=98)
    evaluate = evaluation_function(learner, evaluator)
    state = learner.init(jax.random.key(6))
    before = to_host(evaluate(learner.actor_params(state)))
    state, _ = learner.train_chunk(state)
    after = to_host(evaluate(learner.actor_params(state)))
    greedy = baseline_actors(learner.env)["nearest neighbour"]
    greedy_return = to_host(jax.jit(lambda: evaluator.play(greedy))())["return"]
    assert before["return"] < greedy_return
    assert after["return"] > greedy_return + 5
    assert after["served_share"] > 0.98
