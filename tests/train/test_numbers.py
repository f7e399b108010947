"""Keys that are arguments of a compiled training: other values of them need no other program, and count the same."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from train.algorithms import ALGORITHMS, make_train

KEY = jax.random.key(0)

OFF_POLICY = {"buffer_size": 400, "batch_size": 8, "random_steps": 16, "gradient_steps": 2, "log_interval": 4}


@pytest.fixture
def pair(config):
    """`pair(algorithm)`: two tiny configurations that differ in every number."""

    def build(algorithm):
        if algorithm == "mappo":
            first = config(
                toy="taught", network="attention", imitate="nearest", imitate_coef=0.5, entropy_coef_end=0.001
            )
        else:
            tiny = {"env": {"name": "line_walk_of_the_tests"}, "num_envs": 4, "num_devices": 1, "hidden_sizes": (8,)}
            first = ALGORITHMS[algorithm].config_class(**tiny, **OFF_POLICY)
        halves = {name: float(value) / 2 for name, value in first.numbers.items()}
        assert len(halves) > 3
        return first, dataclasses.replace(first, **halves)

    return build


@pytest.mark.slow("sac")
@pytest.mark.parametrize("algorithm", ["mappo", "td3", "sac"])
def test_other_numbers_are_of_the_same_program(algorithm, pair):
    def text(config):
        learner = make_train(config)
        return learner.train_chunk.func.lower(config.numbers, jax.eval_shape(learner.init, KEY)).as_text()

    first, second = pair(algorithm)
    assert text(first) == text(second)
    if algorithm == "td3":  # the cheapest to lower once more
        assert text(first) != text(dataclasses.replace(first, rollout_length=24))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["mappo", "td3", "sac"])
def test_an_argument_counts_as_a_constant_does(algorithm, pair):
    first, second = pair(algorithm)
    constant = type("Constant", (type(second),), {"arguments": ()})(**vars(second))
    assert not constant.numbers

    def learned(learner, numbers):
        chunk, state = functools.partial(learner.train_chunk.func, numbers), learner.init(KEY)
        for _ in range(4):
            state, _ = chunk(state)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(learner.actor_params(state))]

    trainer = make_train(first)
    changed, expected = learned(trainer, second.numbers), learned(make_train(constant), {})
    for leaf, wanted in zip(changed, expected, strict=True):
        np.testing.assert_allclose(leaf, wanted, rtol=1e-5, atol=1e-6)
    unchanged = learned(trainer, first.numbers)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(changed, unchanged, strict=True))
