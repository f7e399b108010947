"""The attention network: a set in, logits that point out; one set of parameters for every size."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from train.networks.networks import make_network

import jaxvrp
from jaxvrp import Entities
from train.networks.attention import distances

SIZE = {"attention_size": 16, "attention_heads": 4, "attention_layers": 2}
UNUSED = {"hidden_sizes": (8,), "recurrent_size": 4, "recurrent_layers": 1, "activation": "relu", "layer_norm": True}
PLACES = ((0, 1, 2), (3, 4, 5))


def layout(count, places=PLACES):
    return Entities(count, entity_size=7, context_size=3, present=3, context_actions=1, entity_actions=2, places=places)


def network(entities, *, pointer=True, head_size=None, **changes):
    head = {"head_size": head_size or entities.num_actions, "head_gain": 1.0, "pointer": pointer}
    return make_network("attention", entities=entities, **head, **{**UNUSED, **SIZE, **changes})


def observation(entities, batch=5, seed=0):
    """Random context and rows `[batch, F]`; every third entity is void, every second has lost its first place."""
    random = np.random.default_rng(seed)
    context = random.normal(size=(batch, entities.context_size))
    rows = random.normal(size=(batch, entities.num_entities, entities.entity_size))
    rows[..., 0] = np.arange(entities.num_entities) % 2
    rows[..., 3] = np.arange(entities.num_entities) % 3 > 0
    rows *= rows[..., 3:4]
    return context, rows


def flat(context, rows):
    return jnp.asarray(np.concatenate([context, rows.reshape(len(rows), -1)], axis=1)[None, :, None], jnp.float32)


def applied(net, params, context, rows):
    inputs = flat(context, rows)
    return np.asarray(net.apply(params, inputs, (), jnp.zeros(inputs.shape[:2], bool))[0][0, :, 0])


def initialised(net, entities):
    inputs = flat(*observation(entities))
    return net.init(jax.random.key(0), inputs, (), jnp.zeros(inputs.shape[:2], bool))


@pytest.mark.parametrize("places", [PLACES, ()])
def test_permuting_the_entities_permutes_the_logits(places):
    entities = layout(6, places)
    net = network(entities)
    params, (context, rows) = initialised(net, entities), observation(entities)
    order = np.array([4, 0, 5, 2, 1, 3])
    logits, permuted = applied(net, params, context, rows), applied(net, params, context, rows[:, order])
    np.testing.assert_allclose(permuted[:, 0], logits[:, 0], atol=1e-5)
    pairs = logits[:, 1:].reshape(-1, 6, 2)
    np.testing.assert_allclose(permuted[:, 1:].reshape(-1, 6, 2), pairs[:, order], atol=1e-5)
    assert np.ptp(pairs, axis=1).min() > 1e-3, "logits must tell entities apart"


def test_void_entities_change_nothing_and_parameters_serve_any_number():
    small, large = layout(6), layout(9)
    params, (context, rows) = initialised(network(small), small), observation(small)
    more = np.concatenate([rows, np.zeros((len(rows), 3, 7))], axis=1)
    few, many = applied(network(small), params, context, rows), applied(network(large), params, context, more)
    np.testing.assert_allclose(many[:, : few.shape[1]], few, atol=1e-5)
    sizes = jax.tree.map(jnp.shape, initialised(network(large), large))
    assert sizes == jax.tree.map(jnp.shape, params)


def test_what_is_behind_a_void_row_cannot_be_seen():
    entities = layout(4)
    net = network(entities, pointer=False, head_size=2)
    params, (context, rows) = initialised(net, entities), observation(entities)
    before = applied(net, params, context, rows)
    rows[:, 0, 4:] = 9.0
    np.testing.assert_array_equal(applied(net, params, context, rows), before)
    rows[:, 1, 4:] = 9.0
    assert np.abs(applied(net, params, context, rows) - before).max() > 1e-3


def test_no_entity_at_all_gives_finite_logits():
    entities = layout(3)
    net = network(entities)
    context, rows = observation(entities)
    assert np.isfinite(applied(net, initialised(net, entities), context, 0 * rows)).all()


def test_distances_against_a_loop():
    entities = layout(5)
    _, rows = observation(entities, batch=3, seed=1)
    present = rows[..., 3] > 0
    gap, told = distances(jnp.asarray(rows), jnp.asarray(present), PLACES)
    for batch, row in enumerate(rows):
        following = [r[1:3] if r[0] > 0 else r[4:6] for r in row]
        for i in np.flatnonzero(present[batch]):
            away = {j: np.hypot(*(following[i] - following[j])) for j in np.flatnonzero(present[batch]) if j != i}
            weight = {j: np.exp(-8 * d) for j, d in away.items()}
            soft = sum(weight[j] * away[j] for j in away) / sum(weight.values())
            last = min(np.hypot(*(row[i, 4:6] - following[j])) for j in away)
            wanted = [min(away.values()), soft, last, np.hypot(*following[i]), np.hypot(*(following[i] - row[i, 4:6]))]
            np.testing.assert_allclose(told[batch, i], wanted, atol=1e-5)
            np.testing.assert_allclose([gap[batch, i, j] for j in away], list(away.values()), atol=1e-5)


def test_requests_of_darp_are_entities():
    """Permuting the requests of an instance permutes the logits of the untrained policy, and not its value."""
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2)
    role = env.roles["vehicle"]
    actor = network(role.entities)
    instance = env.generate(jax.random.key(3))
    order = np.array([2, 0, 3, 1])
    nodes = np.concatenate([[0], np.stack([1 + 2 * order, 2 + 2 * order], axis=1).ravel()])
    per_node = ("locs", "demand", "earliest", "deadline", "service_time")
    shuffled = instance.replace(**{name: getattr(instance, name)[nodes] for name in per_node})
    state, seen = env.reset_to(instance)
    state, seen = env.step(state, {"vehicle": jnp.array([5])})
    other, _ = env.reset_to(shuffled)
    other, seen_other = env.step(other, {"vehicle": jnp.array([1])})  # request 2 has become the first
    params = actor.init(jax.random.key(0), seen.observation["vehicle"][None, None], (), jnp.zeros((1, 1), bool))
    logits, shuffled_logits = (
        actor.apply(params, t.observation["vehicle"][None, None], (), jnp.zeros((1, 1), bool))[0].ravel()
        for t in (seen, seen_other)
    )
    np.testing.assert_allclose(shuffled_logits, logits[nodes], atol=1e-5)
    np.testing.assert_array_equal(seen_other.action_mask["vehicle"][0], seen.action_mask["vehicle"][0][nodes])


@pytest.mark.parametrize("pointer", [True, False], ids=["actor", "critic"])
def test_turning_or_mirroring_an_instance_changes_nothing(pointer):
    """By the symmetries of the square, since the extent that scales an observation is that of the bounding box."""
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2)
    entities = env.roles["vehicle"].entities
    net = network(entities) if pointer else network(entities, pointer=False, head_size=1)
    instance, seen = env.generate(jax.random.key(4)), []
    quarter, mirror = np.array([[0, 1], [-1, 0]]), np.array([[-1, 0], [0, 1]])
    for turn in (np.eye(2), quarter, mirror, mirror @ quarter):
        locs = instance.locs[0] + (instance.locs - instance.locs[0]) @ jnp.asarray(turn, jnp.float32)
        state, timestep = env.reset_to(instance.replace(locs=locs))
        seen.append([timestep.observation["vehicle"][None, None]])
        for node in (3, 4, 5):
            state, timestep = env.step(state, {"vehicle": jnp.array([node])})
            seen[-1].append(timestep.observation["vehicle"][None, None])
    params = net.init(jax.random.key(0), seen[0][0], (), jnp.zeros((1, 1), bool))
    outputs = [[net.apply(params, now, (), jnp.zeros((1, 1), bool))[0] for now in episode] for episode in seen]
    for episode, other in zip(seen[1:], outputs[1:], strict=True):
        assert np.abs(np.array(episode) - np.array(seen[0])).max() > 0.1
        np.testing.assert_allclose(np.array(other), np.array(outputs[0]), atol=2e-4)


def test_what_does_not_fit_is_one_line():
    with pytest.raises(ValueError, match="network is 'attention', which needs observations that are sets"):
        make_network("attention", entities=None, pointer=True, head_size=3, head_gain=1.0, **UNUSED, **SIZE)
    with pytest.raises(ValueError, match=r"attention_size is 16, which attention_heads \(5\) does not divide"):
        network(layout(2), attention_heads=5)
    assert dataclasses.replace(layout(2), places=()).num_actions == 5
