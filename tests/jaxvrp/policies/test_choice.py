"""Masked categorical policies: samples, their probabilities, and forbidden actions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.policies import choice

ACTIONS = 7
ALMOST_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


@jax.jit
def sample(uniform, logits, mask):
    """Actions, and their log-probabilities."""
    action = choice.sample(uniform, logits, mask)
    return action, choice.log_prob_and_entropy(logits, mask, action)[0]


mode = jax.jit(lambda logits, mask: choice.likeliest_actions({"": logits}, {"": mask})[""])
log_prob_and_entropy = jax.jit(choice.log_prob_and_entropy)
slopes = jax.jit(jax.jacrev(choice.log_prob_and_entropy))


def probabilities(logits, mask):
    """Softmax over the legal entries of one row, in double precision."""
    top = max(float(x) for x, legal in zip(logits, mask, strict=True) if legal)
    weights = [math.exp(float(x) - top) if legal else 0.0 for x, legal in zip(logits, mask, strict=True)]
    return np.array(weights) / sum(weights)


ROWS = {
    "all legal": ([0.3, -1.0, 2.0, 0.0, 0.5, 1.5, -2.0], [1, 1, 1, 1, 1, 1, 1]),
    "some forbidden": ([0.3, 9.0, 2.0, 0.0, 9.0, 1.5, 9.0], [1, 0, 1, 1, 0, 1, 0]),
    "the first forbidden": ([9.0, 0.1, 0.2, 9.0, 0.4, 0.5, 0.6], [0, 1, 1, 0, 1, 1, 1]),
    "one legal": ([0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0], [0, 0, 1, 0, 0, 0, 0]),
}


@pytest.mark.parametrize(("logits", "mask"), ROWS.values(), ids=ROWS)
def test_samples_invert_the_distribution_function(logits, mask):
    count = 4096
    logits, mask = np.array(logits, np.float32), np.array(mask, bool)
    uniform = (np.arange(count, dtype=np.float32) + 0.5) / count
    action, log_prob = sample(uniform, np.tile(logits, (count, 1)), np.tile(mask, (count, 1)))
    expected = probabilities(logits, mask)
    share = np.bincount(action, minlength=ACTIONS) / count
    np.testing.assert_allclose(share, expected, atol=2 / count)
    assert (np.diff(action) >= 0).all()
    np.testing.assert_allclose(log_prob, np.log(expected[np.asarray(action)]), atol=1e-5)


finite = st.floats(-1e4, 1e4, width=32, allow_subnormal=False)  # XLA takes subnormal numbers for 0
edges = st.sampled_from([0.0, ALMOST_ONE]) | st.floats(0.0, ALMOST_ONE, width=32)


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(finite | st.sampled_from([-1e4, 1e4]), min_size=ACTIONS, max_size=ACTIONS),
    legal=st.sets(st.integers(0, ACTIONS - 1), min_size=1),
    uniform=edges,
)
def test_forbidden_actions_are_never_taken(logits, legal, uniform):
    logits, mask = np.array(logits, np.float32), np.isin(np.arange(ACTIONS), list(legal))
    action, log_prob = sample(np.float32(uniform), logits, mask)
    assert int(action) in legal
    assert -3e4 < float(log_prob) <= 0
    best = int(mode(logits, mask))
    assert best in legal
    assert logits[best] == logits[mask].max()


@pytest.mark.parametrize("actions", [8, 33])
def test_rounding_of_the_cumulative_sum_lets_nothing_through(actions):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (4096, actions)).astype(np.float32)
    mask = rng.random(logits.shape) < 0.4
    mask[:, 1] = True
    mask[:, 0] = mask[:, -1] = False
    exact = np.cumsum([probabilities(*row) for row in zip(logits, mask, strict=True)], axis=1)
    columns = np.arange(len(exact)), rng.integers(0, actions, len(exact))
    for step in range(-2, 3):  # aim at the edges between the actions, give or take some units in the last place
        uniform = np.clip(exact[columns] + step * 2.0**-24, 0, ALMOST_ONE).astype(np.float32)
        action, _ = sample(uniform, logits, mask)
        assert np.take_along_axis(mask, np.asarray(action)[:, None], 1).all()


def test_log_prob_and_entropy_against_numpy():
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 3, (50, 4, ACTIONS)).astype(np.float32)
    mask = rng.random(logits.shape) < 0.5
    action = rng.integers(0, ACTIONS, (50, 4)).astype(np.int32)
    np.put_along_axis(mask, action[..., None], True, -1)
    log_prob, entropy = log_prob_and_entropy(logits, mask, action)
    best = np.asarray(mode(logits, mask))
    for i in np.ndindex(action.shape):
        expected = probabilities(logits[i], mask[i])
        np.testing.assert_allclose(log_prob[i], math.log(expected[action[i]]), atol=1e-5)
        np.testing.assert_allclose(entropy[i], -sum(p * math.log(p) for p in expected if p > 0), atol=1e-5)
        assert best[i] == max((a for a in range(ACTIONS) if mask[i][a]), key=lambda a: logits[i][a])


def test_one_legal_action_is_certain():
    logits = jnp.array([1e4, -1e4, 3.0, 0.0, 0.0, 0.0, 0.0])
    mask = jnp.arange(ACTIONS) == 1
    for uniform in (0.0, 0.5, ALMOST_ONE):
        action, log_prob = sample(np.float32(uniform), logits, mask)
        assert (int(action), float(log_prob)) == (1, 0.0)
    assert [float(x) for x in log_prob_and_entropy(logits, mask, jnp.int32(1))] == [0.0, 0.0]
    log_prob_slope, entropy_slope = slopes(logits, mask, jnp.int32(1))
    np.testing.assert_array_equal(log_prob_slope + entropy_slope, 0.0)


def test_gradients_do_not_touch_forbidden_actions():
    logits = jnp.array([0.5, 2.0, -1.0, 1.0, 0.0, 3.0, -2.0])
    mask = jnp.array([True, False, True, True, False, False, True])
    log_prob_slope, _ = slopes(logits, mask, jnp.int32(3))
    expected = (np.arange(ACTIONS) == 3) - probabilities(logits, mask)
    np.testing.assert_allclose(log_prob_slope, expected, atol=1e-6)


def test_a_row_without_a_legal_action_gives_no_nan():
    logits, nothing = jnp.array([1e4, -1e4, 0.0, 0.0, 5.0, 1.0, 0.0]), jnp.zeros(ACTIONS, bool)
    log_prob, entropy = log_prob_and_entropy(logits, nothing, jnp.int32(2))
    np.testing.assert_allclose(log_prob, -math.log(ACTIONS), rtol=1e-5)
    np.testing.assert_allclose(entropy, math.log(ACTIONS), rtol=1e-5)
    log_prob_slope, entropy_slope = slopes(logits, nothing, jnp.int32(2))
    np.testing.assert_array_equal(log_prob_slope + entropy_slope, 0.0)
    for uniform in (0.0, ALMOST_ONE):
        assert 0 <= int(sample(np.float32(uniform), logits, nothing)[0]) < ACTIONS
    assert 0 <= int(mode(logits, nothing)) < ACTIONS
