"""Policies that are loaded and exported: they choose what the actors of training choose, without `train`."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import fields
from jaxvrp.actor import RandomActor
from jaxvrp.io.command_line import UserError
from jaxvrp.io.states import by_place
from jaxvrp.io.whole_files import write_text
from jaxvrp.io.yaml_text import dump_yaml
from jaxvrp.policies import folder
from jaxvrp.policies.actors import PolicyActor, build_actors
from jaxvrp.policies.environment import playing_environment
from jaxvrp.policies.networks import NetworkKeys
from jaxvrp.policies.policy import of_networks
from jaxvrp.policies.program import bounds_of, read_program, write_program
from train import export

ROOT = pathlib.Path(__file__).parents[3]
SIZES = {"num_drones": 2, "num_customers": 3}
BATCH = 3
KEY = jax.random.key(0)


def keys_of(network):
    sizes = {"hidden_sizes": [8], "recurrent_size": 4, "attention_size": 8, "attention_heads": 2}
    return {"network": network, **sizes, "share_drone_policy": network != "gru"}


def write_folder(path, network, env=None, **further):
    """Write the folder of a policy whose parameters are drawn; its actors, and they."""
    keys = {**keys_of(network), **further}
    values = {"algorithm": "mappo", "env": env or {"name": "vrpd_tw", **SIZES}, **keys}
    path.mkdir()
    write_text(path / "config.yaml", dump_yaml(values))
    env = playing_environment(values, {})
    actors = build_actors(fields.build(NetworkKeys, keys, "key"), env)
    shapes = jax.eval_shape(lambda key: {name: actors.init(key, name) for name in actors.names}, KEY)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.5, leaf.shape), jnp.float32), shapes)
    card = {"about": f"noise, {network}", "training": {"update": 0}, "figures": {}, "exported": {}}
    folder.write_policy(path, params, path / "config.yaml", **card)
    return PolicyActor(env, actors, params)


@pytest.fixture(scope="module", params=[pytest.param("mlp", marks=pytest.mark.slow), "gru", "attention"])
def written(request, tmp_path_factory):
    """A folder, and the actor that is in it."""
    path = tmp_path_factory.mktemp("policies") / request.param
    return path, write_folder(path, request.param)


@functools.partial(jax.jit, static_argnums=0)
def reset(env, keys):
    return jax.vmap(env.reset)(keys)


@functools.partial(jax.jit, static_argnums=0)
def step(env, state, action):
    return jax.vmap(env.step)(state, action)


def episode(env, actor, steps, batch=BATCH):
    """States `[steps]` of a batch, and the actions of an actor in each."""
    state, timestep = reset(env, jax.random.split(jax.random.key(1), batch))
    carry, act = actor.init(batch), jax.jit(actor.act)
    played = []
    for time in range(steps):
        action, carry = act(KEY, carry, state, timestep)
        played.append(jax.device_get((state, action)))
        if time + 1 < steps:
            state, timestep = step(env, state, action)
    return played


def test_it_chooses_what_the_actors_choose_for_one_state_and_for_a_batch(written):
    path, actor = written
    policy = jaxvrp.load_policy(path)
    assert policy.env == actor.env and policy.about.startswith("noise")
    memory, single = policy.memory(BATCH), policy.memory()
    for state, action in episode(policy.env, actor, 4):
        chosen, memory = policy.step(memory, state)
        chex.assert_trees_all_equal(chosen, action)
        alone, single = policy.step(single, jax.tree.map(lambda leaf: leaf[1], state))
        chex.assert_trees_all_equal(alone, jax.tree.map(lambda leaf: leaf[1], action))
    if policy.has_memory:
        with pytest.raises(ValueError, match=r"has a memory; play it by step\(memory, state\)"):
            policy.act(state)
    else:
        chex.assert_trees_all_equal(policy.act(state), action)
        chex.assert_trees_all_equal(jax.jit(policy.act)(state), action)


def test_with_a_key_it_samples_legal_actions(written):
    policy = jaxvrp.load_policy(written[0])
    row, _ = jax.jit(policy.env.reset)(jax.random.key(1))
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (64, *leaf.shape)), row)
    chosen = [policy.step(policy.memory(64), state, jax.random.key(seed))[0] for seed in (0, 0, 1)]
    chex.assert_trees_all_equal(chosen[0], chosen[1])
    assert any((chosen[0][role] != chosen[2][role]).any() for role in chosen[0])
    for role, mask in jax.jit(policy.env.action_mask)(row).items():
        assert np.take_along_axis(np.asarray(mask)[None], np.asarray(chosen[0][role])[..., None], 2).all()
        assert len(np.unique(chosen[0][role])) > 1 or mask.sum() == mask.shape[0]


def test_keys_that_are_gone_are_left_out_where_they_say_what_is_done_now(tmp_path):
    values = {"algorithm": "mappo", "lr": 0.1, "value_loss": "huber", "huber_delta": 3.0, "value_norm_decay": 0.99}
    write_text(tmp_path / "config.yaml", dump_yaml(values))
    assert folder.read_values(tmp_path, ["mappo"]) == ({"lr": 0.1, "huber_delta": 3.0}, "mappo")


def test_a_program_of_a_network_that_reads_the_nearest_plays_any_batch(tmp_path):
    path = tmp_path / "nearest"
    env = {"name": "tsp_drone", "num_nodes": 8, "max_flight": np.inf}  # as a run writes it, with all parameters
    actor = write_folder(path, "attention", env, attention_encode="agent", attention_nearest=4)
    write_program(jaxvrp.load_policy(path), tmp_path / "policy.jaxpolicy", folder.read_values(path, ["mappo"])[0])
    program = jaxvrp.load_policy(tmp_path / "policy.jaxpolicy")
    assert program.env == jaxvrp.load_policy(path).env and program.env.max_flight == np.inf
    for batch in (1, BATCH):
        ((state, action),) = episode(program.env, actor, 1, batch)
        chex.assert_trees_all_equal(program.step(program.memory(batch), state)[0], action)


@pytest.mark.slow("gru")
def test_a_program_chooses_likewise(written, tmp_path):
    path, actor = written
    policy = jaxvrp.load_policy(path)
    values, _ = folder.read_values(path, ["mappo"])
    write_program(policy, tmp_path / "policy.jaxpolicy", values)
    program = jaxvrp.load_policy(tmp_path / "policy.jaxpolicy")
    assert program.env == policy.env and program.has_memory == policy.has_memory
    memories = [policy.memory(BATCH), program.memory(BATCH)]
    for index, (state, _) in enumerate(episode(policy.env, actor, 3)):
        for key in (None, jax.random.key(index)):
            chosen, after = zip(
                *(each.step(memory, state, key) for each, memory in zip((policy, program), memories, strict=True)),
                strict=True,
            )
            chex.assert_trees_all_equal(*chosen)
        memories = list(after)
    assert program.step(program.memory(), jax.tree.map(lambda leaf: leaf[0], state))[0]["drone"].shape == (2,)


def test_attention_plays_other_sizes_and_vectors_do_not(tmp_path):
    for network in ("attention", "mlp"):
        write_folder(tmp_path / network, network)
    policy = jaxvrp.load_policy(tmp_path / "attention", num_customers=5, num_drones=1)
    state, _ = jax.jit(policy.env.reset)(KEY)
    assert policy.act(state)["drone"].shape == (1,)
    with pytest.raises(ValueError, match=r"\(mlp\) are tied to the sizes that they were trained with; leave out what"):
        jaxvrp.load_policy(tmp_path / "mlp", num_customers=5)


SERVED = """
import sys, jax, jaxvrp
policy = jaxvrp.load_policy("truck_drone_basic")
state, _ = jax.jit(policy.env.reset)(jax.random.key(0))
print({role: action.shape for role, action in policy.act(state).items()}, "train" in sys.modules)
"""
ALONE = """
import json, re, sys, zipfile, jax, jax.export, numpy as np
with zipfile.ZipFile("policy.jaxpolicy") as file:
    program, card = jax.export.deserialize(bytearray(file.read("program"))), json.loads(file.read("policy.json"))
