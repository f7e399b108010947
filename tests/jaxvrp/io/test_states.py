"""States as JSON: every bit of every environment's state comes back, and what is none is refused in a line."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxvrp
from jaxvrp.envs.dispatch import moment
from jaxvrp.io.json_files import parse_json
from jaxvrp.io.states import read_state, shapes_of, write_state
from tests.refusals import refusal

SCENARIOS = {
    "dispatch": ("ride_pooling", "same_day", "chen_ulmer_thomas"),
    "truck_drone": ("truck_drone_basic", "truck_drone_same_day", "vrpd_tw"),
}
KINDS = [(name, each) for name in jaxvrp.registered() for each in SCENARIOS.get(name, (None,))]


@functools.cache
def template(name, scenario):
    return shapes_of(jaxvrp.make(name, **({"scenario": scenario} if scenario else {})))


def drawn(leaf, rng):
    """An array of random bits: numbers of all sizes, infinite ones, negative zeros, and every kind of NaN."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(rng.integers(0, 2**32, (*leaf.shape, 2), np.uint32), impl="threefry2x32")
    if leaf.dtype == bool:
        return rng.random(leaf.shape) < 0.5
    bits = rng.integers(0, 2**32, leaf.shape, np.uint32)
    rare = np.array([0x7F800000, 0xFF800000, 0x80000000, 0x7FC00000, 0xFFC00001, 0x7F800001, 1], np.uint32)
    bits = np.where(rng.random(leaf.shape) < 0.1, rng.choice(rare, leaf.shape), bits)
    return bits.view(leaf.dtype)


def bits_of(tree):
    def of_leaf(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        return str(leaf.dtype), array.shape, array.tobytes()

    return jax.tree.map(of_leaf, tree)


@pytest.mark.parametrize("read", [parse_json, json.loads], ids=["strict", "plain"])
@pytest.mark.parametrize(("name", "scenario"), KINDS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_bit_of_a_state_comes_back(name, scenario, read, seed):
    like, rng = template(name, scenario), np.random.default_rng(seed)
    state = jax.tree.map(lambda leaf: drawn(leaf, rng), like)
    found = read_state(read(json.dumps(write_state(state), allow_nan=False)), like)
    assert jax.tree.structure(found) == jax.tree.structure(like)
    assert bits_of(found) == bits_of(state)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(found))


def test_a_state_reads_back_by_its_environment_and_plays_on():
    env = jaxvrp.make("dispatch", scenario="same_day", num_vehicles=1, num_drones=1, max_requests=6)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    again = read_state(json.loads(json.dumps(write_state(state))), env)
    action = {"dispatcher": np.int32([1])}
    step = jax.jit(env.step)
    assert bits_of(step(again, action)) == bits_of(step(state, action))


def test_a_moment_comes_back():
    content = {
        "format": "jaxvrp-dispatch-moment-1",
        "now": 6,
        "day": {
            "format": "jaxvrp-dispatch-day-1",
            "horizon": 120,
            "vehicles": [{"id": "north", "start": [0, 1], "speed": 30, "capacity": 4}],
            "requests": [{"id": "Ada", "arrival": 5, "pickup": [0, 0], "dropoff": [3, 0]}],
        },
        "vehicles": [
            {"id": "north", "place": [0.1, 1], "free": 6, "stops": [{"what": w, "request": "Ada"} for w in WHATS]}
        ],
    }
    found = moment.parse_moment(content)
    again = read_state(json.loads(json.dumps(write_state(found))), found)
    assert bits_of(again) == bits_of(found)
    assert (again.now, again.day.requests) == (6, ("Ada",))


WHATS = ("pickup", "drop-off")


def test_numbers_are_short_and_batches_and_other_dtypes_have_a_place():
    tree = {
        "a": jnp.float32([[0.1, 1e-45]]),
        "b": (np.float64([1 / 3]), None, jnp.uint32([2**32 - 1])),
        "c": jnp.bfloat16([0.1]),
        "d": np.zeros((2, 0), np.float32),
    }
    written = write_state(tree)
    assert written["a"] == [[0.1, 1e-45]]
    assert list(written) == ["a", "b/0", "b/2", "c", "d"]
    assert bits_of(read_state(json.loads(json.dumps(written)), tree)) == bits_of(tree)


LIKE = {
    "real": jax.ShapeDtypeStruct((2,), jnp.float32),
    "whole": jax.ShapeDtypeStruct((), jnp.int32),
    "flag": jax.ShapeDtypeStruct((1,), jnp.bool_),
    "key": jax.eval_shape(lambda: jax.random.key(0)),
}
SOUND = write_state({"real": jnp.zeros(2), "whole": jnp.int32(3), "flag": jnp.array([True]), "key": jax.random.key(3)})

WRONG = {
    "a state is [1]; it must be an object, arrays by name": [1],
    "whole is missing": {name: rows for name, rows in SOUND.items() if name != "whole"},
    "no such state has speed": {**SOUND, "speed": 1},
    "real has shape [1]; it needs float32[2]": {**SOUND, "real": [1.0]},
    "real has shape []; it needs float32[2]": {**SOUND, "real": None},
    "real has rows of different lengths; it needs float32[2]": {**SOUND, "real": [[1.0], [1.0, 2.0]]},
    "real holds True; it needs float32[2]": {**SOUND, "real": [0.5, True]},
    "real holds 'nan'; it needs float32[2]": {**SOUND, "real": [0.5, "nan"]},
    "real holds '0x3f800000'; it needs float32[2]": {**SOUND, "real": [0.5, "0x3f800000"]},
    "real holds '0xffffffff7fc00000'; it needs float32[2]": {**SOUND, "real": [0.5, "0xffffffff7fc00000"]},
    "real holds a number that is too large; it needs float32[2]": {**SOUND, "real": [0.5, 1e39]},
    "whole holds 0.5; it needs int32[]": {**SOUND, "whole": 0.5},
    "whole holds 1099511627776; it needs numbers from -2147483648 to 2147483647": {**SOUND, "whole": 2**40},
    "flag holds 1; it needs bool[1]": {**SOUND, "flag": [1]},
    "key is 3; it must be a key, an object with impl and words": {**SOUND, "key": 3},
    "key is a key by 'rbg'; it must be key<fry>[]": {**SOUND, "key": {"impl": "rbg", "words": [0, 0, 0, 3]}},
    "key is a key by 'xyz'; it must be key<fry>[]": {**SOUND, "key": {"impl": "xyz", "words": [0, 3]}},
    "key has shape [1]; it needs uint32[2]": {**SOUND, "key": {"impl": "threefry2x32", "words": [0]}},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_state_is_refused_in_a_line(message):
    assert refusal(read_state, WRONG[message], LIKE) == message
