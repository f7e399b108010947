"""Requests that cannot share a vehicle, against all tours of two; and who is lost after a choice, counted plainly."""

import itertools

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import observation, solution_report
from jaxvrp.envs.darp.losses import losses
from tests.jaxvrp.envs.darp.small_instances import NODES, VEHICLES, generated, of_row, played_at_random, rich

STEPS = 12


@pytest.fixture(scope="module")
def env():
    return jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, rivals=True, limits=True)


@pytest.fixture(scope="module")
def play(env):
    """Random play of many instances at once: states, masks, losses, planes and contexts of each step, `[T, E, ...]`."""

    def look(state, timestep):
        mask, context = timestep.action_mask["vehicle"][:, 0], timestep.observation["vehicle"]
        return state, mask, jax.vmap(losses)(state), timestep.entities["request"], context

    published = jaxvrp.make("darp", num_nodes=NODES, num_agents=2, instances="cordeau")
    batch = jax.vmap(published.generate)(jax.random.split(jax.random.key(8), 6))
    drawn = [jax.tree.map(lambda leaf, row=row: np.asarray(leaf)[row], batch) for row in range(6)]
    return played_at_random(env, [*generated(6), *rich(10), *drawn], STEPS, look)


def share_a_vehicle(instance, one, other):
    """Whether some order of the four stops is a tour that keeps everything."""
    for order in itertools.permutations([one, one + 1, other, other + 1]):
        if order.index(one) > order.index(one + 1) or order.index(other) > order.index(other + 1):
            continue
        report = solution_report(instance, [*order, 0], tolerance=1e-3)
        if not any(found.count for name, found in report.violations.items() if name != "unserved"):
            return True
    return False


def test_rivals_are_the_pairs_that_have_no_tour(play):
    states = play[0]
    found, count = 0, 0
    for row in range(states.done.shape[1]):
        state = of_row(states, 0, row)
        # One vehicle holds as much as another in all of these.
        instance, rivals = state.instance, state.figures.rivals
        assert (rivals == rivals.T).all() and not rivals.diagonal().any()
        for one, other in itertools.combinations(range(1, NODES, 2), 2):
            is_real = instance.demand[one] > 0 and instance.demand[other] > 0
            expected = is_real and not share_a_vehicle(instance, one, other)
            assert rivals[one // 2, other // 2] == expected, (row, one, other)
            found, count = found + expected, count + is_real
    assert 0.1 < found / count < 0.9, (found, count)


def plain_losses(state):
    """`losses` in float64: rivals and missed rivals by request, and losses that each choice adds."""
    instance, rivals = state.instance, state.figures.rivals
    locs, speed = instance.locs.astype(float), float(instance.vehicle_speed)
    latest = state.figures.deadline + 1e-3
    waiting = [i for i in range(1, len(locs), 2) if not state.visited[i]]
    to_come = sum(not finished for v, finished in enumerate(state.vehicle_finished) if v != state.current_agent)

    def arrival(place, time, node):
        way = np.linalg.norm(locs[node] - place) / speed
        return time + (np.round(way) if instance.round_travel_time else way)

    def rivals_among(node, group):
        return sum(bool(rivals[node // 2, other // 2]) for other in group)

    def lost(missed):
        return sum(rivals_among(node, missed) >= to_come for node in missed) / (to_come + 1)

    missed = [i for i in waiting if arrival(state.place, state.current_time, i) > latest[i]]
    more = []
    for node in range(len(locs)):
        start = max(arrival(state.place, state.current_time, node), state.figures.earliest[node])
        leave = start + instance.service_time[node]
        after = [i for i in waiting if i != node and (node == 0 or arrival(locs[node], leave, i) > latest[i])]
        more.append(max(lost(after) - lost(missed), 0.0))
    shown = range(1, len(locs), 2)
    per_vehicle = max(to_come, 1)
    by_group = [[rivals_among(i, group) / per_vehicle for i in shown] for group in (waiting, missed)]
    return *by_group, more


def test_losses_are_those_counted_plainly(play):
    states, _, known = play[:3]
    agree = []
    for step in range(0, STEPS, 3):
        for row in range(states.done.shape[1]):
            expected, got = plain_losses(of_row(states, step, row)), of_row(known, step, row)
            found = got.rivals, got.missed_rivals, got.more
            agree.append(all(np.allclose(a, b, atol=1e-5) for a, b in zip(expected, found, strict=True)))
    # A vehicle may come just in time, which float32 cannot tell from just too late.
    assert np.mean(agree) > 0.97, np.mean(agree)
    assert known.more.max() > 0.3 and known.missed_rivals.max() > 0.3


def test_planes_and_context_follow_those_without_rivals(env, play):
    states, masks, known, planes, contexts = play
    plain = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, limits=True)
    state = of_row(states, 4, 8)
    np.testing.assert_allclose(planes[4, 8][:14], plain.entities(state)["request"], atol=1e-6)
    np.testing.assert_allclose(contexts[4, 8, 0, :-1], plain.observation(state)["vehicle"][0], atol=1e-6)
    more = np.where(masks, np.minimum(known.more, observation.MOST_LOST), 0.0)
    np.testing.assert_allclose(contexts[:, :, 0, -1], more[..., 0], atol=1e-6)
    np.testing.assert_allclose(planes[:, :, -2], more[..., 1::2], atol=1e-6)
    np.testing.assert_allclose(planes[:, :, -1], more[..., 2::2], atol=1e-6)
    (kind,) = env.entity_kinds
    assert [feature.name for feature in kind.dynamic[-4:]] == [feature.name for feature in observation.RIVALS]
    low, high = (np.array([getattr(f, name) for f in kind.dynamic])[:, None] for name in ("low", "high"))
    assert ((planes >= low) & (planes <= high)).all()
    assert env.roles["vehicle"].observation.shape == contexts.shape[-1:]
    flat = env.replace(observation="flat")
    assert (
        flat.observation(state)["vehicle"].shape
        == (1, 17 + 29 * NODES // 2)
        == (1, *flat.roles["vehicle"].observation.shape)
    )


def test_without_limits_rides_may_take_as_long_as_they_like(env, play):
    instances = of_row(play[0].instance, 0)
    free = env.replace(limits=False)
    find = jax.jit(jax.vmap(lambda instance: free.prepare(instance).figures.rivals))
    endless = instances.replace(
        **{name: np.full_like(getattr(instances, name), np.inf) for name in ("max_ride_time", "max_route_duration")}
    )
    found = find(instances)
    np.testing.assert_array_equal(found, find(endless))
    assert found.sum() < play[0].figures.rivals[0].sum()
