"""The search by the clock: plans only get better, until time is up; and it restarts from the best of its chains."""

import itertools

import jax
import numpy as np
import pytest

from jaxvrp.envs.darp import stack
from jaxvrp.envs.darp.baselines import search, timed_search
from jaxvrp.envs.darp.problem.solution import solution_report
from tests.jaxvrp.envs.darp.small_instances import TOLERANCE, padded

PENALTY, TRIES, SECONDS = 30.0, 4, 10.0


@pytest.fixture(scope="module")
def instances():
    """Padded to one size; requests of all of them can be served."""
    return [instance for kind, instance in padded() if kind in ("default", "crowded", "mixed", "rounded")]


@pytest.fixture(scope="module")
def found(instances):
    """All that a search yields whose clock goes on by a second whenever it is read."""
    ticks = itertools.count()
    how = {"tries": TRIES // 2, "threads": 2, "limits": True, "penalty": PENALTY, "clock": lambda: float(next(ticks))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timed_search, "ROUNDS", 4)
        return list(timed_search.search_for(stack(instances), jax.random.key(0), SECONDS, **how))


@pytest.mark.slow
def test_it_ends_when_time_is_up(found):
    assert [each.seconds for each in found] == list(range(1, int(SECONDS) + 1))


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
    assert timed_search.share_skipped(rounds, requests=40) == pytest.approx(skipped)
    assert timed_search.progress_of(0.0, 0, skipped) == skipped
    assert timed_search.progress_of(0.9999, 2, skipped) == pytest.approx(1, abs=1e-3)


def test_annealing_cools_in_every_cycle_and_begins_each_cooler():
    shares = np.linspace(0, 0.999, 400)
    begins = [begin for begin, *_ in timed_search.CYCLES]
    cycle = np.searchsorted(begins, shares, side="right") - 1
    progress = np.array(
        [timed_search.progress_of(share, int(of), 0.0) for share, of in zip(shares, cycle, strict=True)]
    )
    starts = [progress[cycle == of][0] for of in range(len(begins))]
    assert starts == sorted(starts) and starts[0] == 0
    for of in range(len(begins)):
        assert (np.diff(progress[cycle == of]) > 0).all()
        assert progress[cycle == of][-1] > 0.97


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
