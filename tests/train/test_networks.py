"""Networks: recurrent layers over time, initialisation, normalisation, and who shares parameters with whom."""

import math

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from train.networks.networks import make_network

from jaxvrp import Role
from jaxvrp.spaces import Box, Discrete
from train.networks.gru import GRULayer
from train.on_policy.actor_critic import TEAM, Actors, Critics

LENGTH, BATCH, AGENTS, INPUTS, HIDDEN = 5, 3, 2, 4, 6
SHAPE = (LENGTH, BATCH, AGENTS, INPUTS)
ROLES = {
    "truck": Role(1, Box(-math.inf, math.inf, (3,)), Discrete(4)),
    "drone": Role(2, Box(-math.inf, math.inf, (INPUTS,)), Discrete(5)),
}
ACTIVATE = {"relu": lambda x: max(x, 0.0), "tanh": math.tanh, "silu": lambda x: x / (1 + math.exp(-x))}


def network(kind="mlp", **changes):
    usual = {"head_size": 5, "head_gain": 0.01, "hidden_sizes": (8,), "recurrent_size": HIDDEN, "recurrent_layers": 1}
    return make_network(kind, **{**usual, "activation": "tanh", "layer_norm": True, **changes})


def noise(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def shaken(params, seed=0):
    """The same tree, filled with noise."""
    leaves, structure = jax.tree.flatten(params)
    return jax.tree.unflatten(structure, [0.6 * noise(leaf.shape, seed + i) for i, leaf in enumerate(leaves)])


def resets(*where):
    return jnp.zeros((LENGTH, BATCH), bool).at[tuple(zip(*where, strict=True))].set(True)


@pytest.fixture(scope="module", params=[1, 2], ids=["one layer", "two layers"])
def gru(request, quick_jit):
    """A GRU with parameters of noise, jitted."""
    net = network("gru", recurrent_layers=request.param)
    carry = net.initial_carry(BATCH, AGENTS)
    assert carry.shape == (BATCH, AGENTS, request.param, HIDDEN)
    params = shaken(jax.eval_shape(net.init, jax.random.key(0), noise(SHAPE), carry, resets((0, 0))))
    return quick_jit(lambda *args: net.apply(params, *args)), noise(carry.shape, 9)


def test_a_sequence_is_its_steps_one_by_one(gru):
    apply, carry = gru
    inputs, reset = noise(SHAPE, 1), resets((0, 1), (2, 0), (3, 0), (4, 2))
    outputs, last = apply(inputs, carry, reset)
    hidden = np.array(carry)
    for t in range(LENGTH):
        hidden[np.asarray(reset[t])] = 0.0
        step, hidden = apply(inputs[t : t + 1], jnp.asarray(hidden), jnp.zeros((1, BATCH), bool))
        hidden = np.array(hidden)
        chex.assert_trees_all_close(outputs[t], step[0], atol=1e-5)
    chex.assert_trees_all_close(last, hidden, atol=1e-5)


def test_nothing_is_remembered_across_a_reset(gru):
    apply, carry = gru
    inputs, reset = noise(SHAPE, 1), resets((3, 1))
    before, _ = apply(inputs, carry, reset)
    after, _ = apply(inputs.at[:3].add(1.0), carry + 1.0, reset)
    np.testing.assert_array_equal(before[3:, 1], after[3:, 1])
    others = np.abs(before - after).max(axis=(0, 2, 3))
    assert others.min() > 1e-3
    assert np.abs(before[3:, ::2] - after[3:, ::2]).max(axis=(0, 2, 3)).min() > 1e-4


def test_the_layer_is_the_cell_of_flax(quick_jit):
    layer, cell = GRULayer(HIDDEN), nn.GRUCell(HIDDEN)
    inputs, hidden = noise(SHAPE, 2), noise((BATCH, AGENTS, HIDDEN), 3)
    reset = jnp.zeros((LENGTH, BATCH), bool)
    params = shaken(jax.eval_shape(layer.init, jax.random.key(0), inputs, hidden, reset))
    own = params["params"]
    gates = {"z": slice(0, HIDDEN), "r": slice(HIDDEN, 2 * HIDDEN), "n": slice(2 * HIDDEN, None)}
    theirs = {f"i{g}": jax.tree.map(lambda leaf, g=g: leaf[..., gates[g]], own["Dense_0"]) for g in gates}
    theirs |= {f"h{g}": {"kernel": own["recurrent"][:, gates[g]]} for g in gates}
    theirs["hn"]["bias"] = own["recurrent_bias"]
    outputs, last = quick_jit(layer.apply)(params, inputs, hidden, reset)
    step = quick_jit(cell.apply)
    for t in range(LENGTH):
        hidden, out = step({"params": theirs}, hidden, inputs[t])
        chex.assert_trees_all_close(outputs[t], out, atol=1e-5)
    chex.assert_trees_all_close(last, hidden, atol=1e-5)


def layer_norm(x, own):
    """`own` holds scale and bias, if the layer has them."""
    return (x - x.mean()) / math.sqrt(x.var() + 1e-6) * np.asarray(own.get("scale", 1)) + np.asarray(own.get("bias", 0))


@pytest.mark.parametrize("activation", ACTIVATE)
@pytest.mark.parametrize("normed", [True, False])
def test_mlp_against_numpy(quick_jit, activation, normed):
    net = network(hidden_sizes=(8, 7), activation=activation, layer_norm=normed)
    inputs = noise(SHAPE, 4)
    reset = resets((1, 1))
    params = shaken(jax.eval_shape(net.init, jax.random.key(0), inputs, (), reset))
    outputs, carry = quick_jit(net.apply)(params, inputs, (), reset)
    assert carry == ()
    own, head = params["params"]["Trunk_0"], params["params"]["Dense_0"]
    for i in np.ndindex(SHAPE[:-1]):
        x = np.asarray(inputs[i])
        x = layer_norm(x, own.get("LayerNorm_0", {})) if normed else x
        for layer in range(2):
            x = x @ np.asarray(own[f"Dense_{layer}"]["kernel"]) + np.asarray(own[f"Dense_{layer}"]["bias"])
            x = np.array([ACTIVATE[activation](float(entry)) for entry in x])
            x = layer_norm(x, own.get(f"LayerNorm_{layer + 1}", {})) if normed else x
        expected = x @ np.asarray(head["kernel"]) + np.asarray(head["bias"])
        np.testing.assert_allclose(outputs[i], expected, rtol=1e-4, atol=1e-4)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"lstm.*mlp, gru"):
        network("lstm")


