"""Generated instances that look like the published ones of Cordeau (2006), and sizes that differ within a batch."""

import dataclasses

import chex
import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import generate_dataset
from jaxvrp.envs.darp.problem.instance import check

COUNT = 400
SIZES = {"num_nodes": 40, "num_agents": 5}
RANGES = {"num_requests": [6, 20], "requests_per_vehicle": [4, 10]}


def each(batch):
    """Instances one by one."""
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(len(batch.demand))]


@pytest.fixture(scope="module")
def drawn():
    """Instances of both kinds, padded to one size."""
    env = jaxvrp.make("darp", instances="cordeau", **SIZES, **RANGES)
    return each(jax.device_get(generate_dataset(env, 3, COUNT)))


def counts(instance):
    """Requests and vehicles that are no padding."""
    return np.count_nonzero(instance.demand > 0), np.count_nonzero(instance.capacity)


def test_all_sizes_of_the_ranges_are_drawn_and_no_others(drawn):
    sizes = {counts(instance) for instance in drawn}
    assert {requests for requests, _ in sizes} == set(range(6, 21))
    wanted = {(n, k) for n in range(6, 21) for k in range(1, 6) if 4 <= n / k <= 10}
    assert sizes == wanted
    for instance in drawn:
        check(instance)
        requests, vehicles = counts(instance)
        assert (instance.demand[1 : 2 * requests + 1] != 0).all() and (instance.capacity[:vehicles] > 0).all()


def test_numbers_are_those_of_the_published_sets(drawn):
    kinds = {"a": 0, "b": 0}
    for instance in drawn:
        requests, vehicles = counts(instance)
        load, service = instance.demand[1 : 2 * requests : 2], instance.service_time[1 : 2 * requests + 1]
        kind = "a" if float(instance.max_ride_time) == 30 else "b"
        kinds[kind] += 1
        capacity, longest = {"a": (3, 30), "b": (6, 45)}[kind]
        assert float(instance.max_ride_time) == longest and (instance.capacity[:vehicles] == capacity).all()
        assert (load == 1).all() if kind == "a" else ((load >= 1) & (load <= 6)).all()
        np.testing.assert_array_equal(service, np.repeat(load, 2) if kind == "b" else 3)
        assert float(instance.vehicle_speed) == 1 and not instance.round_travel_time
        assert float(instance.max_route_duration) == pytest.approx(60 * requests / vehicles)
        assert instance.deadline[0] == instance.max_route_duration and instance.earliest[0] == 0
        assert (instance.locs[0] == 0).all() and (np.abs(instance.locs) <= 10).all()
    assert min(kinds.values()) > COUNT / 3
    everywhere = np.concatenate([instance.locs[1 : 2 * counts(instance)[0] + 1] for instance in drawn])
    np.testing.assert_allclose(np.quantile(everywhere, [0.1, 0.5, 0.9], axis=0).T, [[-8, 0, 8]] * 2, atol=0.5)


def test_windows_are_those_of_the_published_sets(drawn):
    """15 minutes, at the drop-off for the first half; the direct ride, services and depot legs fit around its start."""
    shares = []
    for instance in drawn:
        requests, _ = counts(instance)
        pickup = np.arange(1, 2 * requests, 2)
        outbound = np.arange(requests) < requests // 2
        node, free = np.where(outbound, pickup + 1, pickup), np.where(outbound, pickup, pickup + 1)
        start = instance.earliest[node]
        np.testing.assert_array_equal(start, np.round(start))
        np.testing.assert_array_equal(instance.deadline[node], start + 15)
        assert (instance.earliest[free] == 0).all() and (instance.deadline[free] == 1440).all()
        home = np.hypot(*instance.locs.T)
        ride = np.hypot(*(instance.locs[pickup + 1] - instance.locs[pickup]).T)
        service = instance.service_time[pickup]
        before = home[pickup] + np.where(outbound, service + ride, 0)
        after = service + home[pickup + 1] + np.where(outbound, 0, ride + service)
        room = float(instance.max_route_duration) - before - after
        assert (start - before >= -1e-4).all() and (room - (start - before) >= -1e-4).all()
        shares.append((start - before) / room)
    shares = np.concatenate(shares)
    np.testing.assert_allclose(np.quantile(shares, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.03)


@pytest.mark.parametrize("kind", ["a", "b"])
def test_a_kind_can_be_chosen(kind):
    env = jaxvrp.make("darp", num_nodes=16, num_agents=2, instances="cordeau", cordeau_kind=kind)
    batch = jax.device_get(generate_dataset(env, 0, 20))
    assert (batch.max_ride_time == {"a": 30, "b": 45}[kind]).all()
    assert (batch.demand[:, 1:] != 0).all() and (batch.max_route_duration == 240).all()


def test_sizes_of_uniform_instances_vary_too_and_nothing_else_changes():
    """The first requests of the instance that the same key gives without ranges."""
    plain = jaxvrp.make("darp", **SIZES)
    whole, varied = (jax.device_get(generate_dataset(env, 1, 50)) for env in (plain, plain.replace(**RANGES)))
    sizes = {counts(instance) for instance in each(varied)}
    assert len(sizes) > 15
    is_kept = varied.demand != 0
    for name in ("locs", "demand", "deadline"):
        np.testing.assert_array_equal(getattr(varied, name)[is_kept], getattr(whole, name)[is_kept])
    assert dataclasses.replace(plain).num_requests is None


@pytest.mark.parametrize("instances", ["uniform", "cordeau"])
def test_one_number_is_a_range_of_one(instances):
    """Four requests of the ten that there is room for, two for a vehicle."""
    key, sizes = jax.random.key(0), {"num_requests": 4, "requests_per_vehicle": 2}
    env, ranged = (
        jaxvrp.make("darp", **SIZES, instances=instances, **given)
        for given in (sizes, {name: [size, size] for name, size in sizes.items()})
    )
    instance = env.generate(key)
    assert (int((instance.demand > 0).sum()), int((instance.capacity > 0).sum())) == (4, 2)
    chex.assert_trees_all_equal(instance, ranged.generate(key))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"instances": "cordeaux"}, "instances is 'cordeaux'; it must be one of: uniform, cordeau"),
        (
            {"num_requests": [8, 9, 10]},
            "num_requests is [8, 9, 10]; it must be one number, or the least and the greatest",
        ),
        (
            {"num_requests": [8, 4]},
            "num_requests is [8, 4]; it must be one number, or the least and the greatest, as in [8, 24]",
        ),
        ({"requests_per_vehicle": [0, 4]}, "requests_per_vehicle is 0; it must be >= 1"),
        ({"num_requests": 11}, "num_requests goes up to 11, and num_nodes 20 has room for 10; set num_nodes to 22"),
        (
            {"num_requests": [4, 11]},
            "num_requests goes up to 11, and num_nodes 20 has room for 10; set num_nodes to 2",
        ),
    ],
)
def test_a_bad_range_is_one_line(given, says):
    with pytest.raises(ValueError) as error:
        jaxvrp.make("darp", **given)
    assert says in str(error.value) and "\n" not in str(error.value)
