"""What the tests of TD3 and SAC share: a tiny environment with known best play, tiny trainers, quick compilation."""

import pytest

from tests.toy_environments import LineWalk, LineWalkInTurn
from train.algorithms import ALGORITHMS, make_train


@pytest.fixture(scope="session")
def make():
    """`make(algorithm, env={...}, **changes)`: a tiny trainer, made and compiled once per configuration."""
    made = {}

    def make_trainer(algorithm, env=None, **changes):
        tiny = {"num_envs": 4, "num_devices": 1, "rollout_length": 4, "hidden_sizes": (8,), "batch_size": 80}
        tiny |= {"gradient_steps": 2, "buffer_size": 400, "target_exploration_steps": 16, "random_steps": 32}
        tiny |= {"total_steps": 160, "log_interval": 1, "eval_interval": 2, "save_interval": 3, "eval_episodes": 4}
        tiny["env"] = {"name": "line_walk_of_the_tests", **(env or {})}
        config = ALGORITHMS[algorithm].config_class(**{**tiny, **changes})
        if repr(config) not in made:
            made[repr(config)] = make_train(config)
        return made[repr(config)]

    return make_trainer


@pytest.fixture(scope="session")
def line_walk():
    """`line_walk(in_turn=True, **fields)`: the environment."""

    def build(in_turn=True, **fields):
        return (LineWalkInTurn if in_turn else LineWalk)(**fields)

    return build