kinds = {name: text.partition("[") for name, text in card["state"].items()}
state = {name: np.zeros((7, *json.loads("[" + sizes)), dtype) for name, (dtype, _, sizes) in kinds.items()}
out = program.call(state, {})
print({role: action.shape for role, action in out["action"].items()}, {"jaxvrp", "flax"} & sys.modules.keys())
"""


def run(script, where):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", script], cwd=where, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_users_train_breaks_nothing(tmp_path):
    (tmp_path / "train.py").write_text("raise SystemExit('this is the train.py of a user')")
    assert run(SERVED, tmp_path) == "{'drone': (2,), 'truck': (1,)} False"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A file that the command wrote."""
    path = tmp_path_factory.mktemp("programs") / "policy.jaxpolicy"
    export.main(["truck_drone_basic", str(path)])
    return path


def test_another_process_needs_jax_alone(shipped):
    assert run(ALONE, shipped.parent) == "{'drone': (7, 2), 'truck': (7, 1)} set()"


def test_a_file_for_another_size_plays_as_its_policy(tmp_path):
    export.main(["truck_drone_basic", str(tmp_path / "larger.jaxpolicy"), "--env.num_customers", "5"])
    policy = jaxvrp.load_policy("truck_drone_basic", num_customers=5)
    state = jax.jit(policy.env.reset)(KEY)[0]
    chex.assert_trees_all_equal(jaxvrp.load_policy(tmp_path / "larger.jaxpolicy").act(state), policy.act(state))


