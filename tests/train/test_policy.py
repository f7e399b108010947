"""Masked categorical policies."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.networks import distributions
from train.on_policy.actor_critic import sample_actions

ACTIONS = 7
ALMOST_ONE = float(np.nextafter(np.float32(1), np.float32(0)))

sample = jax.jit(distributions.sample)
mode = jax.jit(distributions.mode)
log_prob_and_entropy = jax.jit(distributions.log_prob_and_entropy)


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


def test_samples_of_the_agents_match_their_probabilities_and_are_independent():
    count = 20_000
    logits = {"truck": np.array([[0.5, -0.5, 1.0]]), "drone": np.array([[0.0, 1.0], [0.4, 0.0]])}
    mask = {"truck": np.array([[1, 1, 0]], bool), "drone": np.ones((2, 2), bool)}
    tiled = [{n: jnp.tile(jnp.asarray(x), (count, 1, 1)) for n, x in tree.items()} for tree in (logits, mask)]
    action, log_prob = jax.jit(sample_actions)(jax.random.key(5), *tiled)
    rows = [(name, agent) for name in logits for agent in range(len(logits[name]))]
    drawn = [np.asarray(action[name][:, agent]) for name, agent in rows]
    wanted = [probabilities(logits[name][agent], mask[name][agent]) for name, agent in rows]
    for (name, agent), own, expected in zip(rows, drawn, wanted, strict=True):
        five_sigma = 5 * np.sqrt(expected * (1 - expected) / count)
        assert (np.abs(np.bincount(own, minlength=len(expected)) / count - expected) <= five_sigma).all()
        np.testing.assert_allclose(log_prob[name][:, agent], np.log(expected[own]), atol=1e-5)
    for one in range(3):
        for other in range(one):
            both = np.mean((drawn[one] == 0) & (drawn[other] == 0))
            alone = wanted[one][0] * wanted[other][0]
            assert abs(both - alone) <= 5 * math.sqrt(alone * (1 - alone) / count)


finite = st.floats(-1e4, 1e4, width=32)
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
        action, _ = jax.jit(distributions.sample)(uniform, logits, mask)
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
    logits = jnp.array([1e4, -1e4, 3.0])
    mask = jnp.array([False, True, False])
    for uniform in (0.0, 0.5, ALMOST_ONE):
        action, log_prob = sample(jnp.float32(uniform), logits, mask)
        assert (int(action), float(log_prob)) == (1, 0.0)
    assert [float(x) for x in log_prob_and_entropy(logits, mask, jnp.int32(1))] == [0.0, 0.0]
    slope = jax.grad(lambda x: sum(distributions.log_prob_and_entropy(x, mask, jnp.int32(1))))(logits)
    np.testing.assert_array_equal(slope, 0.0)


def test_gradients_do_not_touch_forbidden_actions():
    logits = jnp.array([0.5, 2.0, -1.0, 1.0])
    mask = jnp.array([True, False, True, True])
    slope = jax.grad(lambda x: distributions.log_prob_and_entropy(x, mask, jnp.int32(3))[0])(logits)
    np.testing.assert_allclose(slope, np.array([0, 0, 0, 1]) - probabilities(logits, mask), atol=1e-6)


def test_a_row_without_a_legal_action_gives_no_nan():
    logits, nothing = jnp.array([[1e4, -1e4, 0.0]]), jnp.zeros((1, 3), bool)

    def both(x):
        log_prob, entropy = distributions.log_prob_and_entropy(x, nothing, jnp.array([2]))
        return (log_prob + entropy).sum(), (log_prob, entropy)

    (_, (log_prob, entropy)), slope = jax.value_and_grad(both, has_aux=True)(logits)
    np.testing.assert_allclose(log_prob, -math.log(3), rtol=1e-5)
    np.testing.assert_allclose(entropy, math.log(3), rtol=1e-5)
    np.testing.assert_array_equal(slope, 0.0)
    for uniform in (0.0, ALMOST_ONE):
        assert 0 <= int(sample(jnp.full(1, uniform), logits, nothing)[0][0]) < 3
    assert 0 <= int(distributions.mode(logits, nothing)[0]) < 3
