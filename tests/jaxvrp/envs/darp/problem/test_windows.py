"""Tightened windows against all moments at which a request can be served, and published optima, which lose nothing."""

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.darp import tight_windows
from jaxvrp.envs.darp import make_instance, routes_to_actions, solution_report, stack
from jaxvrp.envs.darp.problem.figures import figures_of, tightened
from jaxvrp.envs.darp.problem.instance import as_float32, pad
from tests.jaxvrp.envs.darp.small_instances import padded

LATEST = 16
MOMENT = np.arange(LATEST + 1)


def whole_instance(rng):
    """One request on a line, all times whole numbers; windows may be wide or narrow, the depot may open late."""
    early, late = np.zeros(3, int), np.full(3, LATEST)
    early[0], late[0] = rng.integers(0, 3), LATEST - rng.integers(0, 4)
    for node in (1, 2):
        if rng.random() < 0.7:
            early[node] = rng.integers(0, LATEST)
            late[node] = min(early[node] + rng.integers(0, LATEST), LATEST)
    return make_instance(
        np.stack([rng.integers(-2, 3, 3), np.zeros(3)], axis=1),
        [0, 1, -1],
        late,
        capacity=[1],
        earliest=early,
        service_time=[0, *rng.integers(0, 3, 2)],
        max_ride_time=rng.integers(1, 7),
    )


def moments(instance):
    """When each of both can be served, of all pairs of moments that keep everything: `[pairs, 2]`."""
    place, service = instance.locs[:, 0], instance.service_time
    out, direct, home = np.abs(np.diff(place[[0, 1, 2, 0]]))
    pickup, drop_off = np.meshgrid(MOMENT, MOMENT, indexing="ij")
    ride = drop_off - pickup - service[1]
    kept = (pickup >= instance.earliest[0] + out) & (drop_off + service[2] + home <= instance.deadline[0])
    kept &= (ride >= direct) & (ride <= instance.max_ride_time)
    for node, start in ((1, pickup), (2, drop_off)):
        kept &= (instance.earliest[node] <= start) & (start <= instance.deadline[node])
    return np.argwhere(kept)


def test_what_is_left_is_when_the_request_can_be_served():
    """No more and no less, of a request alone; others on the way only take more time."""
    rng = np.random.default_rng(2)
    instances = [whole_instance(rng) for _ in range(300)]
    cut = jax.device_get(jax.jit(jax.vmap(tightened))(as_float32(stack(instances))))
    possible = changed = 0
    for instance, earliest, deadline in zip(instances, cut.earliest, cut.deadline, strict=True):
        assert (earliest[0], deadline[0]) == (instance.earliest[0], instance.deadline[0])
        found = moments(instance)
        if len(found):
            np.testing.assert_array_equal(earliest[1:], found.min(axis=0))
            np.testing.assert_array_equal(deadline[1:], found.max(axis=0))
            possible += 1
            changed += (earliest > instance.earliest).any() or (deadline < instance.deadline).any()
    assert possible > 60 and changed > 50


def test_it_agrees_with_the_reference():
    """Also where times are rounded and where nodes are padding."""
    instances = [instance for _, instance in padded()]
    cut = jax.device_get(jax.jit(jax.vmap(tightened))(as_float32(stack(instances))))
    for i, instance in enumerate(instances):
        earliest, deadline = tight_windows(instance)
        np.testing.assert_allclose(cut.earliest[i], earliest, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(cut.deadline[i], deadline, rtol=1e-5, atol=1e-4)
        void = np.flatnonzero(instance.demand == 0)
        np.testing.assert_array_equal(cut.deadline[i, void], instance.deadline[void])


def test_padding_is_no_part_of_the_longest_tour():
    """Which times are measured by, where nothing is due."""
    places, never = np.arange(5.0)[:, None] * [3, 4], np.full(5, np.inf)
    instance = as_float32(make_instance(places, [0, 1, -1, 1, -1], never, capacity=[2]))
    alone, padded = (jax.jit(figures_of)(each) for each in (instance, pad(instance, 12, 3)))
    assert (alone.horizon, alone.slack) == (padded.horizon, padded.slack)


def test_published_optima_keep_tightened_windows(published):
    """And no window is open all day any more."""
    largest = max(solution.instance.num_nodes for solution in published)
    instances = [pad(solution.instance, largest, solution.instance.num_agents) for solution in published]
    cut = jax.device_get(jax.jit(jax.vmap(tightened))(as_float32(stack(instances))))
    for i, solution in enumerate(published):
        instance, nodes = solution.instance, np.arange(1, solution.instance.num_nodes + 1)
        report = solution_report(instance, routes_to_actions(solution.routes, instance.num_agents))
        assert report.feasible
        assert (report.service_start[nodes] >= cut.earliest[i, nodes] - 1e-3).all()
        assert (report.service_start[nodes] <= cut.deadline[i, nodes] + 1e-3).all()
        was_open = nodes[instance.deadline[nodes] - instance.earliest[nodes] > 1000]
        assert (cut.deadline[i, was_open] - cut.earliest[i, was_open] < 160).all()


@pytest.mark.parametrize(
    ("rules", "is_cut"), [({"limits": True}, True), ({"limits": True, "tighten": False}, False), ({}, False)]
)
def test_the_state_keeps_the_windows_of_the_instance(rules, is_cut):
    """With limits others count; `instance` is what was given."""
    env = jaxvrp.make("darp", num_nodes=2, num_agents=1, **rules)
    instance = make_instance(
        [[0, 0], [3, 0], [5, 0]], [0, 1, -1], [100, 100, 60], capacity=[1], earliest=[0, 0, 50], max_ride_time=10
    )
    state = env.init_state(instance)
    np.testing.assert_array_equal(state.instance.earliest, instance.earliest)
    np.testing.assert_array_equal(state.instance.deadline, instance.deadline)
    assert state.binding.earliest.tolist() == ([0, 40, 50] if is_cut else [0, 0, 50])
    assert state.binding.deadline.tolist() == ([100, 58, 60] if is_cut else [100, 100, 60])
    planes = dict(zip([f.name for f in env.entity_kinds[0].static], env.static_entities(state)["request"], strict=True))
    assert planes["pickup_earliest"].tolist() == pytest.approx([0.4 if is_cut else 0.0])
