"""The attention network: entities in, logits that point at them out; one set of parameters for every number of them."""

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import EntityKind, Pointer
from jaxvrp.policies.networks import build_encoder, build_network
from jaxvrp.policies.networks.attention import Attention, Pointing
from jaxvrp.policies.networks.inputs import EntityInput, blank
from jaxvrp.policies.networks.layers import NetworkSpec
from jaxvrp.policies.networks.places import Sites, distances, sites
from jaxvrp.spaces import Feature, Place
from train.on_policy.config import PPOConfig

SIZE = {"attention_size": 16, "attention_heads": 4, "attention_layers": 2}
CONTEXT, BATCH = 5, 5
NODE_POINTERS = (Pointer(None, 1), Pointer("node", 2))
PLACES = ((2, 0), (1, 3))
"""Of the context: where the agent is, and another one."""

ENCODE = ("agent", "step", "instance")
"""What is encoded at a time; the last two by an encoder that roles share."""

BOTH_POINTERS = (Pointer(None, 1), Pointer("node", 1), Pointer("drone", 1), Pointer("drone", 1))


def features(*names):
    return tuple(Feature(name, "a number of the tests") for name in names)


def nodes(count, *, placed=True):
    """A kind whose two places never change: the first is to be visited while `waiting`, the other until the end."""
    static, dynamic = features("x", "y", "to_x", "to_y"), features("there", "waiting", "wish")
    places = (Place("waiting", "x", "y"), Place("there", "to_x", "to_y")) if placed else ()
    return EntityKind("node", count, static, dynamic, places)


def drones(count, *, placed=True):
    """A kind that moves."""
    places = (Place("there", "x", "y"),) if placed else ()
    return EntityKind("drone", count, features("reach"), features("there", "x", "y"), places)


def both(num_nodes, num_drones, *, placed=True):
    return nodes(num_nodes, placed=placed), drones(num_drones, placed=placed)


class Networks(NamedTuple):
    """What gives outputs.

    Attributes:
        reader: of the inputs.
        encoder: what it reads them through; None for nothing.
        kinds: the entities.
    """

    reader: nn.Module
    encoder: nn.Module | None
    kinds: tuple[EntityKind, ...]


def networks(kinds, *, is_actor=True, pointers=NODE_POINTERS, places=(), encode="agent", num_agents=3, **changes):
    """For a role that points so; a critic has two numbers."""
    counts = {kind.name: kind.count for kind in kinds}
    actions = sum(per_entity * counts.get(name, 1) for name, per_entity in pointers)
    spec = NetworkSpec(is_actor, num_agents, actions if is_actor else 2, 1.0, kinds, pointers, places)
    config = PPOConfig(network="attention", attention_encode=encode, **{**SIZE, **changes})
    return Networks(build_network(config, spec), build_encoder(config, spec) if is_actor else None, kinds)


def seen(kinds, *, agents=1, seed=0):
    """Random context and planes `[1, BATCH, ...]`; each third is void, each second node was at its first place."""
    random = np.random.default_rng(seed)
    context = random.normal(size=(1, BATCH, agents, CONTEXT))
    static, dynamic = {}, {}
    for kind in kinds:
        index = np.arange(kind.count)
        static[kind.name] = random.normal(size=(1, BATCH, len(kind.static), kind.count))
        planes = random.normal(size=(1, BATCH, len(kind.dynamic), kind.count))
        planes[..., 0, :] = 1.0
        if kind.name == "node":
            planes[..., 1, :] = index % 2
        dynamic[kind.name] = planes * (index % 3 > 0)
    return jax.tree.map(np.float32, EntityInput(context, static, dynamic))


def changed(inputs, kind, change):
    """With `change` applied to the planes of a kind, static and dynamic ones."""
    static, dynamic = ({**part, kind: change(part[kind])} for part in (inputs.static, inputs.entities))
    return EntityInput(inputs.context, static, dynamic)


def shapes_of_parameters(nets, context_size=CONTEXT):
    """Of the reader and of the encoder; () for none."""
    inputs, key = blank(context_size, 1, nets.kinds), jax.random.key(0)
    shapes: Any = ()
    if nets.encoder is not None:
        encoded, shapes = jax.eval_shape(lambda: nets.encoder.init_with_output(key, inputs.static, inputs.entities))
        inputs = inputs.replace(encoded=jnp.zeros(encoded.shape))
    return jax.eval_shape(nets.reader.init, key, inputs, (), jnp.zeros((1, 1), bool)), shapes