def test_the_numbers_that_a_state_may_hold(shipped):
    env = jaxvrp.load_policy(shipped).env
    with zipfile.ZipFile(shipped) as file:
        bounds = json.loads(file.read("policy.json"))["bounds"]
    assert bounds == {"customers/served_by": [-1, 1], "drones/status": [0, 3], "drones/carrying": [-1, 2]}
    for state, _ in episode(env, RandomActor(env), 12):
        for name, (low, high) in bounds.items():
            numbers = by_place(state)[name]
            assert (low <= numbers).all() and (numbers <= high).all()
    for name, expected in (
        ("darp", {"current_node": (0, 20), "current_agent": (0, 4)}),
        ("tsp_drone", {"truck_node": (0, 19), "launch_node": (0, 19), "drone_customer": (0, 19)}),
        ("flying_sidekicks", {"walk/stop": (0, 9), "walk/customer": (0, 9), "walk/held": (-1, 1)}),
    ):
        env = jaxvrp.make(name)
        assert bounds_of(jax.eval_shape(lambda key, env=env: env.init_state(env.generate(key)), KEY)) == expected


def test_another_size_goes_into_a_file_alone(tmp_path):
    with pytest.raises(UserError, match=r"--env\.num_customers is of a file \*\.jaxpolicy"):
        export.main(["truck_drone_basic", str(tmp_path / "folder"), "--env.num_customers", "5"])


