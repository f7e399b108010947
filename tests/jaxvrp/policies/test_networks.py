"""Networks: the table of them, recurrent layers over time, initialisation and normalisation."""

import math

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import fields
from jaxvrp.policies.networks import NETWORKS, build_network, layers
from jaxvrp.policies.networks.gru import GRULayer
from jaxvrp.policies.networks.layers import NetworkSpec
from train.on_policy.config import PPOConfig

LENGTH, BATCH, AGENTS, INPUTS, HIDDEN = 5, 3, 2, 9, 6
SHAPE = (LENGTH, BATCH, AGENTS, INPUTS)
ACTIVATE = {"relu": lambda x: max(x, 0.0), "tanh": math.tanh, "silu": lambda x: x / (1 + math.exp(-x))}


def network(kind="mlp", **changes):
    keys = {"hidden_sizes": (8,), "recurrent_size": HIDDEN, "activation": "tanh", **changes}
    spec = NetworkSpec(is_actor=True, num_agents=AGENTS, head_size=5, head_gain=0.01)
    return build_network(PPOConfig(network=kind, **keys), spec)


def noise(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def shaken(params, seed=0):
    """The same tree, filled with noise."""
    leaves, structure = jax.tree.flatten(params)
    return jax.tree.unflatten(structure, [0.6 * noise(leaf.shape, seed + i) for i, leaf in enumerate(leaves)])


def resets(*where):
    return jnp.zeros((LENGTH, BATCH), bool).at[tuple(zip(*where, strict=True))].set(True)


@pytest.fixture(scope="module")
def gru():
    """A GRU with parameters of noise, jitted."""
    net = network("gru")
    carry = net.initial_carry(BATCH, AGENTS)
    assert carry.shape == (BATCH, AGENTS, HIDDEN)
    params = shaken(jax.eval_shape(net.init, jax.random.key(0), noise(SHAPE), carry, resets((0, 0))))
    return jax.jit(lambda *args: net.apply(params, *args)), noise(carry.shape, 9)


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


def test_the_layer_is_the_cell_of_flax():
    layer, cell = GRULayer(HIDDEN), nn.GRUCell(HIDDEN)
    inputs, hidden = noise(SHAPE, 2), noise((BATCH, AGENTS, HIDDEN), 3)
    reset = jnp.zeros((LENGTH, BATCH), bool)
    params = shaken(jax.eval_shape(layer.init, jax.random.key(0), inputs, hidden, reset))
    gru = params["params"]
    gates = {"z": slice(0, HIDDEN), "r": slice(HIDDEN, 2 * HIDDEN), "n": slice(2 * HIDDEN, None)}
    flax_params = {f"i{g}": jax.tree.map(lambda leaf, g=g: leaf[..., gates[g]], gru["Dense_0"]) for g in gates}
    flax_params |= {f"h{g}": {"kernel": gru["recurrent"][:, gates[g]]} for g in gates}
    flax_params["hn"]["bias"] = gru["recurrent_bias"]
    outputs, last = jax.jit(layer.apply)(params, inputs, hidden, reset)
    step = jax.jit(cell.apply)
    for t in range(LENGTH):
        hidden, out = step({"params": flax_params}, hidden, inputs[t])
        chex.assert_trees_all_close(outputs[t], out, atol=1e-5)
    chex.assert_trees_all_close(last, hidden, atol=1e-5)


def layer_norm(x, norm):
    """`norm` holds scale and bias, if the layer has them."""
    scale, bias = np.asarray(norm.get("scale", 1)), np.asarray(norm.get("bias", 0))
    return (x - x.mean()) / math.sqrt(x.var() + 1e-6) * scale + bias


@pytest.mark.parametrize("activation", ACTIVATE)
@pytest.mark.parametrize("normed", [True, False])
def test_mlp_against_numpy(activation, normed):
    net = network(hidden_sizes=(8, 7), activation=activation, layer_norm=normed)
    inputs = noise(SHAPE, 4)
    reset = resets((1, 1))
    params = shaken(jax.eval_shape(net.init, jax.random.key(0), inputs, (), reset))
    outputs, carry = jax.jit(net.apply)(params, inputs, (), reset)
    assert carry == ()
    trunk, head = params["params"]["Trunk_0"], params["params"]["Dense_0"]
    for i in np.ndindex(SHAPE[:-1]):
        x = np.asarray(inputs[i])
        x = layer_norm(x, trunk.get("LayerNorm_0", {})) if normed else x
        for layer in range(2):
            x = x @ np.asarray(trunk[f"Dense_{layer}"]["kernel"]) + np.asarray(trunk[f"Dense_{layer}"]["bias"])
            x = np.array([ACTIVATE[activation](float(entry)) for entry in x])
            x = layer_norm(x, trunk.get(f"LayerNorm_{layer + 1}", {})) if normed else x
        expected = x @ np.asarray(head["kernel"]) + np.asarray(head["bias"])
        np.testing.assert_allclose(outputs[i], expected, rtol=1e-4, atol=1e-4)


def test_layer_norm_leaves_a_short_input_as_it_is():
    # Of two numbers it would leave which is the greater.
    net = network(hidden_sizes=(8,), layer_norm=True)
    inputs = jnp.array([0.0, 1.0, 0.9, 1.0], jnp.float32).reshape(2, 1, 1, 2)
    reset = jnp.zeros((2, 1), bool)
    params = shaken(jax.eval_shape(net.init, jax.random.key(0), inputs, (), reset))
    (far, near), _ = net.apply(params, inputs, (), reset)
    assert np.abs(far - near).max() > 0.1


@pytest.fixture(params=["cpu", "gpu"])
def platform(request, monkeypatch):
    """The forms of a CPU, or those of a GPU, played by a CPU."""
    if request.param == "gpu":
        monkeypatch.setattr(jax.lax, "platform_dependent", lambda *xs, default, **forms: default(*xs))


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(
    ("written", "derived"),
    [
        (layers.layer_norm, lambda x: nn.LayerNorm(use_scale=False, use_bias=False).apply({}, x)),
        (layers.softmax, nn.softmax),
    ],
)
def test_a_gradient_that_is_written_out_is_the_derived_one(written, derived):
    # Of equal numbers the variance is 0.
    x, weight = noise((5, 3, 9), 1).at[0, 0].set(0.5), noise((5, 3, 9), 2)
    slopes = [jax.jit(jax.grad(lambda x, f=f: (weight * f(x)).sum()))(x) for f in (written, derived)]
    np.testing.assert_allclose(written(x), derived(x), atol=1e-5)
    np.testing.assert_allclose(slopes[0][0, 1:], slopes[1][0, 1:], atol=1e-5)
    np.testing.assert_allclose(slopes[0][1:], slopes[1][1:], atol=1e-5)
    assert np.isfinite(slopes[0]).all()


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("few", [3, layers.SMALL + 1])
@pytest.mark.parametrize("equation", ["rmhe,rnhe->rhmn", "rhmn,rnhe->rmhe", "rahe,rmhe->rahm", "rahm,rmhe->rahe"])
def test_contractions_and_their_gradients(equation, few):
    of_left, of_right, out = equation.replace("->", ",").split(",")
    sizes = {"r": 4, "a": 2, "h": 2, "e": 5, "m": few, "n": few}
    left, right, slope = (noise([sizes[name] for name in names], len(names)) for names in (of_left, of_right, out))
    made, back = jax.vjp(lambda *factors: layers.contract(equation, *factors), left, right)
    exact = [np.asarray(x, np.float64) for x in (left, right, slope)]
    np.testing.assert_allclose(made, np.einsum(equation, *exact[:2]), atol=1e-5)
    to_left, to_right = back(slope)
    np.testing.assert_allclose(to_left, np.einsum(f"{out},{of_right}->{of_left}", exact[2], exact[1]), atol=1e-5)
    np.testing.assert_allclose(to_right, np.einsum(f"{of_left},{out}->{of_right}", exact[0], exact[2]), atol=1e-5)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"network is 'lstm'; it must be one of: mlp, gru, attention"):
        fields.build(PPOConfig, {"network": "lstm"}, "key")


