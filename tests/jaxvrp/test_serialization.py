"""Actors in programs that `jax.export` serializes, and that are read back."""

import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import serialization
from jaxvrp.actor import RandomActor
from jaxvrp.serialization import _from_bytes, _to_bytes

pytest.importorskip("flatbuffers", reason="jax.export serializes by flatbuffers: pip install -e '.[export]'")

SMALL = {
    "darp": {"num_nodes": 4, "num_agents": 1},
    "pcb": {"min_parts": 2, "max_parts": 2, "max_steps": 2, "rays": 1, "num_boards": 1},
    "truck_drone": {"num_customers": 1, "num_drones": 1, "max_steps": 4},
    "tsp_drone": {"num_nodes": 3},
    "vrpd_tw": {"num_customers": 1, "num_drones": 1, "max_steps": 4},
}


@pytest.mark.parametrize("name", SMALL)
def test_the_types_of_every_environment_are_registered(name):
    """By types alone: instances, states and timesteps go in and come out."""
    env = jaxvrp.make(name, **SMALL[name])
    key = jax.eval_shape(lambda: jax.random.key(0))
    passed = jax.eval_shape(env.generate, key), *jax.eval_shape(env.reset, key)
    exported = jax.export.export(jax.jit(lambda *trees: trees))(*passed)
    again = jax.export.deserialize(exported.serialize())
    assert (again.in_tree, again.out_tree) == (exported.in_tree, exported.out_tree)


def test_threads_that_make_environments_at_once_register_each_type_once(monkeypatch):
    class SlowSet(set):
        def __contains__(self, name):
            is_there = super().__contains__(name)
            time.sleep(1e-4)  # another thread goes on
            return is_there

    registered = []
    monkeypatch.setattr(serialization, "_REGISTERED", SlowSet())
    for name in ("register_pytree_node_serialization", "register_namedtuple_serialization"):
        monkeypatch.setattr(jax.export, name, lambda found, **_: registered.append(found))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(serialization.register_types, ["jaxvrp"] * 4))
    assert len(registered) == len(set(registered)) > 10


def test_an_actor_that_is_exported_by_hand_chooses_the_same():
    env = jaxvrp.make("darp", **SMALL["darp"])
    actor = RandomActor(env)
    state, timestep = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(3), 5))
    arguments = (jax.random.key(1), actor.init(5), state, timestep)
    data = jax.export.export(jax.jit(actor.act))(*arguments).serialize()
    exported, _ = jax.export.deserialize(data).call(*arguments)
    np.testing.assert_array_equal(exported["vehicle"], actor.act(*arguments)[0]["vehicle"])


@pytest.mark.parametrize("static", [(), (3, "flat", None, (1.5, True)), ({"a": 1},)])
def test_static_fields_are_read_back(static):
    assert _from_bytes(bytearray(_to_bytes(static))) == static


def test_a_static_field_that_cannot_be_read_back_is_refused_where_it_is_written():
    with pytest.raises((ValueError, SyntaxError)):
        _to_bytes((jnp.sin,))
