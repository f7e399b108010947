"""The search finds the least makespan of all plans, and proven optima; its plans play, and the report accepts them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.reference.tsp_drone import least_makespan
from jaxvrp.envs.truck_and_drone.chains import advance, begin, cycles_of
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.tsp_drone import actions_to_operations, make, make_instance, pad, solution_report, stack
from jaxvrp.envs.tsp_drone.baselines.annealing import (
    first_tours,
    make_tables,
    method_of,
    most_revisits,
    plan_annealed,
    reversed_tours,
    search_episode,
    window_of,
)
from jaxvrp.envs.tsp_drone.baselines.partition import make_times


@functools.partial(jax.jit, static_argnums=0)
def played(env, instance, actions):
    """The last state."""
    state, _ = env.reset_to(instance)
    return jax.lax.scan(lambda state, action: (env.step(state, action)[0], None), state, actions)[0]


def searched(instance, stop=0.05, num_nodes=None, **rules):
    """The report about the best plan, which was also played; `stop` as of `search_episode`."""
    env = make(num_nodes=num_nodes or instance.num_nodes, **rules)
    *_, best = search_episode(env, pad(instance, env.num_nodes), jax.random.key(0), stop)
    report = solution_report(instance, actions_to_operations(best.actions), strict=True, **rules)
    assert report.cost == pytest.approx(best.cost, rel=1e-5)
    assert len(best.actions["drone"]) <= env.max_episode_steps
    state = played(env, pad(instance, env.num_nodes), best.actions)
    assert state.done and state.totals.invalid_actions == 0
    assert float(state.clock) == pytest.approx(report.cost, rel=1e-5)
    return report


def drawn(seed, count=5, **parameters):
    return make_instance(np.random.default_rng(seed).uniform(0, 100, (count, 2)), **parameters)


def matrices(seed):
    rng = np.random.default_rng(seed)
    truck, drone = rng.uniform(1, 9, (2, 5, 5)) * (1 - np.eye(5))
    limits = {"max_flight": 8.0, "launch_time": 0.5, "recovery_time": 0.5, "no_fly": [0, 0, 1, 0, 0]}
    return drawn(seed, truck_time=truck, drone_time=drone, **limits)


TINY = {
    "plain": drawn(0),
    "range": drawn(1, max_flight=70.0),
    "no range": drawn(2, max_flight=1.0),
    "forbidden": drawn(3, no_fly=[0, 1, 0, 1, 0]),
    "launches": drawn(4, launch_time=5.0, recovery_time=3.0),
    "slow": drawn(5, drone_pace=1.5),
    "fast": drawn(6, drone_pace=0.02),
    "smaller": drawn(7, 4),
    "matrices": matrices(8),
    "sorties": drawn(9, launch_time=9.0, depot_launch_time=0.0, recovery_time=3.0, max_sortie=75.0),
}
"""Instances of up to five nodes; where the drone is fast, truck and drone stay at the depot."""


@pytest.mark.slow("False")
@pytest.mark.parametrize("allow_revisits", [True, False])
def test_the_search_finds_the_least_makespan_of_all_plans(allow_revisits):
    for name, instance in TINY.items():
        least = pytest.approx(least_makespan(instance, allow_revisits=allow_revisits), rel=1e-5)
        # On a busy machine a short search has next to no rounds.
        for seconds in (0.1, 1.0, 10.0):
            report = searched(instance, seconds, num_nodes=5, allow_revisits=allow_revisits)
            if report.cost == least:
                break
        assert report.cost == least, name


@pytest.mark.slow("2")
@pytest.mark.parametrize("count", [1, 2])
def test_hardly_any_customers(count):
    assert most_revisits(count) == 0
    assert searched(drawn(9, count)).cost == pytest.approx(
        np.linalg.norm(drawn(9, count).locs[-1] - drawn(9, count).locs[0])
    )


def test_the_search_for_a_further_problem_compiles_nothing(caplog):
    searched(drawn(0))
    with jax.log_compiles():
        searched(drawn(1))
    assert not [each.message for each in caplog.records if each.message.startswith("Compiling")]


def annealed(instance, calls=16):
    """The least makespan after so many calls: their number does not depend on the machine."""
    times, revisits = make_times(as_float32(stack([instance]))), most_revisits(instance.num_nodes)
    tables, method = make_tables(times), method_of(revisits, window_of(times.num_nodes))
    begin_key, *keys = jax.random.split(jax.random.key(0), calls + 1)
    chains = begin(method, tables, first_tours(times, begin_key, chains=8, revisits=revisits))
    heats = jnp.geomspace(6.0, 0.5, calls * 128, dtype=jnp.float32).reshape(calls, -1)
    for key, each in zip(keys, heats, strict=True):
        chains = advance(method, tables, chains, key, each, each)
    return float(chains.least.min())


@pytest.mark.parametrize(("steps", "count"), [(10.0, 1), (3000.0, 3), (1e15, 1000)])
def test_cycles_fill_a_search_of_any_length(steps, count):
    cycles = cycles_of(1000.0, steps)
    assert len(cycles) == count and cycles[0].begin == 0 and cycles[-1].end == 1
    assert all(cycle.end == after.begin for cycle, after in itertools.pairwise(cycles))


def test_many_instances_are_annealed_at_once():
    """Without revisits; each plan is the best of its tour, and goes the way round with the shorter first leg."""
    instances = [*(TINY[name] for name in TINY if name not in ("matrices", "sorties")), drawn(10, 5)]
    planned = jax.jit(functools.partial(plan_annealed, steps=64))(stack(instances), jax.random.key(0))
    for instance, tour, cost in zip(instances, np.asarray(planned.tours).T, planned.cost, strict=True):
        assert float(cost) == pytest.approx(least_makespan(instance, allow_revisits=False), rel=1e-5)
        assert sorted(tour[tour > 0]) == list(range(1, instance.num_nodes)) and tour[0] == tour[-1] == 0
        first, last = (np.linalg.norm(instance.locs[node] - instance.locs[0]) for node in (tour[1], tour[tour > 0][-1]))
        assert first <= last * (1 + 1e-6)


def test_a_tour_is_driven_the_other_way_round():
    tours = np.array([[0, 3, 1, 2, 0, 0], [0, 1, 0, 0, 0, 0], [0, 5, 4, 3, 2, 0]]).T
    wanted = [[0, 2, 1, 3, 0, 0], [0, 1, 0, 0, 0, 0], [0, 2, 3, 4, 5, 0]]
    np.testing.assert_array_equal(np.asarray(reversed_tours(jnp.asarray(tours, jnp.int32))).T, wanted)


@pytest.mark.slow
def test_proven_optima_of_published_instances(published):
    optimal = [each for each in published if each.is_optimal]
    largest = [each for each in optimal if each.instance.num_nodes == 17]
    fast = [each for each in optimal if "alpha_3" in each.name]
    assert len(largest) == 5 and len(fast) == 15
    for solution in itertools.chain(largest, fast[::5]):
        assert annealed(solution.instance) == pytest.approx(solution.cost, rel=1e-5), solution.name
