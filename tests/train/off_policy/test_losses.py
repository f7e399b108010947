"""TD3 and SAC against a plain computation in double precision: targets, losses, gradients, delays, averages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from train.off_policy import q_learning, sac, td3
from train.off_policy.config import SACConfig, TD3Config
from train.off_policy.q_learning import RoleState
from train.off_policy.replay_buffer import Decisions

SEES, ACTS, BATCH = 4, 2, 6
TD3_CONFIG = TD3Config(hidden_sizes=(5, 3), policy_noise=0.4, noise_clip=0.3, gamma=0.9, tau=0.1, policy_delay=3)
SAC_CONFIG = SACConfig(hidden_sizes=(5, 3), gamma=0.9, tau=0.1, initial_temperature=0.3)


def arbitrary(tree, seed):
    """Numbers in the shapes of `tree`."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.normal(0, 0.7, leaf.shape).astype(leaf.dtype), tree)


def prepared(method):
    """The method, arbitrary parameters, fresh optimisers, a batch, and noise."""
    shapes = jax.eval_shape(method.init, jax.random.key(0))
    params = arbitrary(shapes.params, 1)
    if "log_temperature" in params:
        params["log_temperature"] = np.log(np.float32(0.3))
    optimizer = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes.optimizer)
    noise = np.random.default_rng(4).normal(size=(BATCH, ACTS)).astype(np.float32)
    return method, RoleState(params, arbitrary(shapes.target, 2), optimizer), batch_of(3), noise


def batch_of(seed, lead=(BATCH,)):
    rng = np.random.default_rng(seed)
    seen, following = rng.normal(size=(2, *lead, SEES))
    action, reward = rng.uniform(-1, 1, (*lead, ACTS)), rng.normal(size=lead)
    ended = np.broadcast_to(np.arange(lead[-1]) % 3 == 1, lead)
    return Decisions(*(np.asarray(x, np.float32) for x in (seen, action, reward, ended, following)))


