"""Cheapest insertion against a plain one, and its plans against the report and the environment."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.darp import stack
from jaxvrp.envs.darp.baselines.insertion import cheapest_insertion
from jaxvrp.envs.darp.problem.solution import actions_to_routes, solution_report
from tests.jaxvrp.envs.darp.small_instances import KINDS, NODES, TOLERANCE, VEHICLES, PlainTours, padded


@functools.lru_cache
def actions(limits, regret):
    """Plans for `padded()`, solved as one batch."""
    solve = jax.jit(jax.vmap(functools.partial(cheapest_insertion, limits=limits, regret=regret)))
    return np.asarray(solve(stack([instance for _, instance in padded()])))


def cases(kind, limits, regret):
    pairs = zip(padded(), actions(limits, regret), strict=True)
    return [(instance, plan) for (its_kind, instance), plan in pairs if its_kind == kind]


# With limits that are infinite, as the generated instances have, regret is the same as without.
options = pytest.mark.parametrize(("limits", "regret"), [(False, False), (True, False), (True, True)])


class Plain(PlainTours):
    """The same, written plainly: every place of every request is simulated anew."""

    def __init__(self, instance, limits):
        super().__init__(instance, limits)
        self.cheapest = functools.cache(self.search)

    def search(self, vehicle, route, request):
        """Cost and longer route of the cheapest place; inf for none."""
        best = math.inf, None
        for i, j in itertools.combinations_with_replacement(range(len(route) + 1), 2):
            longer = (*route[:i], 2 * request + 1, *route[i:j], 2 * request + 2, *route[j:])
            cost = self.length(0, *longer, 0) - self.length(0, *route, 0)
            if cost < best[0] and self.feasible(vehicle, longer):
                best = cost, longer
        return best

    def solve(self, regret):
        """All routes but the empty ones at the end."""
        routes = [()] * np.count_nonzero(self.instance.capacity)
        waiting = set(np.flatnonzero(self.instance.demand[1::2]).tolist())
        while True:
            offers = []
            for request in waiting:
                places = [self.cheapest(vehicle, route, request) for vehicle, route in enumerate(routes)]
                (cost, longer), (second, _) = sorted([*places, (math.inf, None)], key=lambda place: place[0])[:2]
                if longer:
                    vehicle = places.index((cost, longer))
                    offers.append((second - cost if regret else 0, -cost, -request, vehicle, longer))
            if not offers:
                return [list(route) for route in routes[: max((v + 1 for v, r in enumerate(routes) if r), default=0)]]
            *_, request, vehicle, longer = max(offers)
            waiting.remove(-request)
            routes[vehicle] = longer


@options
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow(
    "default-True-True",
    "default-False-False",
    "crowded-True-True",
    "crowded-False-False",
    "mixed-False-False",
    "mixed-True-True",
    "rounded-True-False",
    "rounded-True-True",
    "alike-True-True",
    "alike-False-False",
    "alike-True-False",
)
def test_plan_is_that_of_a_plain_insertion(kind, limits, regret):
    for instance, plan in cases(kind, limits, regret):
        assert actions_to_routes(plan) == Plain(instance, limits).solve(regret)


def test_cases_ask_for_something():
    served, limited, regretted = actions(False, False), actions(True, False), actions(True, True)
    real = np.array([np.count_nonzero(instance.demand) for _, instance in padded()])
    assert np.count_nonzero(np.count_nonzero(served, axis=1) < real) > 10
    assert np.count_nonzero((served != limited).any(axis=1)) > 10
    assert np.count_nonzero((limited != regretted).any(axis=1)) > 10


@options
def test_report_finds_nothing_but_requests_left_out(limits, regret):
    expected = {"unserved"} if limits else {"unserved", "ride_time", "route_duration"}
    for (_, instance), plan in zip(padded(), actions(limits, regret), strict=True):
        report = solution_report(instance, plan, tolerance=TOLERANCE)
        assert {name for name, found in report.violations.items() if found.count} <= expected, str(report)


@pytest.mark.parametrize("limits", [False, True])
def test_who_cannot_be_served_stays(limits):
    for _, plan in cases("impossible", limits, False):
        np.testing.assert_array_equal(plan, np.zeros(NODES + VEHICLES))


def test_going_home_from_halfway_counts_for_the_duration():
    (_, free), (_, limited) = (cases("long way home", limits, False)[0] for limits in (False, True))
    assert actions_to_routes(free) == [[1, 2]]
    assert actions_to_routes(limited) == []


def test_an_instance_alone_and_without_padding_has_the_same_plan():
    instances = itertools.chain.from_iterable(make() for make in KINDS.values())
    pairs = zip(instances, actions(False, False), strict=True)
    small = [(instance, plan) for instance, plan in pairs if (instance.num_nodes, instance.num_agents) == (8, 2)]
    assert len(small) > 2
    for instance, plan in small:
        alone = np.asarray(cheapest_insertion(instance))
        np.testing.assert_array_equal(np.pad(alone, (0, plan.size - alone.size)), plan)


def replayed(limits):
    """Metrics `[E]` at the end of the episodes in which the plans for `padded()` are played."""
    env = jaxvrp.make("darp", num_nodes=NODES, num_agents=VEHICLES, limits=limits)

    def play(instance, plan):
        def step(state, node):
            return env.step(state, {"vehicle": node[None]})[0], None

        return env.metrics(jax.lax.scan(step, env.reset_to(instance)[0], plan)[0])

    return jax.jit(jax.vmap(play))(stack([instance for _, instance in padded()]), actions(limits, False))


@pytest.mark.parametrize("limits", [False, True])
def test_environment_plays_the_plan_at_the_same_cost(limits):
    metrics = jax.device_get(replayed(limits))
    played = dict.fromkeys(KINDS, 0)
    for at, ((kind, instance), plan) in enumerate(zip(padded(), actions(limits, False), strict=True)):
        report = solution_report(instance, plan, tolerance=TOLERANCE)
        unserved, fleet = report.violations["unserved"].count, np.count_nonzero(instance.capacity)
        if not all(report.routes):
            assert kind == "mixed"
        elif not unserved or len(report.routes) == fleet:
            played[kind] += 1
            assert metrics["invalid_actions"][at] == 0, (kind, at)
            assert metrics["unvisited_nodes"][at] == unserved
            np.testing.assert_allclose(metrics["total_distance"][at], report.cost, rtol=1e-5)
    assert played["default"] == 8
    assert min(played["crowded"], played["mixed"], played["alike"], played["rounded"]) > 3, played
