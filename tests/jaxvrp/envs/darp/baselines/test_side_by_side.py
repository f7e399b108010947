"""The parts of a round of ruin and recreate, many plans side by side, against tours that are driven stop by stop."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.darp import stack
from jaxvrp.envs.darp.baselines import limits, recreate, ruin, search
from tests.jaxvrp.envs.darp.small_instances import NODES, VEHICLES, PlainTours, padded

TRIES, STOPS, REQUESTS = 24, NODES + VEHICLES + 1, NODES // 2


@functools.lru_cache
def begun(limits):
    """Instances, and a search of them that has made its first plans."""
    instances = [instance for kind, instance in padded() if kind in ("default", "mixed", "rounded", "long way home")]
    return instances, search.begin(stack(instances), jax.random.key(2), tries=TRIES, limits=limits)


def each_tour(sequence):
    """Tours of a sequence, without depots."""
    return [[int(node) for node in group] for full, group in itertools.groupby(sequence, bool) if full]


@functools.lru_cache
def drawn_tours():
    """A sequence with one tour for each lane, `[T, B]`, and whether it keeps all limits."""
    instances, _ = begun(True)
    rng, sequences, kept = np.random.default_rng(0), [], []
    for instance in instances:
        tours = PlainTours(instance.replace(capacity=np.full(VEHICLES, 99, np.int32)), limits=True)
        real = np.flatnonzero(instance.demand[1::2])
        for _ in range(TRIES):
            nodes = []
            for request in rng.permutation(real)[: rng.integers(1, 4)]:
                pickup = rng.integers(0, len(nodes) + 1)
                nodes.insert(pickup, 2 * request + 1)
                nodes.insert(rng.integers(pickup + 1, len(nodes) + 1), 2 * request + 2)
            sequences.append([0, *nodes, *[0] * (STOPS - 1 - len(nodes))])
            kept.append(tours.feasible(0, nodes))
    return np.array(sequences, np.int32).T, np.array(kept)


@pytest.mark.parametrize("short", [2, NODES])
@pytest.mark.slow("2")
def test_the_test_of_tours_finds_out_who_keeps_all_limits(short, monkeypatch):
    """Also where only some tours fit into the smaller program."""
    monkeypatch.setattr(limits, "SHORT", short)
    sequence, kept = drawn_tours()
    lanes = begun(True)[1].lanes
    test = jax.jit(lambda stop: limits.keep_limits(lanes, jnp.asarray(sequence), stop))
    for stop in (0, 2):
        np.testing.assert_array_equal(test(jnp.full(len(kept), stop, jnp.int32)), kept)
    assert 0.2 < kept.mean() < 0.8


def least_costs(instance, sequence, request):
    """The least cost of each pickup's place, `f64[T]`, with the drop-off anywhere behind it; windows and capacity."""
    tours, vehicles = PlainTours(instance, limits=False), np.cumsum(sequence == 0) - 1
    cost = np.full(STOPS, math.inf)
    for before in np.flatnonzero(vehicles < VEHICLES):
        begin = np.flatnonzero((sequence == 0) & (np.arange(STOPS) <= before))[-1]
        nodes = [*itertools.takewhile(bool, sequence[begin + 1 :])]
        driven, offset = tours.length(0, *nodes, 0), before - begin
        for drop in range(offset, len(nodes) + 1):
            longer = [*nodes[:offset], 2 * request + 1, *nodes[offset:drop], 2 * request + 2, *nodes[drop:]]
            if tours.feasible(vehicles[before], longer):
                cost[before] = min(cost[before], tours.length(0, *longer, 0) - driven)
    return cost


@pytest.mark.slow
def test_each_place_costs_what_driving_it_adds():
    instances, current = begun(False)
    lanes, sequence = current.lanes, np.asarray(current.plans.sequence)
    rng = np.random.default_rng(1)
    served = np.asarray(~current.plans.waiting & lanes.exists).T
    request = np.array([rng.choice(np.flatnonzero(each)) if each.any() else 0 for each in served])
    removed = np.arange(REQUESTS)[:, None] == request
    left = jax.jit(ruin.without)(jnp.asarray(sequence), jnp.asarray(removed))
    silent = jnp.zeros((2, *left.shape))

    @jax.jit
    def places():
        return recreate.places(lanes, recreate.make_stops(lanes, left), jnp.asarray(request, jnp.int32), silent)

    cost = np.asarray(places()[0])
    found = 0
    for lane in range(0, cost.shape[1], 7):
        instance, stops = instances[lane // TRIES], np.asarray(left)[:, lane]
        assert [node for node in stops if node] == [
            node for node in sequence[:, lane] if node and (node - 1) // 2 != request[lane]
        ]
        expected = least_costs(instance, stops, int(request[lane]))
        np.testing.assert_allclose(cost[:, lane], expected, rtol=1e-3, atol=1e-3)
        found += np.isfinite(expected).sum()
    assert found > 100


def test_removed_are_as_many_as_asked_for_of_those_that_exist():
    _, current = begun(False)
    lanes, sequence = current.lanes, current.plans.sequence
    batch = sequence.shape[1]
    uniform = jax.random.uniform(jax.random.key(0), (REQUESTS, batch))
    dice = jax.random.uniform(jax.random.key(1), (3, batch))
    for count in (1, 3):
        removed = np.asarray(jax.jit(ruin.chosen)(lanes, sequence, count, uniform, dice))
        assert not (removed & ~np.asarray(lanes.exists)).any()
        np.testing.assert_array_equal(removed.sum(axis=0), np.minimum(count, np.asarray(lanes.exists).sum(axis=0)))
    by_strings = dice.at[1].set(0.999).at[2].set(0.0)
    removed = np.asarray(jax.jit(ruin.chosen)(lanes, sequence, 2, uniform, by_strings))
    strings = 0
    for lane in range(batch):
        tours = [{(node - 1) // 2 for node in tour} for tour in each_tour(np.asarray(sequence)[:, lane])]
        if all(len(tour) >= 2 for tour in tours) and tours:
            strings += 1
            assert sum(bool(tour & {*np.flatnonzero(removed[:, lane])}) for tour in tours) == 1
    assert strings > 50