def test_a_kind_with_memory_learns_from_chunks_and_carries_something():
    for name, kind in NETWORKS.items():
        config = PPOConfig(network=name, rollout_length=100, chunk_length=20)
        assert config.sequence_length == (20 if kind.has_memory else 100)
        if not kind.reads_entities:
            assert bool(jax.tree.leaves(network(name).initial_carry(BATCH, AGENTS))) == kind.has_memory
    assert [name for name, kind in NETWORKS.items() if kind.has_memory] == ["gru"]


def assert_orthogonal(kernel, gain):
    kernel = np.asarray(kernel, np.float64)
    short = kernel if kernel.shape[0] <= kernel.shape[1] else kernel.T
    np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-5 * gain**2)


@pytest.fixture(scope="module")
def fresh_gru():
    """Freshly initialised parameters of a GRU with two dense layers."""
    net = network("gru", hidden_sizes=(8, 12))
    args = (noise(SHAPE), net.initial_carry(BATCH, AGENTS), resets((0, 0)))
    return jax.jit(net.init)(jax.random.key(1), *args)["params"]


def test_dense_layers_are_orthogonal(fresh_gru):
    trunk = fresh_gru["Trunk_0"]
    for name, shape in {"Dense_0": (INPUTS, 8), "Dense_1": (8, 12)}.items():
        assert trunk[name]["kernel"].shape == shape
        assert_orthogonal(trunk[name]["kernel"], math.sqrt(2))
    assert_orthogonal(fresh_gru["Dense_0"]["kernel"], 0.01)
    flat = jax.tree_util.tree_leaves_with_path(fresh_gru)
    biases = [leaf for path, leaf in flat if path[-1].key.endswith("bias")]
    assert len(biases) >= 2 + 2 + 1  # dense and recurrent layers, head
    assert not any(np.any(bias) for bias in biases)


def test_every_gate_begins_as_a_layer_of_its_own(fresh_gru):
    gru = fresh_gru["GRULayer_0"]
    bound = math.sqrt(6 / (12 + HIDDEN))
    for recurrent, kernel in zip(
        *(np.split(x, 3, 1) for x in (gru["recurrent"], gru["Dense_0"]["kernel"])), strict=True
    ):
        assert_orthogonal(recurrent, 1.0)
        assert 0.8 * bound < np.abs(kernel).max() <= bound
        assert abs(kernel.std() - bound / math.sqrt(3)) < 0.2 * bound
    first, second, third = np.split(gru["recurrent"], 3, axis=1)
    assert min(np.abs(first - second).max(), np.abs(second - third).max()) > 0.1
