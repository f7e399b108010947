"""Instances: what is refused, padding and stacking, and files."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.darp.problem.instance import (
    SCHEMA,
    Instance,
    as_float32,
    check,
    load,
    make_instance,
    pad,
    save,
    stack,
    travel_time,
)

NAMES = tuple(name for name, field in SCHEMA.items() if not field.optional)
SIMPLE = {
    "locs": [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]],
    "demand": [0, 1, -1, 2, -2],
    "deadline": [100, 10, 20, 30, np.inf],
    "capacity": [3, 2],
}


def make(**changes):
    return make_instance(**SIMPLE | changes)


def test_the_fields_are_those_of_the_schema_in_order():
    assert tuple(SCHEMA) == tuple(field.name for field in dataclasses.fields(Instance))


def test_defaults_and_types():
    instance = make()
    assert (instance.num_nodes, instance.num_agents) == (4, 2)
    assert instance.locs.dtype == instance.max_ride_time.dtype == np.float64
    assert instance.demand.dtype == instance.capacity.dtype == np.int32
    assert instance.round_travel_time.dtype == np.bool_ and not instance.round_travel_time
    assert instance.vehicle_speed == 1 and np.isinf([instance.max_ride_time, instance.max_route_duration]).all()
    assert not instance.earliest.any() and not instance.service_time.any()


def test_one_capacity_is_one_vehicle():
    assert make(capacity=4).capacity.tolist() == [4]


REFUSED = {
    "an unknown coordinate": ({"locs": [[0, 0], [1, 0], [2, np.nan], [3, 0], [4, 0]]}, "locs of node 2 .* give two"),
    "no beginning": ({"earliest": [0, 0, 0, -np.inf, 0]}, "earliest of node 3 .* give 0"),
    "no end": ({"deadline": [100, np.nan, 20, 30, 40]}, "deadline of node 1 .* give inf"),
    "an empty window": ({"earliest": [0, 0, 0, 0, 50], "deadline": [100, 10, 20, 30, 40]}, "node 4 .* not be empty"),
    "an empty depot window": ({"earliest": [101, 0, 0, 0, 0]}, "deadline of node 0 lies before"),
    "negative service": ({"service_time": [0, 0, -1, 0, 0]}, "service_time of node 2 .* give 0"),
    "endless service": ({"service_time": [0, 0, 0, np.inf, 0]}, "service_time of node 3 .* give 0"),
    "a negative pickup": ({"demand": [0, 1, -1, -2, 2]}, "pickup 3 is negative; only drop-offs"),
    "an unequal pair": ({"demand": [0, 1, -1, 2, -1]}, "drop-off 4 .* make it so"),
    "half a passenger": ({"demand": [0, 1, -1, 1.5, -1.5]}, "demand has a fraction; .* whole numbers"),
    "half a seat": ({"capacity": [2.5]}, "capacity has a fraction; .* whole numbers"),
    "demand at the depot": ({"demand": [1, 1, -1, 2, -2]}, r"depot \(node 0\) .* both must be 0"),
    "service at the depot": ({"service_time": [1, 0, 0, 0, 0]}, r"depot \(node 0\) .* both must be 0"),
    "negative capacity": ({"capacity": [3, -1]}, "capacity of vehicle 1 .* at least 1"),
    "no speed": ({"vehicle_speed": 0}, "vehicle_speed is 0.0; it must be > 0"),
    "no number for speed": ({"vehicle_speed": np.nan}, "vehicle_speed is nan; it must be > 0"),
    "a speed that is flushed to 0": (
        {"vehicle_speed": 1e-45},
        "vehicle_speed is 1e-45; it must be > 0, at least 1e-12",
    ),
    "NaN capacity": ({"capacity": [np.nan, 3]}, "capacity has a fraction"),
    "a place beyond float32": ({"max_route_duration": 1e39}, r"max_route_duration holds 1e\+39; numbers must be below"),
    "a capacity beyond int32": ({"capacity": [2**40]}, r"capacity holds 1.09951e\+12; numbers must be below 2.14748e"),
    "dates": ({"capacity": np.array(["2020-01-01"], "M8[D]")}, r"capacity holds datetime64\[D\]"),
    "complex numbers": (
        {"vehicle_speed": 1 + 2j},
        "an instance needs arrays of numbers: vehicle_speed holds complex128",
    ),
    "texts of numbers": ({"vehicle_speed": "25"}, "an instance needs arrays of numbers: vehicle_speed holds <U2"),
    "no ride": ({"max_ride_time": 0}, "max_ride_time is 0.0; it must be > 0"),
    "a negative duration": ({"max_route_duration": -1}, "max_route_duration is -1.0; it must be > 0"),
    "half a pair": ({"demand": [0, 1, -1, 2]}, "num_nodes is 3; it must be even"),
    "no request": ({"demand": [0]}, "num_nodes is 0; it must be even and at least 2"),
    "a short deadline": ({"deadline": [1, 2]}, r"deadline has shape \(2,\); it needs \(5,\)"),
    "two speeds": ({"vehicle_speed": [1, 2]}, r"vehicle_speed has shape \(2,\); it needs \(\)"),
    "endless capacity": ({"capacity": [np.inf]}, "capacity has a fraction"),
    "three dimensions": ({"locs": np.zeros((5, 3))}, r"locs has shape \(5, 3\); it needs \(5, 2\)"),
    "no vehicle": ({"capacity": []}, r"capacity has shape \(0,\); it needs \(1,\)"),
    "letters": ({"deadline": ["a"] * 5}, "an instance needs arrays of numbers"),
    "ragged": ({"locs": [[0, 0], [1], [2, 0], [3, 0], [4, 0]]}, "an instance needs arrays of numbers"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_instance_is_refused_by_node_and_remedy(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


def test_a_request_that_no_vehicle_holds_warns_and_is_legal():
    with pytest.warns(UserWarning, match=r"1 of 2 requests .* \(1\), the first at pickup 3"):
        instance = make(capacity=[1, 1])
    assert instance.demand.tolist() == SIMPLE["demand"]


def test_padding_lies_at_the_depot_and_passes_the_check():
    instance = make(locs=[[7, 8], [1, 0], [2, 0], [3, 0], [4, 0]], earliest=[5] * 5)
    padded = pad(instance, 8, 3)
    check(padded)
    assert (padded.num_nodes, padded.num_agents) == (8, 3)
    assert padded.locs[5:].tolist() == [[7, 8]] * 4
    assert padded.demand.tolist() == [0, 1, -1, 2, -2, 0, 0, 0, 0] and padded.capacity.tolist() == [3, 2, 0]
    assert np.isinf(padded.deadline[5:]).all()
    assert not padded.earliest[5:].any() and not padded.service_time[5:].any()
    for name in NAMES:
        before, after = getattr(instance, name), getattr(padded, name)
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after[: len(before)] if before.ndim else after, before, err_msg=name)


def test_padding_to_the_same_size_changes_nothing_and_to_a_smaller_is_an_error():
    instance = make()
    assert pad(instance, 4, 2) is instance
    for sizes in ((2, 2), (4, 1)):
        with pytest.raises(ValueError, match=r"4 nodes and 2 vehicles does not fit .* at least its sizes"):
            pad(instance, *sizes)


def test_padding_jax_arrays_of_a_batch_equals_padding_each(assert_same):
    single = [as_float32(make()), as_float32(make(capacity=[5, 6], deadline=[90, 80, 70, 60, 50]))]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *single)
    whole, mapped = pad(batch, 6, 4), jax.jit(jax.vmap(lambda instance: pad(instance, 6, 4)))(batch)
    for index, instance in enumerate(single):
        for result in (whole, mapped):
            assert_same(jax.tree.map(lambda leaf, at=index: leaf[at], result), pad(instance, 6, 4))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(whole))


def test_stacking_pads_to_the_largest(assert_same):
    small = make_instance([[0, 0], [1, 1], [2, 2]], [0, 1, -1], [9, 9, 9], capacity=[1, 1, 1])
    batch = stack([small, make()])
    assert (batch.num_nodes, batch.num_agents, batch.demand.shape) == (4, 3, (2, 5))
    for index, instance in enumerate((small, make())):
        assert_same(jax.tree.map(lambda leaf, at=index: leaf[at], batch), jax.tree.map(np.asarray, pad(instance, 4, 3)))


def test_float32_keeps_integers_and_flags():
    instance = as_float32(make(round_travel_time=True))
    assert {name: getattr(instance, name).dtype.name for name in NAMES} == dict.fromkeys(NAMES, "float32") | {
        "demand": "int32",
        "capacity": "int32",
        "round_travel_time": "bool",
    }


def test_travel_time_is_rounded_half_to_even_where_asked():
    distance = jnp.array([0.5, 1.0, 1.5, 2.5, 2.75], jnp.float32) * 2
    plain, rounded = (travel_time(as_float32(make(vehicle_speed=2, round_travel_time=r)), distance) for r in (0, 1))
    np.testing.assert_array_equal(plain, [0.5, 1.0, 1.5, 2.5, 2.75])
    np.testing.assert_array_equal(rounded, [0, 1, 2, 2, 3])


def exact_instance(seed=0):
    """Numbers that use every digit."""
    rng = np.random.default_rng(seed)
    return make(
        locs=rng.normal(size=(5, 2)),
        deadline=10 + rng.random(5),
        earliest=rng.random(5),
        service_time=[0, *rng.random(4)],
        vehicle_speed=1 / 3,
        max_ride_time=2 / 3,
        round_travel_time=bool(seed % 2),
    )


def test_saving_and_loading_is_exact(tmp_path, assert_same):
    for instance in (exact_instance(), jax.tree.map(np.asarray, as_float32(exact_instance(1)))):
        save(tmp_path / "one.npz", instance)
        assert_same(load(tmp_path / "one.npz"), instance)
    batch = stack([exact_instance(0), exact_instance(1), make(capacity=[2, 2, 2])])
    save(tmp_path / "many.npz", batch)
    assert_same(load(tmp_path / "many.npz"), batch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.npz", "one.npz"]


def arrays(**changes):
    kept = {name: np.asarray(getattr(make(), name)) for name in NAMES} | {"format": np.array("jaxvrp-darp-1")}
    return {name: value for name, value in (kept | changes).items() if value is not None}


FOREIGN = {
    "another format": (arrays(format=np.array("jaxvrp-darp-0")), "not an instance; give a file that"),
    "no format": (arrays(format=None), "not an instance; give a file that"),
    "a missing field": (arrays(capacity=None), "not an instance; give a file that"),
    "a surplus field": (arrays(speed=np.ones(3)), "not an instance; give a file that"),
    "nothing": ({}, "holds nothing, not an instance"),
    "objects": (arrays(locs=np.array([None])), "is no readable .npz file"),
    "another shape": (arrays(deadline=np.zeros((2, 5))), "deadline has shape .* give a file that"),
    "another dtype": (arrays(deadline=np.zeros(5, np.int32)), "deadline has dtype int32; give a file that"),
    "another flag": (arrays(round_travel_time=np.zeros(())), "round_travel_time has dtype float64; give a file that"),
    "another length": (arrays(deadline=np.zeros(4)), r"deadline has shape \(4,\); it needs \(5,\)"),
    "an empty window": (arrays(deadline=-np.ones(5)), "deadline of node 0 lies before"),
}


@pytest.mark.parametrize(("content", "message"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "foreign.npz"
    np.savez(path, **content)
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_a_damaged_batch_names_the_instance(tmp_path):
    batch = stack([make(), make(), make()])
    batch.deadline[2, 3] = -1
    save(tmp_path / "batch.npz", batch)
    with pytest.raises(ValueError, match=r"batch\.npz \(instance 2\): deadline of node 3 lies before"):
        load(tmp_path / "batch.npz")
