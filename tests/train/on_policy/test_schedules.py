"""What changes in the course of a training: the weight of the entropy, and the learning rates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from train.algorithms import make_train
from train.on_policy.config import PPOConfig
from train.on_policy.imitation import guidance_at


@pytest.mark.parametrize(("end", "expected"), [(None, [0.1] * 6), (0.0, [0.1, 0.075, 0.05, 0.025, 0.0, 0.0])])
def test_the_weight_of_the_entropy_changes_linearly(end, expected):
    """Of five updates; there is none after them, but it would have the last weight."""
    config = PPOConfig(num_envs=5, rollout_length=10, total_steps=250, entropy_coef=0.1, entropy_coef_end=end)
    weights = [float(guidance_at(config, jnp.int32(update)).entropy) for update in range(6)]
    np.testing.assert_allclose(weights, expected, atol=1e-7)


@pytest.mark.parametrize(("changes", "left"), [({}, 0.5), ({"lr_decay": False}, 1.0)])
def test_learning_rates_fall_to_0(config, changes, left):
    """Of the only two gradient steps, the second is at half the way down; equal gradients make Adam's steps equal."""
    trainer = make_train(config(total_steps=48, **changes))
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), _shapes(trainer))
    gradients = jax.tree.map(np.ones_like, params)
    first, state = trainer.optimizer.update(gradients, trainer.optimizer.init(params), params)
    second, _ = trainer.optimizer.update(gradients, state, params)
    ratios = jax.tree.leaves(jax.tree.map(lambda late, early: float((late / early).mean()), second, first))
    np.testing.assert_allclose(ratios, left, rtol=1e-3)


def _shapes(trainer):
    return jax.eval_shape(trainer.init, jax.random.key(0)).params