def parameters(nets, context_size=CONTEXT):
    """Parameters of noise, of about the size that they begin with."""
    random = np.random.default_rng(0)
    shapes = shapes_of_parameters(nets, context_size)
    return jax.tree.map(lambda leaf: random.normal(0, 0.25, leaf.shape).astype(np.float32), shapes)


def outputs_of(nets, params, inputs):
    of_reader, of_encoder = params
    if nets.encoder is not None:
        inputs = inputs.replace(encoded=nets.encoder.apply(of_encoder, inputs.static, inputs.entities))
    return nets.reader.apply(of_reader, inputs, (), jnp.zeros(inputs.context.shape[:2], bool))[0]


@functools.cache
def jitted(nets, context_size):
    return jax.jit(functools.partial(outputs_of, nets, parameters(nets, context_size)))


def outputs(nets, inputs):
    """Outputs `[B, A, head_size]` of networks with parameters of noise, for inputs `[1, B, ...]`."""
    return np.asarray(jitted(nets, inputs.context.shape[-1])(inputs)[0])


@pytest.mark.parametrize("placed", [True, False], ids=["with places", "without"])
def test_permuting_the_entities_permutes_the_logits(placed):
    kinds = (nodes(6, placed=placed),)
    net, inputs, order = networks(kinds), seen(kinds), np.array([4, 0, 5, 2, 1, 3])
    logits = outputs(net, inputs)[:, 0]
    permuted = outputs(net, changed(inputs, "node", lambda planes: planes[..., order]))[:, 0]
    np.testing.assert_allclose(permuted[:, 0], logits[:, 0], atol=1e-5)
    pairs = logits[:, 1:].reshape(-1, 6, 2)
    np.testing.assert_allclose(permuted[:, 1:].reshape(-1, 6, 2), pairs[:, order], atol=1e-5)
    assert np.ptp(pairs, axis=1).min() > 1e-3, "logits must tell entities apart"


def blocks(logits, num_nodes, num_drones):
    """Logits `[..., actions]` taken apart, by `BOTH_POINTERS`."""
    ends = np.cumsum([1, num_nodes, num_drones])
    return dict(zip(("stay", "node", "drone", "drone again"), np.split(logits, ends, axis=-1), strict=True))


@pytest.mark.slow(
    "drone-order1-instance without places",
    "drone-order1-step",
    "drone-order1-with places",
    "drone-order1-without",
    "node-order0-instance without places",
    "node-order0-step",
    "node-order0-with places",
    "node-order0-without",
)
@pytest.mark.parametrize(
    ("encode", "placed", "places"),
    [
        ("agent", True, PLACES),
        ("agent", True, ()),
        ("agent", False, ()),
        ("step", True, PLACES),
        ("instance", True, PLACES),
        ("instance", False, ()),
    ],
    ids=["framed", "with places", "without", "step", "instance", "instance without places"],
)
@pytest.mark.parametrize(("kind", "order"), [("node", [3, 0, 4, 2, 1]), ("drone", [2, 3, 1, 0])])
def test_permuting_a_kind_permutes_its_blocks_alone(kind, order, placed, places, encode):
    kinds = both(5, 4, placed=placed)
    net, inputs = networks(kinds, pointers=BOTH_POINTERS, places=places, encode=encode), seen(kinds, agents=2)
    before = blocks(outputs(net, inputs), 5, 4)
    after = blocks(outputs(net, changed(inputs, kind, lambda planes: planes[..., order])), 5, 4)
    for name, logits in before.items():
        expected = logits[..., order] if name.startswith(kind) else logits
        np.testing.assert_allclose(after[name], expected, atol=2e-5, err_msg=name)
        assert name == "stay" or np.ptp(logits, axis=-1).min() > 1e-3, "logits must tell entities apart"
    assert np.abs(before["drone"] - before["drone again"]).min(axis=(0, 1)).max() > 1e-3, "blocks differ"


