"""Actors and critics: who shares parameters with whom, who sees what, and what the agents draw."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import Role
from jaxvrp.policies.actors import Actors, Seen
from jaxvrp.policies.choice import log_probs, sample_actions
from jaxvrp.policies.networks.attention import Attention
from jaxvrp.policies.networks.gru import GRU
from jaxvrp.policies.networks.inputs import EntityInput
from jaxvrp.policies.networks.mlp import MLP
from jaxvrp.spaces import Box, Discrete, EntityKind, Feature, Pointer
from train.on_policy.critics import TEAM, Critics

LENGTH, BATCH, INPUTS = 5, 3, 4
STOPS = EntityKind("stop", 3, (Feature("weight", "in kg"),), (Feature("there", "1 if it is"), Feature("wait", "in h")))
ROLES = {
    "truck": Role(1, Box(-math.inf, math.inf, (3,)), Discrete(4), pointers=(Pointer(None, 1), Pointer("stop", 1))),
    "drone": Role(2, Box(-math.inf, math.inf, (INPUTS,)), Discrete(5), pointers=(Pointer("stop", 1), Pointer(None, 2))),
}


def network(kind, head_size, head_gain=0.01, pointers=()):
    if kind is Attention:
        return Attention((STOPS,), head_size, head_gain, pointers, (), size=8, num_heads=2, num_layers=1)
    memory = {"recurrent_size": 6} if kind is GRU else {}
    return kind((8,), head_size, head_gain, activation="tanh", **memory)


def actors_of(kind, separate):
    """Actors of `ROLES`, with a network of this kind each."""
    networks = {name: network(kind, role.action.num_actions, pointers=role.pointers) for name, role in ROLES.items()}
    return Actors(networks, ROLES, frozenset(separate), (STOPS,) if kind is Attention else ())


def saw(length=LENGTH, kind=MLP):
    """What is seen in so many steps, noise: entities, of which the second is void, where the networks read them."""
    observation = {"truck": noise((length, BATCH, 1, 3), 5), "drone": noise((length, BATCH, 2, INPUTS), 6)}
    if kind is not Attention:
        return Seen(observation, noise((length, BATCH, 9), 8), {}, {}, {})
    there = jnp.broadcast_to(jnp.array([1.0, 0.0, 1.0]), (length, BATCH, 1, 3))
    dynamic = jnp.concatenate([there, there * noise((length, BATCH, 1, 3), 10)], axis=2)
    return Seen(observation, None, {"stop": noise((length, BATCH, 1, 3), 9)}, {"stop": dynamic}, {})


def noise(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def noise_like(shapes, seed=0):
    """Parameters of the given shapes, filled with noise."""
    leaves, structure = jax.tree.flatten(shapes)
    return jax.tree.unflatten(structure, [0.6 * noise(leaf.shape, seed + i) for i, leaf in enumerate(leaves)])


@dataclasses.dataclass(frozen=True)
class Applied:
    """Actors with parameters of noise, what they saw, and what came out; the recurrent states are reset once."""

    actors: Any
    apply: Any
    params: Any
    seen: Any
    carry: Any
    reset: Any
    logits: Any
    new_carry: Any


@pytest.fixture(scope="module", params=[MLP, GRU, Attention], ids=["mlp", "gru", "attention"])
def applied(request):
    """`applied(separate)`: an `Applied`, whose roles `separate` have an actor for every agent."""

    @functools.cache
    def apply(separate):
        actors, seen = actors_of(request.param, separate), saw(kind=request.param)
        carry = jax.tree.map(lambda leaf: noise(leaf.shape, 7), actors.initial_carry(BATCH))
        reset = jnp.zeros((LENGTH, BATCH), bool).at[2, 1].set(True)
        key = jax.random.key(2)
        params = noise_like(jax.eval_shape(lambda key: {name: actors.init(key, name) for name in ROLES}, key))
        jitted = jax.jit(actors.apply)
        return Applied(actors, jitted, params, seen, carry, reset, *jitted(params, seen, carry, reset))

    return apply


@pytest.mark.slow("Attention")
@pytest.mark.parametrize("kind", [MLP, Attention])
def test_fresh_actors_are_nearly_undecided(kind):
    actors, seen = actors_of(kind, {"drone"}), saw(kind=kind)

    def init_and_apply(key):
        params = {name: actors.init(key, name) for name in ROLES}
        reset = jnp.zeros((LENGTH, BATCH), bool)
        return params, actors.apply(params, seen, actors.initial_carry(BATCH), reset)[0]

    params, logits = jax.jit(init_and_apply)(jax.random.key(2))
    for name, role in ROLES.items():
        num_actions = role.action.num_actions
        assert logits[name].shape == (LENGTH, BATCH, role.num_agents, num_actions)
        np.testing.assert_allclose(jax.nn.softmax(logits[name]), 1 / num_actions, rtol=0.06)
        assert np.ptp(logits[name]) > 1e-4
    first, second = params["drone"]["params"]["Dense_0"]["kernel"]
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.slow("attention-separate", "gru-separate")
@pytest.mark.parametrize("separate", [(), ("drone",)], ids=["shared", "separate"])
def test_who_shares_parameters(applied, separate):
    before = applied(separate)
    chex.assert_trees_all_equal_shapes(before.new_carry, before.carry)
    drone = before.params["drone"]
    if separate:
        moved = jax.tree.map(lambda leaf: leaf.at[1].add(0.5), drone)
    else:
        moved = jax.tree.map(lambda leaf: leaf + 0.5, drone)
    logits, new_carry = before.apply({**before.params, "drone": moved}, before.seen, before.carry, before.reset)
    np.testing.assert_array_equal(logits["truck"], before.logits["truck"])
    change = np.abs(logits["drone"] - before.logits["drone"]).max(axis=(0, 3))
    assert change[:, 1].min() > 1e-3
    assert (change[:, 0] == 0).all() == bool(separate)
    pairs = zip(jax.tree.leaves(new_carry["drone"]), jax.tree.leaves(before.new_carry["drone"]), strict=True)
    for carry_after, carry_before in pairs:
        moved_by = np.abs(carry_after - carry_before).max(axis=2)
        assert (moved_by > 0).tolist() == [[not separate, True]] * BATCH


def test_separate_actors_are_single_agents_side_by_side(applied):
    crew = applied(("drone",))
    apply_single = jax.jit(crew.actors.networks["drone"].apply)

    def agents_part(tree, agent):
        return jax.tree.map(lambda leaf: leaf[:, agent : agent + 1], tree)

    for agent in range(2):
        params = jax.tree.map(lambda leaf, agent=agent: leaf[agent], crew.params["drone"])
        inputs = crew.seen.observation["drone"][:, :, agent : agent + 1]
        if crew.seen.entities:
            inputs = EntityInput(inputs, crew.seen.static, crew.seen.entities)
        logits, carry = apply_single(params, inputs, agents_part(crew.carry["drone"], agent), crew.reset)
        chex.assert_trees_all_close(crew.logits["drone"][:, :, agent], logits[:, :, 0], atol=1e-5)
        chex.assert_trees_all_close(agents_part(crew.new_carry["drone"], agent), carry, atol=1e-5)


def test_a_central_critic_has_one_value_for_every_agent_in_order():
    critics = Critics({TEAM: network(MLP, 3, 1.0)}, ROLES)
    seen = saw(1)
    inputs = critics.inputs(seen)
    np.testing.assert_array_equal(inputs[TEAM], seen.global_observation[:, :, None])
    params = noise_like(jax.eval_shape(lambda key: critics.init(key, TEAM, inputs[TEAM][0]), jax.random.key(0)))
    params["params"]["Dense_0"] = {"kernel": jnp.zeros((8, 3)), "bias": jnp.array([10.0, 20.0, 30.0])}
    apply = jax.jit(critics.apply)
    values, _ = apply({TEAM: params}, inputs, critics.initial_carry(BATCH), jnp.zeros((1, BATCH), bool))
    np.testing.assert_array_equal(values["truck"], np.full((1, BATCH, 1), 10.0))
    np.testing.assert_array_equal(values["drone"], np.full((1, BATCH, 2), [20.0, 30.0]))


def test_a_central_critic_of_entities_reads_them_and_the_mean_agent_of_each_role():
    critics, seen = Critics({TEAM: network(Attention, 3, 1.0)}, ROLES), saw(1, Attention)
    inputs = critics.inputs(seen)
    truck, drone = seen.observation["truck"], seen.observation["drone"]
    mean = np.concatenate([truck[:, :, :1], 0.5 * (drone[:, :, :1] + drone[:, :, 1:])], axis=-1)
    np.testing.assert_allclose(inputs[TEAM].context, mean, atol=1e-6)
    # A void drone counts nowhere; of a role without valid rows nothing is left.
    valid = {"drone": jnp.broadcast_to(jnp.array([False, True]), drone.shape[:3])}
    alone = critics.inputs(seen.replace(valid=valid))[TEAM].context
    np.testing.assert_allclose(alone, np.concatenate([truck[:, :, :1], drone[:, :, 1:]], axis=-1), atol=1e-6)
    nobody = critics.inputs(seen.replace(valid={"drone": jnp.zeros(drone.shape[:3], bool)}))[TEAM].context
    np.testing.assert_array_equal(nobody[..., truck.shape[-1] :], 0)
    first = jax.tree.map(lambda leaf: leaf[0], inputs[TEAM])
    params = noise_like(jax.eval_shape(lambda key: critics.init(key, TEAM, first), jax.random.key(0)))
    reset = jnp.zeros((1, BATCH), bool)
    apply = jax.jit(lambda seen: critics.apply({TEAM: params}, critics.inputs(seen), {TEAM: ()}, reset)[0])
    before, swapped = apply(seen), {**seen.observation, "drone": drone[:, :, ::-1]}
    assert jax.tree.map(jnp.shape, before) == {"truck": (1, BATCH, 1), "drone": (1, BATCH, 2)}
    chex.assert_trees_all_close(apply(seen.replace(observation=swapped)), before, atol=1e-5)
    for planes in ("static", "entities"):
        moved = {"stop": getattr(seen, planes)["stop"].at[:, :, -1].multiply(3.0)}
        assert np.abs(apply(seen.replace(**{planes: moved}))["drone"] - before["drone"]).min() > 1e-5


@pytest.mark.parametrize("kind", [MLP, Attention])
def test_a_local_critic_sees_its_role_only(kind):
    critics, seen = Critics({name: network(kind, 1, 1.0) for name in ROLES}, ROLES), saw(1, kind)
    inputs = critics.inputs(seen)
    for name, observation in seen.observation.items():
        assert (inputs[name].context if kind is Attention else inputs[name]) is observation
    params = {
        name: noise_like(
            jax.eval_shape(
                lambda key, n=name: critics.init(key, n, jax.tree.map(lambda x: x[0], inputs[n])), jax.random.key(0)
            )
        )
        for name in ROLES
    }
    reset = jnp.zeros((1, BATCH), bool)
    apply = jax.jit(lambda seen: critics.apply(params, critics.inputs(seen), critics.initial_carry(BATCH), reset)[0])
    before = apply(seen)
    moved = {**seen.observation, "drone": seen.observation["drone"].at[:, :, 1].add(noise(INPUTS))}
    after = apply(seen.replace(observation=moved))
    np.testing.assert_array_equal(before["truck"], after["truck"])
    np.testing.assert_array_equal(before["drone"][..., 0], after["drone"][..., 0])
    assert np.abs(before["drone"] - after["drone"])[..., 1].min() > 1e-4


def test_samples_of_the_agents_match_their_probabilities_and_are_independent():
    count = 20_000
    logits = {"truck": np.array([[0.5, -0.5, 1.0]]), "drone": np.array([[0.0, 1.0], [0.4, 0.0]])}
    mask = {"truck": np.array([[1, 1, 0]], bool), "drone": np.ones((2, 2), bool)}
    tiled_logits = {name: np.tile(rows, (count, 1, 1)) for name, rows in logits.items()}
    tiled_mask = {name: np.tile(rows, (count, 1, 1)) for name, rows in mask.items()}
    action = jax.jit(sample_actions)(jax.random.key(5), tiled_logits, tiled_mask)
    log_prob = jax.jit(log_probs)(tiled_logits, tiled_mask, action)
    weights = {name: np.where(mask[name], np.exp(logits[name]), 0.0) for name in logits}
    samples, probabilities = [], []
    for name, agent in (("truck", 0), ("drone", 0), ("drone", 1)):
        chosen = np.asarray(action[name][:, agent])
        probability = weights[name][agent] / weights[name][agent].sum()
        five_sigma = 5 * np.sqrt(probability * (1 - probability) / count)
        share = np.bincount(chosen, minlength=len(probability)) / count
        assert (np.abs(share - probability) <= five_sigma).all()
        np.testing.assert_allclose(log_prob[name][:, agent], np.log(probability[chosen]), atol=1e-5)
        samples.append(chosen)
        probabilities.append(probability)
    for first, second in itertools.combinations(range(3), 2):
        both = np.mean((samples[first] == 0) & (samples[second] == 0))
        expected = probabilities[first][0] * probabilities[second][0]
        assert abs(both - expected) <= 5 * math.sqrt(expected * (1 - expected) / count)
