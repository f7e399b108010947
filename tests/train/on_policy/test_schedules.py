"""What changes in the course of a training, and what stops an update: entropy, learning rates, divergence."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from train.on_policy.config import PPOConfig
from train.on_policy.imitation import guidance_at
from train.on_policy.trainer import make_train


@pytest.mark.parametrize(("end", "expected"), [(None, [0.1] * 6), (0.0, [0.1, 0.075, 0.05, 0.025, 0.0, 0.0])])
def test_the_weight_of_the_entropy_changes_linearly(end, expected):
    """Of five updates; there is none after them, but it would have the last weight."""
    config = PPOConfig(num_envs=5, rollout_length=10, total_steps=250, entropy_coef=0.1, entropy_coef_end=end)
    weights = [float(guidance_at(config, jnp.int32(update)).entropy) for update in range(6)]
    np.testing.assert_allclose(weights, expected, atol=1e-7)


@pytest.mark.slow
def test_an_update_ends_where_a_policy_has_moved_too_far(config):
    """In the first minibatch of two the policy is the one that played, in the second it has moved."""
    params = []
    for target, skipped in ((1e9, 0.0), (1e-6, 0.5)):
        trainer = make_train(config(actor_lr=0.05, log_interval=1, target_kl=target))
        state, metrics = trainer.train_chunk(trainer.init(jax.random.key(3)))
        assert float(metrics["skipped"][0]) == skipped
        # A minibatch that is skipped is none for Adam, but one by which learning rates fall.
        steps = optax.tree.get_all_with_path(state.optimizer, "count", filtering=_of(optax.ScaleByScheduleState))
        assert {int(count) for _, count in steps} == {2}
        steps = optax.tree.get_all_with_path(state.optimizer, "count", filtering=_of(optax.ScaleByAdamState))
        assert {int(count) for _, count in steps} == {2 - round(2 * skipped)}
        params.append(state.params)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_close(*params, rtol=1e-3, atol=1e-3)


@pytest.mark.slow("changes0-0.5")
@pytest.mark.parametrize(
    ("changes", "left"), [({"lr_floor": 0.0}, 0.5), ({"lr_floor": 0.5}, 0.75), ({"lr_decay": False}, 1.0)]
)
def test_learning_rates_fall_to_their_floor(config, changes, left):
    """Of the only two gradient steps, the second is at half the way down; equal gradients make Adam's steps equal."""
    trainer = make_train(config(total_steps=48, **changes))
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), _shapes(trainer))
    gradients = jax.tree.map(np.ones_like, params)
    first, state = trainer.optimizer.update(gradients, trainer.optimizer.init(params), params)
    second, _ = trainer.optimizer.update(gradients, state, params)
    ratios = jax.tree.leaves(jax.tree.map(lambda late, early: float((late / early).mean()), second, first))
    np.testing.assert_allclose(ratios, left, rtol=1e-3)


def _of(kind):
    """Whether a leaf of an optimiser's state belongs to a state of this kind."""
    return lambda path, _: any(getattr(key, "tuple_name", None) == kind.__name__ for key in path)


def _shapes(trainer):
    return jax.eval_shape(trainer.init, jax.random.key(0)).params