def assert_orthogonal(kernel, gain):
    kernel = np.asarray(kernel, np.float64)
    short = kernel if kernel.shape[0] <= kernel.shape[1] else kernel.T
    np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-5 * gain**2)


@pytest.fixture(scope="module")
def fresh_gru(quick_jit):
    """Freshly initialised parameters of a GRU with two dense and two recurrent layers."""
    net = network("gru", hidden_sizes=(8, 12), recurrent_layers=2)
    args = (noise(SHAPE), net.initial_carry(BATCH, AGENTS), resets((0, 0)))
    return quick_jit(net.init)(jax.random.key(1), *args)["params"]


def test_dense_layers_are_orthogonal(fresh_gru):
    trunk = fresh_gru["Trunk_0"]
    for name, shape in {"Dense_0": (INPUTS, 8), "Dense_1": (8, 12)}.items():
        assert trunk[name]["kernel"].shape == shape
        assert_orthogonal(trunk[name]["kernel"], math.sqrt(2))
    assert_orthogonal(fresh_gru["Dense_0"]["kernel"], 0.01)
    flat = jax.tree_util.tree_leaves_with_path(fresh_gru)
    biases = [leaf for path, leaf in flat if path[-1].key.endswith("bias")]
    assert len(biases) >= 2 + 2 * 2 + 1  # dense and recurrent layers, head
    assert not any(np.any(bias) for bias in biases)


@pytest.mark.parametrize(("layer", "inputs"), [("GRULayer_0", 12), ("GRULayer_1", HIDDEN)])
def test_every_gate_begins_as_a_layer_of_its_own(fresh_gru, layer, inputs):
    own = fresh_gru[layer]
    bound = math.sqrt(6 / (inputs + HIDDEN))
    for recurrent, kernel in zip(
        *(np.split(x, 3, 1) for x in (own["recurrent"], own["Dense_0"]["kernel"])), strict=True
    ):
        assert_orthogonal(recurrent, 1.0)
        assert 0.8 * bound < np.abs(kernel).max() <= bound
        assert abs(kernel.std() - bound / math.sqrt(3)) < 0.2 * bound
    first, second, third = np.split(own["recurrent"], 3, axis=1)
    assert min(np.abs(first - second).max(), np.abs(second - third).max()) > 0.1


@pytest.fixture(scope="module", params=["mlp", "gru"])
def crew(request):
    """`crew(separate)`: actors, observations, carries of noise, resets."""

    def make(separate):
        networks = {name: network(request.param, head_size=role.action.num_actions) for name, role in ROLES.items()}
        actors = Actors(networks, ROLES, frozenset(separate))
        seen = {"truck": noise((LENGTH, BATCH, 1, 3), 5), "drone": noise((LENGTH, BATCH, 2, INPUTS), 6)}
        carry = jax.tree.map(lambda leaf: noise(leaf.shape, 7), actors.initial_carry(BATCH))
        return actors, seen, carry, resets((2, 1))

    return make


def shapes(actors):
    return jax.eval_shape(lambda key: {name: actors.init(key, name) for name in ROLES}, jax.random.key(2))


