"""The attention network: a set in, logits that point out; one set of parameters for every size."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import Entities
from train.networks import build_network
from train.networks.attention import distances
from train.networks.layers import NetworkSpec
from train.on_policy.config import PPOConfig

SIZE = {"attention_size": 16, "attention_heads": 4, "attention_layers": 2, "critic_attention_layers": 2}
PLACES = ((0, 1, 2), (3, 4, 5))


def layout(count, places=PLACES):
    return Entities(count, entity_size=7, context_size=3, present=3, context_actions=1, entity_actions=2, places=places)


def network(entities, *, is_actor=True, head_size=None, **changes):
    spec = NetworkSpec(is_actor, head_size or entities.num_actions, head_gain=1.0, entities=entities)
    return build_network(PPOConfig(network="attention", **{**SIZE, **changes}), spec)


def observation(entities, batch=5, seed=0):
    """Random context and rows `[batch, F]`; every third entity is void, every second has lost its first place."""
    random = np.random.default_rng(seed)
    context = random.normal(size=(batch, entities.context_size))
    rows = random.normal(size=(batch, entities.num_entities, entities.entity_size))
    rows[..., 0] = np.arange(entities.num_entities) % 2
    rows[..., 3] = np.arange(entities.num_entities) % 3 > 0
    rows *= rows[..., 3:4]
    return context, rows


def shapes_of_parameters(net, size):
    inputs = jnp.zeros((1, 1, 1, size), jnp.float32)
    return jax.eval_shape(net.init, jax.random.key(0), inputs, (), jnp.zeros((1, 1), bool))


def parameters(net, size):
    """Parameters of noise, of about the size that they begin with; `size` is that of an observation."""
    random = np.random.default_rng(0)
    shapes = shapes_of_parameters(net, size)
    return jax.tree.map(lambda leaf: random.normal(0, 0.25, leaf.shape).astype(np.float32), shapes)


@pytest.fixture(scope="module")
def applied():
    """`applied(entities, is_actor=True)`: a function from context and rows to outputs `[batch, head_size]`."""

    @functools.cache
    def apply(entities, *, is_actor=True):
        net = network(entities, is_actor=is_actor, head_size=None if is_actor else 2)
        params = parameters(net, entities.size)
        jitted = jax.jit(lambda inputs: net.apply(params, inputs, (), jnp.zeros(inputs.shape[:2], bool))[0])

        def outputs(context, rows):
            flat = np.concatenate([context, rows.reshape(len(rows), -1)], axis=1)
            return np.asarray(jitted(flat.astype(np.float32)[None, :, None])[0, :, 0])

        return outputs

    return apply


@pytest.mark.parametrize("places", [PLACES, ()])
def test_permuting_the_entities_permutes_the_logits(places, applied):
    entities = layout(6, places)
    logits_of, (context, rows) = applied(entities), observation(entities)
    order = np.array([4, 0, 5, 2, 1, 3])
    logits, permuted = logits_of(context, rows), logits_of(context, rows[:, order])
    np.testing.assert_allclose(permuted[:, 0], logits[:, 0], atol=1e-5)
    pairs = logits[:, 1:].reshape(-1, 6, 2)
    np.testing.assert_allclose(permuted[:, 1:].reshape(-1, 6, 2), pairs[:, order], atol=1e-5)
    assert np.ptp(pairs, axis=1).min() > 1e-3, "logits must tell entities apart"


def test_void_entities_change_nothing_and_parameters_serve_any_number(applied):
    small, large = layout(6), layout(9)
    context, rows = observation(small)
    more = np.concatenate([rows, np.zeros((len(rows), 3, 7))], axis=1)
    few, many = applied(small)(context, rows), applied(large)(context, more)
    np.testing.assert_allclose(many[:, : few.shape[1]], few, atol=1e-5)
    sizes = [jax.tree.map(jnp.shape, shapes_of_parameters(network(x), x.size)) for x in (small, large)]
    assert sizes[0] == sizes[1]


def test_what_is_behind_a_void_row_cannot_be_seen(applied):
    entities = layout(6)
    values_of, (context, rows) = applied(entities, is_actor=False), observation(entities)
    before = values_of(context, rows)
    rows[:, 0, 4:] = 9.0
    np.testing.assert_array_equal(values_of(context, rows), before)
    rows[:, 1, 4:] = 9.0
    assert np.abs(values_of(context, rows) - before).max() > 1e-3


def test_no_entity_at_all_gives_finite_logits(applied):
    entities = layout(6)
    context, rows = observation(entities)
    logits = applied(entities)(context, 0 * rows)
    assert np.isfinite(logits).all()
    assert np.ptp(logits[:, 0]) > 1e-3, "the context is seen all the same"


def test_distances_against_a_loop():
    entities = layout(5)
    _, rows = observation(entities, batch=3, seed=1)
    present = rows[..., 3] > 0
    distance, features = jax.jit(lambda *args: distances(*args, PLACES))(rows, present)
    for batch, row in enumerate(rows):
        following = [r[1:3] if r[0] > 0 else r[4:6] for r in row]
        for i in np.flatnonzero(present[batch]):
            away = {j: np.hypot(*(following[i] - following[j])) for j in np.flatnonzero(present[batch]) if j != i}
            weight = {j: np.exp(-8 * d) for j, d in away.items()}
            soft = sum(weight[j] * away[j] for j in away) / sum(weight.values())
            last = min(np.hypot(*(row[i, 4:6] - following[j])) for j in away)
            wanted = [min(away.values()), soft, last, np.hypot(*following[i]), np.hypot(*(following[i] - row[i, 4:6]))]
            np.testing.assert_allclose(features[batch, i], wanted, atol=1e-5)
            np.testing.assert_allclose([distance[batch, i, j] for j in away], list(away.values()), atol=1e-5)


@pytest.fixture(scope="module")
def darp():
    """Dial-a-ride with four requests; and what is seen in an episode: `play(instance, nodes)`, `[steps + 1, ...]`."""
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2)

    def play(instance, nodes):
        def step(state, node):
            state, timestep = env.step(state, {"vehicle": node[None]})
            return state, (timestep.observation["vehicle"], timestep.action_mask["vehicle"])

        state, timestep = env.reset_to(instance)
        first = (timestep.observation["vehicle"], timestep.action_mask["vehicle"])
        later = jax.lax.scan(step, state, nodes)[1]
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)

    return env, jax.jit(play)


def outputs_of(net, observations):
    """Outputs `[B, head_size]` of a network with parameters of noise for observations `[B, 1, F]`."""
    params = parameters(net, observations.shape[-1])
    reset = jnp.zeros((1, len(observations)), bool)
    return np.asarray(jax.jit(net.apply)(params, observations[None], (), reset)[0][0, :, 0])


def test_requests_of_darp_are_entities(darp):
    """Permuting the requests of an instance permutes the logits."""
    env, play = darp
    instance = jax.jit(env.generate)(jax.random.key(3))
    order = np.array([2, 0, 3, 1])
    nodes = np.concatenate([[0], np.stack([1 + 2 * order, 2 + 2 * order], axis=1).ravel()])
    per_node = ("locs", "demand", "earliest", "deadline", "service_time")
    shuffled = instance.replace(**{name: getattr(instance, name)[nodes] for name in per_node})
    observation, mask = play(instance, jnp.array([5, 6, 0]))
    other_observation, other_mask = play(shuffled, jnp.array([1, 2, 0]))  # request 2 has become the first
    actor = network(env.roles["vehicle"].entities)
    logits = outputs_of(actor, np.stack([observation[1], other_observation[1]]))
    np.testing.assert_allclose(logits[1], logits[0][nodes], atol=1e-5)
    assert np.ptp(logits[0]) > 1e-3
    np.testing.assert_array_equal(other_mask[1, 0], mask[1, 0][nodes])


@pytest.mark.parametrize("is_actor", [True, False], ids=["actor", "critic"])
def test_turning_or_mirroring_an_instance_changes_nothing(is_actor, darp):
    """By the symmetries of the square, since the extent that scales an observation is that of the bounding box."""
    env, play = darp
    entities = env.roles["vehicle"].entities
    net = network(entities, is_actor=is_actor, head_size=None if is_actor else 1)
    instance, episodes = jax.jit(env.generate)(jax.random.key(4)), []
    quarter, mirror = np.array([[0, 1], [-1, 0]]), np.array([[-1, 0], [0, 1]])
    for turn in (np.eye(2), quarter, mirror, mirror @ quarter):
        locs = instance.locs[0] + (instance.locs - instance.locs[0]) @ jnp.asarray(turn, jnp.float32)
        episodes.append(np.asarray(play(instance.replace(locs=locs), jnp.array([3, 4, 5]))[0]))
    outputs = outputs_of(net, np.concatenate(episodes)).reshape(4, 4, -1)
    for episode, other in zip(episodes[1:], outputs[1:], strict=True):
        assert np.abs(episode - episodes[0]).max() > 0.1
        np.testing.assert_allclose(other, outputs[0], atol=2e-4)
    assert np.ptp(outputs[0], axis=0).max() > 1e-2, "the steps of an episode differ"


def test_what_does_not_fit_is_one_line():
    with pytest.raises(ValueError, match=r"network is 'attention', which needs .* sets; take 'mlp' or 'gru' here"):
        network(None, head_size=3)
    with pytest.raises(ValueError, match=r"attention_size is 16, which attention_heads \(5\) does not divide"):
        network(layout(2), attention_heads=5)
    assert dataclasses.replace(layout(2), places=()).num_actions == 5
