"""Verdicts on plans against an exact test: random tours, published optima, and corruptions of these."""

import collections
import csv
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.envs.darp.problem.instance import as_float32, make_instance
from jaxvrp.envs.darp.problem.solution import routes_to_actions, solution_report
from jaxvrp.io.problems.violations import Violation


def named(report):
    """The violated constraints."""
    return {name for name, found in report.violations.items() if found.count}


def schedulable(instance, route, *, ride=True, duration=True, slack=0.0):
    """Whether a tour has a schedule at all: difference constraints without a positive cycle (Bellman-Ford)."""
    nodes = [0, *route, 0]
    origin = len(nodes)
    least = np.full((origin + 1, origin + 1), -np.inf)
    for at, node in enumerate(nodes):
        least[origin, at] = instance.earliest[node]
        least[at, origin] = -(instance.deadline[node] + slack)
        if at:
            before = nodes[at - 1]
            least[at - 1, at] = instance.service_time[before] + math.dist(instance.locs[before], instance.locs[node])
        if ride and node and node % 2 == 0 and node - 1 in nodes[:at]:
            least[at, nodes.index(node - 1)] = -(instance.service_time[node - 1] + instance.max_ride_time + slack)
    if duration:
        least[origin - 1, 0] = -(instance.max_route_duration + slack)
    longest = np.full(origin + 1, -np.inf)
    longest[origin] = 0.0
    for _ in range(origin + 1):
        further = np.maximum(longest, (longest[:, None] + least).max(axis=0))
        if (further <= longest + 1e-9).all():
            return True
        longest = further
    return False


def broken_times(instance, route, slack=0.0):
    """What keeps a tour from having a schedule; what else would, is not decided where the windows do."""
    if not schedulable(instance, route, ride=False, duration=False, slack=slack):
        return {"windows"}
    ignored = {"ride_time": {"duration": False}, "route_duration": {"ride": False}}
    found = {name for name, kept in ignored.items() if not schedulable(instance, route, **kept, slack=slack)}
    assert schedulable(instance, route, slack=slack) == (not found)
    return found


def broken_order(instance, routes):
    """What else is wrong with routes that visit no node twice."""
    found = set() if sum(map(len, routes)) == instance.num_nodes else {"unserved"}
    for vehicle, route in enumerate(routes):
        if {node + 1 if node % 2 else node - 1 for node in route} != set(route):
            found.add("pairing")
        rides = [(at, route.index(n + 1) if n + 1 in route else -1, n) for at, n in enumerate(route) if n % 2]
        if any(end < start for start, end, _ in rides):
            found.add("load_at_depot")
        if any(0 <= end < start for start, end, _ in rides):
            found.add("precedence")
        for at in range(len(route)):
            load = sum(instance.demand[n] for start, end, n in rides if start <= at and not start < end <= at)
            found |= {"capacity"} if load > instance.capacity[vehicle] else set()
    return found


def decided(found):
    return found - {"ride_time", "route_duration"} if "windows" in found else found


def line_tour(numbers):
    """A tour of up to 8 requests on a line, with whole numbers: `(instance, route)`. `numbers(low, high)` draws one.

    As in the benchmark, one node of each request has a narrow window: what is delayed then decides about ride times.
    """
    count = numbers(1, 8)
    size, latest = 2 * count + 1, 300
    order = sorted([*range(count)] * 2, key=lambda request: 3 * request + numbers(0, 12))
    route = [2 * request + 1 + (request in order[:at]) for at, request in enumerate(order)]
    narrow = {2 * request + 1 + (numbers(0, 3) > 0) for request in range(count)}
    place, early, late, service = [0] * size, [0] * size, [latest] * size, [0] * size
    clock = early[0] = numbers(0, 8)
    late[0] = clock + numbers(10, 250)
    for before, node in itertools.pairwise([0, *route]):
        place[node], service[node] = numbers(-2, 2), numbers(0, 1)
        clock += abs(place[node] - place[before]) + service[before]
        if node in narrow:
            clock += numbers(0, 10)
            early[node] = max(0, clock - numbers(-1, 3))
            late[node] = early[node] + numbers(0, 20)
    instance = make_instance(
        [[x, 0] for x in place],
        [0] + [1, -1] * count,
        late,
        capacity=[count],
        earliest=early,
        service_time=service,
        max_ride_time=numbers(5, 25),
        max_route_duration=numbers(10, 150),
    )
    return instance, route


def assert_verdict_is_exact(instance, route):
    found = named(solution_report(instance, [*route, 0], tolerance=0))
    assert decided(found) == broken_times(instance, route)
    return found


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_eight_steps_find_a_schedule_whenever_there_is_one(data):
    assert_verdict_is_exact(*line_tour(lambda low, high: data.draw(st.integers(low, high))))