@pytest.mark.parametrize("crew", ["mlp"], indirect=True)
def test_fresh_actors_are_nearly_undecided(crew, quick_jit):
    actors, seen, carry, reset = crew(("drone",))

    def apply(key):
        fresh = {name: actors.init(key, name) for name in ROLES}
        return fresh, actors.apply(fresh, seen, carry, reset)[0]

    fresh, logits = quick_jit(apply)(jax.random.key(2))
    for name, own in logits.items():
        count = ROLES[name].action.num_actions
        assert own.shape == (LENGTH, BATCH, ROLES[name].num_agents, count)
        np.testing.assert_allclose(jax.nn.softmax(own), 1 / count, rtol=0.06)
        assert np.ptp(own) > 1e-4
    first, second = fresh["drone"]["params"]["Dense_0"]["kernel"]
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("separate", [(), ("drone",)], ids=["shared", "separate"])
def test_who_shares_parameters(crew, quick_jit, separate):
    actors, seen, carry, reset = crew(separate)
    apply = quick_jit(actors.apply)
    params = shaken(shapes(actors))
    before, after = apply(params, seen, carry, reset)
    chex.assert_trees_all_equal_shapes(after, carry)
    if separate:
        moved = {**params, "drone": jax.tree.map(lambda leaf: leaf.at[1].add(0.5), params["drone"])}
    else:
        moved = {**params, "drone": jax.tree.map(lambda leaf: leaf + 0.5, params["drone"])}
    other, other_after = apply(moved, seen, carry, reset)
    np.testing.assert_array_equal(other["truck"], before["truck"])
    change = np.abs(other["drone"] - before["drone"]).max(axis=(0, 3))
    assert change[:, 1].min() > 1e-3
    assert (change[:, 0] == 0).all() == bool(separate)
    for one, two in zip(jax.tree.leaves(other_after["drone"]), jax.tree.leaves(after["drone"]), strict=True):
        assert (np.abs(one - two).max(axis=(2, 3)) > 0).tolist() == [[not separate, True]] * BATCH


def test_separate_actors_are_single_agents_side_by_side(crew, quick_jit):
    actors, seen, carry, reset = crew(("drone",))
    params = shaken(shapes(actors))
    logits, after = quick_jit(actors.apply)(params, seen, carry, reset)
    alone = quick_jit(actors.networks["drone"].apply)
    for agent in range(2):
        own = jax.tree.map(lambda leaf, agent=agent: leaf[agent], params["drone"])
        mine = jax.tree.map(lambda leaf, agent=agent: leaf[:, agent : agent + 1], carry["drone"])
        expected, memory = alone(own, seen["drone"][:, :, agent : agent + 1], mine, reset)
        chex.assert_trees_all_close(logits["drone"][:, :, agent], expected[:, :, 0], atol=1e-5)
        kept = jax.tree.map(lambda leaf, agent=agent: leaf[:, agent : agent + 1], after["drone"])
        chex.assert_trees_all_close(kept, memory, atol=1e-5)


def test_a_central_critic_has_one_value_for_every_agent_in_order():
    critics = Critics({TEAM: network(head_size=3, head_gain=1.0)}, ROLES)
    seen = critics.inputs({}, noise((1, BATCH, 9), 8))
    params = shaken(jax.eval_shape(lambda key: critics.init(key, TEAM, seen[TEAM][0]), jax.random.key(0)))
    params["params"]["Dense_0"] = {"kernel": jnp.zeros((8, 3)), "bias": jnp.array([10.0, 20.0, 30.0])}
    values, _ = critics.apply({TEAM: params}, seen, critics.initial_carry(BATCH), jnp.zeros((1, BATCH), bool))
    np.testing.assert_array_equal(values["truck"], np.full((1, BATCH, 1), 10.0))
    np.testing.assert_array_equal(values["drone"], np.full((1, BATCH, 2), [20.0, 30.0]))


def test_a_local_critic_sees_its_role_only(quick_jit):
    critics = Critics({name: network(head_size=1, head_gain=1.0) for name in ROLES}, ROLES)
    seen = {"truck": noise((1, BATCH, 1, 3), 5), "drone": noise((1, BATCH, 2, INPUTS), 6)}
    assert critics.inputs(seen, noise((1, BATCH, 9))) is seen
    names = list(ROLES)
    params = {
        n: shaken(jax.eval_shape(lambda k, n=n: critics.init(k, n, seen[n][0]), jax.random.key(0))) for n in names
    }
    reset = jnp.zeros((1, BATCH), bool)
    apply = quick_jit(lambda seen: critics.apply(params, seen, critics.initial_carry(BATCH), reset)[0])
    before = apply(seen)
    after = apply({**seen, "drone": seen["drone"].at[:, :, 1].add(noise(INPUTS))})
    np.testing.assert_array_equal(before["truck"], after["truck"])
    np.testing.assert_array_equal(before["drone"][..., 0], after["drone"][..., 0])
    assert np.abs(before["drone"] - after["drone"])[..., 1].min() > 1e-4