@pytest.mark.slow("agent", "step")
@pytest.mark.parametrize("encode", ENCODE)
def test_void_entities_change_nothing_and_parameters_serve_any_number(encode):
    few, many = (
        networks(both(*counts), pointers=BOTH_POINTERS, places=PLACES, encode=encode) for counts in ((5, 4), (9, 5))
    )
    inputs = seen(both(5, 4))
    more = inputs
    for kind, count in (("node", 4), ("drone", 1)):
        more = changed(more, kind, lambda planes, n=count: np.pad(planes, [(0, 0)] * 3 + [(0, n)]))
    small, large = blocks(outputs(few, inputs), 5, 4), blocks(outputs(many, more), 9, 5)
    for name, logits in small.items():
        np.testing.assert_allclose(large[name][..., : logits.shape[-1]], logits, atol=1e-5)
    shapes = [jax.tree.map(jnp.shape, shapes_of_parameters(net)) for net in (few, many)]
    assert shapes[0] == shapes[1]


@pytest.mark.slow
def test_void_entities_of_one_kind_change_nothing_for_a_critic():
    few, many = (networks(both(count, 4), is_actor=False, places=PLACES) for count in (5, 8))
    inputs = seen(both(5, 4))
    more = changed(inputs, "node", lambda planes: np.pad(planes, [(0, 0)] * 3 + [(0, 3)]))
    np.testing.assert_allclose(outputs(many, more), outputs(few, inputs), atol=1e-5)


def overwritten(inputs, entity, parts):
    """With other numbers of a node in all of its planes, static, changing or both; it is there or not as before."""
    changes = {}
    for part in parts:
        planes = {kind: numbers.copy() for kind, numbers in getattr(inputs, part).items()}
        planes["node"][..., 1 if part == "entities" else 0 :, entity] = 9.0
        changes[part] = planes
    return inputs.replace(**changes)


@pytest.mark.parametrize("parts", [("entities",), ("static", "entities")], ids=["what changes", "all of it"])
@pytest.mark.parametrize(
    ("encode", "is_actor"), [("agent", False), *((encode, True) for encode in ENCODE)], ids=["critic", *ENCODE]
)
def test_what_is_behind_a_void_row_cannot_be_seen(encode, is_actor, parts):
    """Entity 0 is void; what never changes of it is encoded all the same, if it is encoded once for an episode."""
    kinds = (nodes(6),)
    net, inputs = networks(kinds, is_actor=is_actor, encode=encode), seen(kinds)
    before, after, other = (
        outputs(net, changed) for changed in (inputs, overwritten(inputs, 0, parts), overwritten(inputs, 1, parts))
    )
    # Its own logits, which are of no legal action, lie between that of staying and the others.
    others = [0, *range(3, 13)] if is_actor else [0, 1]
    is_seen = encode == "instance" and "static" in parts
    assert (after[..., others] != before[..., others]).any() == is_seen
    assert np.abs(other - before)[..., 0].max() > 1e-3


@pytest.mark.slow("agent", "step")
@pytest.mark.parametrize("encode", ENCODE)
def test_no_entity_at_all_gives_finite_logits(encode):
    kinds = both(6, 2)
    net, inputs = networks(kinds, pointers=BOTH_POINTERS, places=PLACES, encode=encode), seen(kinds)
    for kind in ("node", "drone"):
        inputs = changed(inputs, kind, np.zeros_like)
    logits = outputs(net, inputs)
    assert np.isfinite(logits).all()
    assert np.ptp(logits[..., 0]) > 1e-3, "the context is seen all the same"


@pytest.mark.slow("as it is", "critic", "step", "framed")
@pytest.mark.parametrize(
    ("encode", "is_actor", "places"),
    [
        ("agent", False, PLACES),
        ("agent", True, PLACES),
        ("agent", True, ()),
        ("step", True, PLACES),
        ("instance", True, PLACES),
    ],
    ids=["critic", "framed", "as it is", "step", "instance"],
)
def test_agents_who_share_planes_are_agents_one_by_one(encode, is_actor, places):
    kinds = both(4, 3)
    net = networks(kinds, is_actor=is_actor, pointers=BOTH_POINTERS, places=places, encode=encode)
    inputs = seen(kinds, agents=3)
    together = outputs(net, inputs)
    for agent in range(3):
        alone = outputs(net, inputs.replace(context=inputs.context[:, :, agent : agent + 1]))
        np.testing.assert_allclose(together[:, agent], alone[:, 0], atol=1e-5)
    assert np.abs(together[:, 0] - together[:, 1]).max() > 1e-3, "agents differ by what they alone see"


