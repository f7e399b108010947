"""The search by the clock: plans only get better, until time is up; and it restarts from the best of its chains."""

import jax
import numpy as np
import pytest

from jaxvrp.envs.darp import stack
from jaxvrp.envs.darp.baselines import search, timed_search
from jaxvrp.envs.darp.problem.solution import solution_report
from jaxvrp.search.stop import Rounds
from tests.jaxvrp.envs.darp.small_instances import TOLERANCE, padded

PENALTY, TRIES, CALLS, ROUNDS = 30.0, 4, 10, 4


@pytest.fixture(scope="module")
def instances():
    """Padded to one size; requests of all of them can be served."""
    return [instance for kind, instance in padded() if kind in ("default", "crowded", "mixed", "rounded")]


@pytest.fixture(scope="module")
def found(instances):
    """All that a search of so many calls yields."""
    how = {"tries": TRIES // 2, "threads": 2, "rounds": ROUNDS, "limits": True, "penalty": PENALTY}
    return list(timed_search.search_for(stack(instances), jax.random.key(0), Rounds(CALLS * ROUNDS), **how))


@pytest.mark.slow
def test_it_reports_after_every_call(found):
    assert len(found) == CALLS and (np.diff([each.seconds for each in found]) > 0).all()


@pytest.mark.slow
def test_plans_only_get_better_and_some_do(found):
    costs = np.stack([each.cost for each in found])
    assert (np.diff(costs, axis=0) <= 0).all()
    assert costs[-1].mean() < costs[0].mean()


@pytest.mark.slow
def test_the_plans_cost_what_is_said_and_keep_all_limits(found, instances):
    for each in (found[0], found[-1]):
        for instance, plan, cost in zip(instances, each.actions["vehicle"][..., 0], each.cost, strict=True):
            report = solution_report(instance, plan, tolerance=TOLERANCE)
            assert {name for name, broken in report.violations.items() if broken.count} <= {"unserved"}, str(report)
            unvisited = report.violations["unserved"].count
            np.testing.assert_allclose(cost, report.cost + PENALTY * unvisited, rtol=1e-4)


@pytest.mark.parametrize(("rounds", "skipped"), [(0, 0.8), (500, 0.5), (1000, 0.0), (10**6, 0.0)])
def test_with_little_time_annealing_begins_cooler(rounds, skipped):
    cycles = timed_search.cycles_of(rounds, requests=40)
    assert [cycle.first for cycle in cycles] == pytest.approx([max(first, skipped) for first in (0.0, 0.4, 0.6)])
    assert [cycle.last for cycle in cycles] == [1.0] * 3


def test_chains_restart_from_the_best_quarter_of_their_instance_in_all_searches(instances):
    keys = jax.random.split(jax.random.key(1), 2)
    parts = [search.begin(stack(instances), key, tries=TRIES, limits=True, penalty=PENALTY) for key in keys]
    restarted = search.restart(parts, TRIES)

    def together(each, name):
        leaves = [np.asarray(getattr(plans, name)) for plans in each]
        return np.concatenate([leaf.reshape(*leaf.shape[:-1], -1, TRIES) for leaf in leaves], axis=-1)

    cost, sequence = (together([part.best for part in parts], name) for name in ("cost", "sequence"))
    best = np.argsort(cost, axis=-1, kind="stable")[:, :2]
    for name, source in (("cost", cost), ("sequence", sequence)):
        found = together([part.plans for part in restarted], name)
        index = np.broadcast_to(np.tile(best, TRIES), found.shape)
        np.testing.assert_array_equal(found, np.take_along_axis(source, index, axis=-1))
    assert (cost[:, :TRIES].min(axis=-1) != cost[:, TRIES:].min(axis=-1)).any()
    np.testing.assert_array_equal(restarted[1].best.cost, parts[1].best.cost)