def test_mistakes_are_one_line(shipped, tmp_path):
    write_folder(tmp_path / "mlp", "mlp")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("algorithm: mappo")
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged.jaxpolicy").write_bytes(shipped.read_bytes()[:-200])
    with zipfile.ZipFile(shipped) as sound, zipfile.ZipFile(tmp_path / "nameless.jaxpolicy", "w") as file:
        card = json.loads(sound.read("policy.json"))
        file.writestr("policy.json", json.dumps({name: value for name, value in card.items() if name != "about"}))
        file.writestr("program", sound.read("program"))
    with zipfile.ZipFile(tmp_path / "members.jaxpolicy", "w") as file:
        for number in range(1_001):
            file.writestr(str(number), "")
    for name, card in {"large": " " * 2**25, "many": f"[{'[],' * 500_000}[]]", "deep": "[" * 10_000}.items():
        with zipfile.ZipFile(tmp_path / f"{name}.jaxpolicy", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("policy.json", card)
            file.writestr("program", "")
    says = {
        "members.jaxpolicy": "(it holds more than 1000 files)",
        "large.jaxpolicy": "(its content is larger than 16.8 MB)",
        "many.jaxpolicy": "(policy.json holds more than 1000000 values); export the policy anew",
        "deep.jaxpolicy": "(policy.json is no JSON (more than 32 lists and objects within each other))",
        "nameless.jaxpolicy": "nameless.jaxpolicy is no readable policy ('about')",
        "vrpd": "did you mean 'vrpd_tw'",
        "run": "run is not the folder of a policy, but of a run; load what `jaxvrp export RUN FOLDER` wrote, with ",
        "empty": "empty is not the folder of a policy, but of something else; load what `jaxvrp export RUN FOLDER`",
        "damaged.jaxpolicy": "damaged.jaxpolicy is no readable policy (File is not a zip file); export the policy anew",
    }
    for name, message in says.items():
        with pytest.raises(ValueError) as error:
            jaxvrp.load_policy(tmp_path / name if (tmp_path / name).exists() else name)
        assert message in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(ValueError, match="is a program, with its parameters in it; leave out num_drones"):
        jaxvrp.load_policy(shipped, num_drones=2)
    policy = jaxvrp.load_policy(tmp_path / "mlp")
    with pytest.raises(ValueError, match=r"this is neither a state of policy\.env nor a batch of them"):
        policy.act(jax.eval_shape(policy.env.reset, KEY))
    with pytest.raises(ValueError, match=r"is neither a state"):
        policy.act(jax.eval_shape(jaxvrp.make("vrpd_tw", num_drones=3, num_customers=3).reset, KEY)[0])


@pytest.mark.parametrize(
    ("written_by", "says"),
    [({"jax": "0.9.2"}, "JAX 0.9.2 wrote it"), ({}, "another JAX wrote it"), ({"jax": jax.__version__}, "expired")],
)
@pytest.mark.parametrize("refuses", ["deserialize", "mlir_module"])
def test_a_program_of_another_jax_is_one_line(shipped, tmp_path, monkeypatch, refuses, written_by, says):
    def refuse(*_):
        raise ValueError("expired,\nin two lines")

    monkeypatch.setattr(jax.export if refuses == "deserialize" else jax.export.Exported, refuses, refuse)
    with zipfile.ZipFile(shipped) as written, zipfile.ZipFile(tmp_path / "other.jaxpolicy", "w") as file:
        card = json.loads(written.read("policy.json"))
        assert card.pop("jax") == jax.__version__
        file.writestr("policy.json", json.dumps(card | written_by))
        file.writestr("program", written.read("program"))
    with pytest.raises(ValueError) as error:
        jaxvrp.load_policy(tmp_path / "other.jaxpolicy")
    assert says in str(error.value) and str(error.value).endswith("; export the policy anew")
    assert (f"which JAX {jax.__version__} does not read" in str(error.value)) == (says != "expired")
    assert "\n" not in str(error.value)


def test_an_array_of_a_state_that_is_wrong_is_named(tmp_path):
    write_folder(tmp_path / "mlp", "mlp")
    policy = jaxvrp.load_policy(tmp_path / "mlp")
    row = jax.device_get(jax.jit(policy.env.reset)(jax.random.key(1))[0])
    many = jax.tree.map(lambda leaf: np.stack([leaf] * 4), row)
    wide = {"f": np.float64, "i": np.int64, "b": bool}
    for state in (row, many):  # as NumPy has them by itself
        widened = jax.tree.map(lambda leaf: leaf.astype(wide[leaf.dtype.kind]), state)
        chex.assert_trees_all_equal(policy.act(widened), policy.act(state))

    def changed(state, name, value):
        return state.replace(drones=state.drones.replace(**{name: value}))

    for state, says in (
        (changed(row, "status", np.ones(2)), "drones/status is float64[2], and needs int32[2]"),
        (changed(row, "battery", np.ones(3, np.float32)), "drones/battery is float32[3], and needs float32[2]"),
        (changed(many, "battery", np.ones((4, 3))), "drones/battery is float64[4, 3], and needs float32[4, 2]"),
        (changed(many, "has_target", np.ones((3, 2), bool)), "drones/has_target is bool[3, 2], and needs bool[4, 2]"),
        (changed(row, "status", None), "it has no drones/status"),
        ({"step": 1}, "it has no instance/truck_position"),
        (jax.tree.map(lambda leaf: leaf.astype(float), row), "instance/window_start is float64[3], and needs int32[3]"),
    ):
        with pytest.raises(ValueError) as error:
            policy.act(state)
        assert f"a batch of them: {says}; give what its reset gives" in str(error.value)


def test_a_dotted_path_is_imported_only_if_it_is_trusted(tmp_path):
    actor = write_folder(tmp_path / "mlp", "mlp")
    policy = of_networks(actor.env, actor.actors, actor.params, "")
    values = {"env": {"name": "nowhere.at_all:Env"}, "network": "mlp"}
    write_program(policy, tmp_path / "policy.jaxpolicy", values)
    with pytest.raises(ValueError, match=r"env\.name is 'nowhere\.at_all:Env', which would be .* add trust=True"):
        jaxvrp.load_policy(tmp_path / "policy.jaxpolicy")
    with pytest.raises(ValueError, match=r"is no readable policy .*nowhere"):
        read_program(tmp_path / "policy.jaxpolicy", trust=True)
    with zipfile.ZipFile(tmp_path / "policy.jaxpolicy") as file:
        assert json.loads(file.read("policy.json"))["action"] == {"truck": "int32[1]", "drone": "int32[2]"}