@pytest.mark.slow("agent", "step")
@pytest.mark.parametrize("encode", ENCODE)
def test_a_sequence_is_its_steps_one_by_one(encode):
    kinds = both(4, 3)
    net, steps = (
        networks(kinds, pointers=BOTH_POINTERS, encode=encode),
        [seen(kinds, agents=2, seed=seed) for seed in range(3)],
    )
    sequence = jax.tree.map(lambda *leaves: np.concatenate(leaves), *steps)
    together = jitted(net, CONTEXT)(sequence)
    for step, logits in zip(steps, together, strict=True):
        np.testing.assert_allclose(logits, outputs(net, step), atol=1e-5)


@pytest.mark.slow("critic", "as it is", "instance")
@pytest.mark.parametrize(
    ("encode", "is_actor", "places"),
    [("agent", False, PLACES), ("agent", True, ()), ("step", True, PLACES), ("instance", True, PLACES)],
    ids=["critic", "as it is", "step", "instance"],
)
def test_off_a_cpu_outputs_and_gradients_are_the_same(encode, is_actor, places, monkeypatch):
    kinds = both(4, 3)
    net = networks(kinds, is_actor=is_actor, pointers=BOTH_POINTERS, places=places, encode=encode)

    def loss(params, inputs):
        out = outputs_of(net, params, inputs)
        return (out * jnp.cos(jnp.arange(out.size)).reshape(out.shape)).sum(), out

    found = []
    for form in ("cpu", "default"):
        monkeypatch.setattr(jax.lax, "platform_dependent", lambda *xs, form=form, **forms: forms[form](*xs))
        found.append(jax.jit(jax.grad(loss, has_aux=True))(parameters(net), seen(kinds, agents=2)))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), *found)


def test_distances_against_a_loop():
    """Of entities of two kinds; a place is the first that is present, else the last."""
    kinds = both(5, 4)
    inputs = seen(kinds, seed=1)
    rows = {
        kind.name: np.moveaxis(np.concatenate([inputs.static[kind.name], inputs.entities[kind.name]], axis=2), 2, 3)[0]
        for kind in kinds
    }
    parts = [sites(rows[kind.name], kind) for kind in kinds]
    where = Sites(*(jnp.concatenate(both_kinds, axis=1) for both_kinds in zip(*parts, strict=True)))
    present = np.concatenate([rows["node"][..., 4], rows["drone"][..., 1]], axis=1) > 0
    distance, figures = jax.jit(distances)(where, present)
    for batch in range(BATCH):
        following = [r[:2] if r[5] > 0 else r[2:4] for r in rows["node"][batch]]
        following += [r[2:4] for r in rows["drone"][batch]]
        final = [r[2:4] for kind in ("node", "drone") for r in rows[kind][batch]]
        for i in np.flatnonzero(present[batch]):
            away = {j: np.hypot(*(following[i] - following[j])) for j in np.flatnonzero(present[batch]) if j != i}
            weight = {j: np.exp(-8 * d) for j, d in away.items()}
            soft = sum(weight[j] * away[j] for j in away) / sum(weight.values())
            last = min(np.hypot(*(final[i] - following[j])) for j in away)
            wanted = [min(away.values()), soft, last, np.hypot(*following[i]), np.hypot(*(following[i] - final[i]))]
            np.testing.assert_allclose(figures[batch, i], wanted, atol=1e-5)
            np.testing.assert_allclose([distance[batch, i, j] for j in away], list(away.values()), atol=1e-5)
        np.testing.assert_array_equal(figures[batch][~present[batch]], 0.0)


@pytest.fixture(scope="module")
def darp():
    """Dial-a-ride with four requests; and what is seen in an episode: `play(instance, nodes)`, `[steps + 1, ...]`."""
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2)

    def look(state, timestep):
        context, mask = timestep.observation["vehicle"], timestep.action_mask["vehicle"]
        return EntityInput(context, env.static_entities(state), timestep.entities), mask

    def play(instance, nodes):
        def step(state, node):
            state, timestep = env.step(state, {"vehicle": node[None]})
            return state, look(state, timestep)

        state, timestep = env.reset_to(instance)
        later = jax.lax.scan(step, state, nodes)[1]
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), look(state, timestep), later)

    return env, jax.jit(play)


