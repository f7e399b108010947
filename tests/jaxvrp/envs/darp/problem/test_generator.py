"""Generated instances that look like the published ones of Cordeau (2006)."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import generate_dataset
from jaxvrp.envs.darp.problem.instance import check

COUNT = 400
SIZES = {"num_nodes": 40, "num_agents": 5}


def each(batch):
    """Instances one by one."""
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(len(batch.demand))]


@pytest.fixture(scope="module")
def drawn():
    """Instances of both kinds."""
    env = jaxvrp.make("darp", instances="cordeau", **SIZES)
    return each(jax.device_get(generate_dataset(env, 3, COUNT)))


def counts(instance):
    """Requests and vehicles that are no padding."""
    return np.count_nonzero(instance.demand > 0), np.count_nonzero(instance.capacity)


def test_instances_are_sound(drawn):
    for instance in drawn:
        check(instance)
        assert counts(instance) == (20, 5)


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


def test_an_unknown_kind_is_one_line():
    with pytest.raises(ValueError, match=r"^instances is 'cordeaux'; it must be one of: uniform, cordeau$"):
        jaxvrp.make("darp", instances="cordeaux")