@pytest.mark.slow
def test_eight_steps_are_exact_on_many_tours_of_every_kind():
    rng = np.random.default_rng(0)
    kinds = collections.Counter()
    for _ in range(3000):
        found = assert_verdict_is_exact(*line_tour(lambda low, high: int(rng.integers(low, high + 1))))
        kinds[frozenset(decided(found))] += 1
    assert min(kinds[frozenset(kind)] for kind in ((), ["windows"], ["ride_time"], ["route_duration"])) >= 30, kinds


def plan_of(solution):
    return routes_to_actions(solution.routes, solution.instance.num_agents)


def test_published_optima_pass_at_their_cost_also_when_stored_in_float32(published):
    for solution in published:
        report = solution_report(solution.instance, plan_of(solution), strict=True, tolerance=1e-6)
        assert abs(report.cost - solution.cost) < 1e-6, solution.path
        solution_report(as_float32(solution.instance), plan_of(solution), strict=True)
        with (solution.path.parent / "best_known.csv").open() as file:
            row = next(row for row in csv.DictReader(file) if row["instance"] == solution.path.stem)
        assert abs(report.cost - float(row.get("optimal_cost") or row["cost"])) < 0.005, solution.path


def corruptions(solution, rng, count):
    """Routes with two nodes swapped in one tour or between two, or one node or one request moved elsewhere."""
    for _, kind in itertools.product(range(count), ("within", "between", "node", "request")):
        routes = [list(route) for route in solution.routes]
        source, target = rng.choice(len(routes), 2, replace=False)
        at, to = rng.choice(len(routes[source]), 2, replace=False)
        if kind == "within":
            routes[source][at], routes[source][to] = routes[source][to], routes[source][at]
        elif kind == "between":
            to = rng.integers(len(routes[target]))
            routes[source][at], routes[target][to] = routes[target][to], routes[source][at]
        else:
            node = routes[source][at]
            pair = [node] if kind == "node" else [node - 1 + node % 2, node + node % 2]
            routes[source] = [left for left in routes[source] if left not in pair]
            routes[target][to:to] = pair
        yield routes


@pytest.mark.slow
def test_every_corruption_of_a_published_optimum_is_named(published):
    rng = np.random.default_rng(0)
    outcomes = collections.Counter()
    for solution in published:
        assert not any(broken_times(solution.instance, route, 1e-6) for route in solution.routes)
        for routes in corruptions(solution, rng, 12):
            expected = broken_order(solution.instance, routes)
            for route in set(map(tuple, routes)) - set(solution.routes):
                expected |= broken_times(solution.instance, route, 1e-4)
            report = solution_report(solution.instance, routes_to_actions(routes, len(routes)))
            assert decided(named(report)) == decided(expected), (solution.path, routes)
            outcomes.update(expected or ["legal"])
    assert set(outcomes) >= {"legal", "pairing", "precedence", "capacity", "windows", "ride_time"}, outcomes


def test_every_dropped_or_repeated_node_of_a_published_optimum_is_named(published):
    for solution, tour in ((s, tour) for s in published for tour in range(len(s.routes))):
        routes, num_agents = list(map(list, solution.routes)), len(solution.routes)
        node = routes[tour][(7 * tour) % len(routes[tour])]
        routes[tour].append(node)
        found = solution_report(solution.instance, routes_to_actions(routes, num_agents)).violations
        assert found["duplicates"] == Violation(1, node)
        routes[tour] = [left for left in routes[tour] if left != node]
        found = solution_report(solution.instance, routes_to_actions(routes, num_agents)).violations
        assert found["unserved"] == Violation(1, node)
        assert found["pairing"] == Violation(1, node + 1 if node % 2 else node - 1)


def test_every_lateness_overload_and_overtime_in_a_published_optimum_is_named(published):
    for solution, tour in ((s, tour) for s in published for tour in range(len(s.routes))):
        instance, plan, route = solution.instance, plan_of(solution), solution.routes[tour]
        late, small = instance.deadline.copy(), instance.capacity.copy()
        legs = [math.dist(instance.locs[a], instance.locs[b]) for a, b in itertools.pairwise([0, *route, 0])]
        last, clock = (5 * tour) % len(route), instance.earliest[0]
        for at in range(last + 1):
            clock += legs[at] + (instance.service_time[route[at - 1]] if at else 0)
            clock = max(clock, instance.earliest[route[at]])
        late[route[last]] = clock - 1e-3
        found = solution_report(instance.replace(deadline=late), plan).violations
        assert found["windows"] == Violation(1, route[last])
        small[tour] = instance.demand[list(route)].cumsum().max() - 1
        found = named(solution_report(instance.replace(capacity=small), plan))
        assert found == {"capacity" if small[tour] else "vehicles"}
        least = sum(legs) + instance.service_time[list(route)].sum()
        assert "route_duration" in named(solution_report(instance.replace(max_route_duration=least - 1e-3), plan))