def of_darp(env, *, is_actor=True, encode="agent"):
    """The networks of its vehicle; those that encode for each agent see a map in one position."""
    role = env.roles["vehicle"]
    names = [feature.name for feature in role.context]
    places = ((names.index("x"), names.index("y")),)
    return networks(env.entity_kinds, is_actor=is_actor, pointers=role.pointers, places=places, encode=encode)


def in_one_batch(*episodes):
    """Steps of several episodes as one batch, `[1, B, ...]`."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[None], *episodes)


@pytest.mark.slow
@pytest.mark.parametrize("encode", ENCODE)
def test_requests_of_darp_are_entities(encode, darp):
    """Permuting the requests of an instance permutes the logits."""
    env, play = darp
    instance = jax.jit(env.generate)(jax.random.key(3))
    order = np.array([2, 0, 3, 1])
    nodes = np.concatenate([[0], np.stack([1 + 2 * order, 2 + 2 * order], axis=1).ravel()])
    per_node = ("locs", "demand", "earliest", "deadline", "service_time")
    shuffled = instance.replace(**{name: getattr(instance, name)[nodes] for name in per_node})
    episode, mask = play(instance, jnp.array([5, 6, 0]))
    other, other_mask = play(shuffled, jnp.array([1, 2, 0]))  # request 2 has become the first
    logits = outputs(of_darp(env, encode=encode), in_one_batch(episode, other))[:, 0].reshape(2, 4, -1)[:, 1]
    np.testing.assert_allclose(logits[1], logits[0][nodes], atol=1e-5)
    assert np.ptp(logits[0]) > 1e-3
    np.testing.assert_array_equal(other_mask[1, 0], mask[1, 0][nodes])


@pytest.mark.slow
@pytest.mark.parametrize("is_actor", [True, False], ids=["actor", "critic"])
def test_turning_or_mirroring_an_instance_changes_nothing(is_actor, darp):
    """By the symmetries of the square, since the extent that scales an observation is that of the bounding box."""
    env, play = darp
    net = of_darp(env, is_actor=is_actor)
    instance, episodes = jax.jit(env.generate)(jax.random.key(4)), []
    quarter, mirror = np.array([[0, 1], [-1, 0]]), np.array([[-1, 0], [0, 1]])
    for turn in (np.eye(2), quarter, mirror, mirror @ quarter):
        locs = instance.locs[0] + (instance.locs - instance.locs[0]) @ jnp.asarray(turn, jnp.float32)
        episodes.append(play(instance.replace(locs=locs), jnp.array([3, 4, 5]))[0])
    results = outputs(net, in_one_batch(*episodes)).reshape(4, 4, -1)
    for episode, other in zip(episodes[1:], results[1:], strict=True):
        assert np.abs(episode.static["request"] - episodes[0].static["request"]).max() > 0.1
        np.testing.assert_allclose(other, results[0], atol=2e-4)
    assert np.ptp(results[0], axis=0).max() > 1e-2, "the steps of an episode differ"


@pytest.mark.parametrize("is_actor", [True, False], ids=["actor", "critic"])
@pytest.mark.parametrize("at_depot", [False, True])
def test_turning_or_mirroring_the_map_of_two_kinds_changes_nothing(is_actor, at_depot):
    """All places of entities and of the context are turned; whatever is no place stays."""
    kinds = both(5, 4)
    net, inputs = networks(kinds, is_actor=is_actor, pointers=BOTH_POINTERS, places=PLACES), seen(kinds, agents=2)
    if at_depot:
        inputs.context[..., list(PLACES[0])] = 0.0
    before = outputs(net, inputs)
    for turn in (np.array([[0.6, 0.8], [-0.8, 0.6]]), np.array([[1, 0], [0, -1]]), np.array([[0.6, 0.8], [0.8, -0.6]])):
        moved = jax.tree.map(np.copy, inputs)
        for array, axis, pairs in (
            (moved.context, -1, PLACES),
            (moved.static["node"], -2, ((0, 1), (2, 3))),
            (moved.entities["drone"], -2, ((1, 2),)),
        ):
            by_pair = np.moveaxis(array, axis, 0)
            for pair in pairs:
                by_pair[list(pair)] = np.einsum("ij,j...->i...", turn, by_pair[list(pair)])
        assert np.abs(moved.static["node"] - inputs.static["node"]).max() > 0.1
        np.testing.assert_allclose(outputs(net, moved), before, atol=2e-4)
    away = jax.tree.map(np.copy, inputs)
    away.context[..., list(PLACES[1])] += 1.0
    assert np.abs(outputs(net, away) - before).max() > 1e-3, "the other place is seen"


def nearest_alone(inputs, kinds, most):
    """Inputs of one agent in which all but the `most` entities of each kind that are nearest to its places are void."""
    inputs = jax.tree.map(np.copy, inputs)
    left = {}
    for kind in kinds:
        static, dynamic = inputs.static[kind.name][0], inputs.entities[kind.name][0]
        left[kind.name] = np.zeros((BATCH, kind.count), bool)
        for batch, (never, changing) in enumerate(zip(static, dynamic, strict=True)):
            next_place = changing[1:3] if kind.name == "drone" else np.where(changing[1] > 0, never[:2], never[2:4])
            spots = [inputs.context[0, batch, 0, list(place)] for place in PLACES]
            away = np.min([np.hypot(*(next_place - spot[:, None])) for spot in spots], axis=0)
            order = sorted(np.flatnonzero(changing[0] > 0), key=lambda entity: away[entity])
            left[kind.name][batch, order[:most]] = True
        dynamic *= left[kind.name][:, None]
        static *= left[kind.name][:, None]
    return inputs, left


@pytest.mark.slow("2", "3")
@pytest.mark.parametrize("most", [1, 2, 3, 20])
def test_the_nearest_are_encoded_as_if_there_were_no_others(most):
    kinds = both(6, 5)
    make = functools.partial(networks, kinds, pointers=BOTH_POINTERS, places=PLACES)
    inputs = seen(kinds, seed=2)
    few, left = nearest_alone(inputs, kinds, most)
    # The numbers of void entities are no zeros: they must not be looked at.
    inputs.static["node"][0, :, :, 0] = 0.01
    found = blocks(outputs(make(attention_nearest=most), inputs)[:, 0], 6, 5)
    wanted = blocks(outputs(make(), few)[:, 0], 6, 5)
    np.testing.assert_allclose(found.pop("stay"), wanted["stay"], atol=1e-5)
    for name, logits in found.items():
        is_left = left[name.split()[0]]
        np.testing.assert_allclose(logits[is_left], wanted[name][is_left], atol=1e-5, err_msg=name)
        assert is_left.sum() == min(most, {"node": 4, "drone": 3}[name.split()[0]]) * BATCH
        # Legal all the same, and behind all others; void ones that are encoded have logits that mean nothing.
        assert most == 20 or (logits[~is_left] == -10.0).sum() >= BATCH
        assert (logits >= -10.0).all()


def test_what_is_encoded_at_a_time():
    """By default, anew for each agent where there is but one; critics always encode for themselves."""
    kinds = (nodes(2),)
    for encode, num_agents, shares in (("auto", 1, False), ("auto", 2, True), ("agent", 2, False), ("step", 1, True)):
        nets = networks(kinds, encode=encode, num_agents=num_agents)
        assert isinstance(nets.reader, Pointing if shares else Attention)
        assert (nets.encoder is not None) == shares
    assert isinstance(networks(kinds, encode="step", is_actor=False).reader, Attention)
    assert [networks(kinds, encode=encode).encoder.once for encode in ("step", "instance")] == [False, True]


def test_what_does_not_fit_is_one_line():
    with pytest.raises(ValueError, match=r"^network is 'attention', but the environment's Role does not say what its"):
        networks((nodes(2),), pointers=())
    assert networks((nodes(2),), pointers=(), is_actor=False).reader.pointers == ()
    with pytest.raises(ValueError, match=r"^attention_size is 16, which attention_heads \(5\) does not divide$"):
        networks((nodes(2),), attention_heads=5)
    with pytest.raises(
        ValueError, match=r"^attention_nearest is 4, which needs attention_encode: agent \(what is near"
    ):
        networks((nodes(2),), places=PLACES, encode="step", attention_nearest=4)
    for kinds, places in (((nodes(2),), ()), ((nodes(2, placed=False),), PLACES)):
        with pytest.raises(ValueError, match=r"^attention_nearest is 4, but agents and entities of this environment"):
            networks(kinds, places=places, attention_nearest=4)