def double(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def forward(params, x):
    """The dense network, layer by layer."""
    params = params["params"]
    for name in sorted(params["Trunk_0"]):
        x = np.maximum(x @ params["Trunk_0"][name]["kernel"] + params["Trunk_0"][name]["bias"], 0)
    return x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"]


def plain_q(critic, seen, action):
    x = np.concatenate([seen, action], axis=1)
    return np.stack([forward(jax.tree.map(lambda leaf, i=i: leaf[i], critic), x)[:, 0] for i in range(2)])


def plain_sample(actor, seen, noise):
    """Squashed Gaussian: the density of the Gaussian over the derivative of tanh."""
    mean, log_deviation = np.split(forward(actor, seen), 2, axis=1)
    deviation = np.exp(np.clip(log_deviation, -20, 2))
    free = mean + deviation * noise
    density = np.exp(-(((free - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
    return np.tanh(free), np.log(density / (1 - np.tanh(free) ** 2)).sum(axis=1)


@pytest.fixture(scope="module")
def twin():
    return prepared(td3.TD3(TD3_CONFIG, SEES, ACTS))


@pytest.fixture(scope="module")
def soft():
    return prepared(sac.SAC(SAC_CONFIG, SEES, ACTS))


def test_td3_targets(twin):
    method, learned, batch, noise = twin
    target, rows = double(learned.target), double(batch)
    smoothing = np.clip(0.4 * noise.astype(float), -0.3, 0.3)
    assert (np.abs(smoothing) == 0.3).any() and (np.abs(smoothing) < 0.3).any()
    following = np.clip(np.tanh(forward(target["actor"], rows.next_observation)) + smoothing, -1, 1)
    value = plain_q(target["critic"], rows.next_observation, following).min(axis=0)
    expected = rows.reward + np.where(rows.terminated == 1, 0, 0.9 * value)
    got = method.critic_target(learned.target, batch, noise)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(got)[rows.terminated == 1], batch.reward[rows.terminated == 1])


def test_td3_losses(twin):
    method, learned, batch, noise = twin
    params, rows = double(learned.params), double(batch)
    goal = jnp.asarray(noise[:, 0])
    loss, metrics = q_learning.critic_loss(learned.params["critic"], batch, goal, method.networks)
    error = plain_q(params["critic"], rows.observation, rows.action) - noise[:, 0].astype(float)
    np.testing.assert_allclose(loss, (error**2).mean(axis=1).sum(), rtol=1e-5)
    q = plain_q(params["critic"], rows.observation, rows.action)
    np.testing.assert_allclose(metrics["q"], q.mean(), rtol=1e-5)
    loss, _ = method.actor_loss(learned.params["actor"], learned.params["critic"], batch.observation)
    action = np.tanh(forward(params["actor"], rows.observation))
    expected = plain_q(params["critic"], rows.observation, action)
    assert abs(expected[0].mean() - expected.min(axis=0).mean()) > 1e-2  # the first critic, not the lesser
    np.testing.assert_allclose(loss, -expected[0].mean(), rtol=1e-5)


def test_sac_targets(soft):
    method, learned, batch, noise = soft
    params, target, rows = double(learned.params), double(learned.target), double(batch)
    following, log_prob = plain_sample(params["actor"], rows.next_observation, noise.astype(float))
    value = plain_q(target["critic"], rows.next_observation, following).min(axis=0) - 0.3 * log_prob
    expected = rows.reward + np.where(rows.terminated == 1, 0, 0.9 * value)
    got = method.critic_target(learned.params, learned.target, batch, noise)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_sac_losses(soft):
    method, learned, batch, noise = soft
    params, rows = double(learned.params), double(batch)
    loss, metrics = method.actor_loss(learned.params["actor"], learned.params, batch.observation, noise)
    action, log_prob = plain_sample(params["actor"], rows.observation, noise.astype(float))
    expected = (0.3 * log_prob - plain_q(params["critic"], rows.observation, action).min(axis=0)).mean()
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], -log_prob.mean(), rtol=1e-4)
    loss, metrics = sac.temperature_loss(jnp.float32(np.log(0.3)), jnp.float32(0.7), -2.0)
    np.testing.assert_allclose(loss, 0.3 * 2.7, rtol=1e-5)
    np.testing.assert_allclose(metrics["temperature"], 0.3, rtol=1e-5)
    gradient = jax.grad(lambda x: sac.temperature_loss(x, jnp.float32(0.7), -2.0)[0])(jnp.float32(np.log(0.3)))
    assert gradient > 0  # too much entropy: the temperature falls


def difference(function, params, where, step=1e-6):
    """Slope of `function` in one number of `params`, by central differences in double precision."""
    values = []
    for sign in (1, -1):
        moved = jax.tree.map(np.copy, params)
        leaf = moved["params"][where[0]] if len(where) == 2 else moved["params"][where[0]][where[1]]
        leaf[where[-1]].flat[0] += sign * step
        values.append(function(moved))
    return (values[0] - values[1]) / (2 * step)


PLACES = (("Dense_0", "bias"), ("Trunk_0", "Dense_0", "bias"), ("Trunk_0", "Dense_1", "kernel"))


def test_gradient_of_the_actors(twin, soft):
    """What the actor can do about its loss: through the action, and (SAC) through the density."""
    method, learned, batch, noise = twin
    params, rows = double(learned.params), double(batch)
    critic, seen = learned.params["critic"], batch.observation
    slopes = jax.grad(lambda p: method.actor_loss(p, critic, seen)[0])
    got = jax.jit(slopes)(learned.params["actor"])

    def plain_td3(actor):
        return -plain_q(params["critic"], rows.observation, np.tanh(forward(actor, rows.observation)))[0].mean()

    compare_slopes(got, plain_td3, params["actor"])
    method, learned, batch, noise = soft
    params = double(learned.params)
    slopes = jax.grad(lambda p: method.actor_loss(p, learned.params, batch.observation, noise)[0])
    got = jax.jit(slopes)(learned.params["actor"])

    def plain_sac(actor):
        action, log_prob = plain_sample(actor, rows.observation, noise.astype(float))
        return (0.3 * log_prob - plain_q(params["critic"], rows.observation, action).min(axis=0)).mean()

    compare_slopes(got, plain_sac, params["actor"])


def compare_slopes(got, function, params):
    slopes = []
    for where in PLACES:
        leaf = got["params"]
        for name in where:
            leaf = leaf[name]
        slopes.append((float(leaf.reshape(-1)[0]), difference(function, params, where)))
    assert max(abs(slope) for _, slope in slopes) > 1e-2
    np.testing.assert_allclose(*zip(*slopes, strict=True), rtol=1e-3, atol=1e-5)


def test_the_targets_are_not_learned_from(twin):
    method, learned, batch, noise = twin

    def through(target):
        return method.critic_target(target, batch, noise).sum()

    assert all((leaf == 0).all() for leaf in jax.tree.leaves(jax.jit(jax.grad(through))(learned.target)))


def first_adam_step(params, grads, rate):
    """Adam from nothing moves every number by the rate against the sign of its gradient."""
    return jax.tree.map(lambda p, g: p - rate * g / (np.abs(g) + 1e-8), double(params), double(grads))


def assert_trees_close(got, expected):
    for leaf, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
def test_td3_delays_the_actor_and_the_targets(twin, on_mesh):
    method, learned, _, _ = twin
    batches = batch_of(5, (3, BATCH))
    after, metrics = on_mesh(method.learn)(learned, batches, jax.random.key(8))
    assert (after.optimizer["critic"][0].count, after.optimizer["actor"][0].count) == (3, 1)
    seen = batches.observation[-1]
    slopes = jax.grad(lambda p: method.actor_loss(p, after.params["critic"], seen)[0])
    grads = jax.jit(slopes)(learned.params["actor"])
    assert_trees_close(after.params["actor"], first_adam_step(learned.params["actor"], grads, TD3_CONFIG.actor_lr))
    old, new = double(learned.target), double(after.params)
    assert_trees_close(after.target, jax.tree.map(lambda t, p: 0.9 * t + 0.1 * p, old, new))
    assert {"critic_loss", "q", "target_q", "actor_loss", "actor_grad_norm", "critic_grad_norm"} == set(metrics)


def test_one_step_of_sac(soft, on_mesh):
    method, learned, _, _ = soft
    after, metrics = on_mesh(method.learn)(learned, batch_of(5, (1, BATCH)), jax.random.key(8))
    assert {name: int(state[0].count) for name, state in after.optimizer.items()} == dict.fromkeys(after.params, 1)
    old, new = double(learned.target["critic"]), double(after.params["critic"])
    assert after.target.keys() == {"critic"}
    assert_trees_close(after.target["critic"], jax.tree.map(lambda t, p: 0.9 * t + 0.1 * p, old, new))
    moved = float(after.params["log_temperature"] - learned.params["log_temperature"])
    assert method.target_entropy == -ACTS
    direction = -np.sign(float(metrics["entropy"]) + ACTS)
    np.testing.assert_allclose(moved, direction * SAC_CONFIG.temperature_lr, rtol=1e-3)
    np.testing.assert_allclose(metrics["temperature"], 0.3, rtol=1e-5)


def test_twins_differ_at_first():
    critic = jax.jit(td3.TD3(TD3_CONFIG, SEES, ACTS).init)(jax.random.key(0)).params["critic"]
    kernel = critic["params"]["Trunk_0"]["Dense_0"]["kernel"]
    assert np.abs(kernel[0] - kernel[1]).max() > 0.1


def test_noise_of_the_policies(twin, soft):
    method, learned, batch, noise = twin
    actor, seen = learned.params["actor"], batch.observation
    quiet = method.act(actor, seen, jnp.zeros_like(noise))
    np.testing.assert_allclose(quiet, np.tanh(forward(double(actor), double(seen))), atol=1e-6)
    np.testing.assert_allclose(method.act(actor, seen, noise), np.clip(quiet + 0.1 * noise, -1, 1), atol=1e-6)
    method, learned, batch, noise = soft
    actor = learned.params["actor"]
    mean = np.split(forward(double(actor), double(seen)), 2, axis=1)[0]
    np.testing.assert_allclose(method.act(actor, seen, jnp.zeros_like(noise)), np.tanh(mean), atol=1e-6)
    np.testing.assert_allclose(
        method.act(actor, seen, noise), plain_sample(double(actor), double(seen), noise.astype(float))[0], atol=1e-5
    )
