"""PyVRP and OR-Tools against brute force, and what they must leave out, keep apart or put in order."""

import functools
import itertools
import sys
import types

import numpy as np
import pytest

from benchmarks.solvers import solve_ortools, solve_pyvrp, tighten
from jaxvrp.envs.darp import make_instance, pad, stack
from jaxvrp.envs.darp.problem.instance import as_float32
from jaxvrp.envs.darp.problem.solution import routes_to_actions, solution_report
from jaxvrp.geography.streets import closed

SECONDS = 0.1
"""Thousands of iterations; the instances here need a handful."""

MISSING = "an optional package; pip install -e '.[solvers]'"


def pyvrp(instance, **options):
    pytest.importorskip("pyvrp", reason=MISSING)
    return solve_pyvrp(instance, seconds=SECONDS, **options)


def ortools(instance, **options):
    pytest.importorskip("ortools", reason=MISSING)
    return solve_ortools(instance, seconds=SECONDS, **options)


both = pytest.mark.parametrize("solve", [pyvrp, ortools])


def length(instance, route):
    stops = [0, *route, 0]
    if instance.travel_distance is not None:
        return sum(instance.travel_distance[way] for way in itertools.pairwise(stops))
    return np.linalg.norm(np.diff(instance.locs[stops], axis=0), axis=1).sum()


def fits(instance, route, tolerance=1e-4):
    """Whether the route has a schedule: its graph of time differences has shortest paths, no negative cycle."""
    stops = [0, *route, 0]
    last, clock = len(stops) - 1, len(stops)
    travel = np.linalg.norm(np.diff(instance.locs[stops], axis=0), axis=1) / instance.vehicle_speed
    if instance.travel_time is not None:
        travel = np.array([instance.travel_time[way] for way in itertools.pairwise(stops)])
    travel = np.round(travel) if instance.round_travel_time else travel
    edges = [(clock, at, instance.deadline[node]) for at, node in enumerate(stops)]
    edges += [(at, clock, -instance.earliest[node]) for at, node in enumerate(stops)]
    edges += [(at + 1, at, -instance.service_time[stops[at]] - travel[at]) for at in range(last)]
    edges += [(0, last, instance.max_route_duration)]
    for at, node in enumerate(route, 1):
        if node % 2:
            edges.append((at, stops.index(node + 1), instance.service_time[node] + instance.max_ride_time))
    time = np.zeros(clock + 1)
    for _ in range(clock + 1):
        before = time.copy()
        for source, target, most in edges:
            time[target] = min(time[target], time[source] + most + tolerance)
        if np.array_equal(before, time):
            return True
    return False


def paired(instance, route):
    """Each passenger boards before he leaves, and nobody stays on board."""
    order = {node: at for at, node in enumerate(route)}
    return all(order[node] < order.get(node + 1, -1) for node in route if node % 2) and not sum(
        instance.demand[list(route)]
    )


def cost(instance, plan, penalty=100.0):
    """Of a plan that must be feasible, save for whom it leaves unserved."""
    assert len(plan) == instance.num_agents
    report = solution_report(instance, routes_to_actions(plan, instance.num_agents))
    assert {name for name, found in report.violations.items() if found.count} <= {"unserved"}, report.summary()
    return report.cost + penalty * report.violations["unserved"].count


def optimum(instance, penalty=100.0):
    """By trying everything: all orders of every set of requests, all ways to deal the sets out to the vehicles."""
    pickups = range(1, instance.demand.size, 2)

    @functools.cache
    def best_route(served, capacity):
        nodes = [end for p in served for end in (p, p + 1)]
        orders = [list(order) for order in itertools.permutations(nodes) if paired(instance, order)]
        loads = [max(np.cumsum(instance.demand[order]), default=0) for order in orders]
        routes = [order for order, load in zip(orders, loads, strict=True) if load <= capacity]
        return min((length(instance, route) for route in routes if fits(instance, route)), default=np.inf)

    def total(deal):
        sets = [tuple(p for p, by in zip(pickups, deal, strict=True) if by == v) for v in range(instance.num_agents)]
        routes = sum(best_route(served, int(c)) for served, c in zip(sets, instance.capacity, strict=True))
        return routes + 2 * penalty * deal.count(-1)

    return min(total(deal) for deal in itertools.product(range(-1, instance.num_agents), repeat=len(pickups)))


def small(seed, requests=3, **fields):
    """Random places and windows in a day of 100, short of time, so that some requests are not worth it or hopeless."""
    rng = np.random.default_rng(seed)
    count = 2 * requests + 1
    demand, earliest, deadline = np.zeros(count), np.zeros(count), np.full(count, 100.0)
    demand[1::2] = rng.integers(1, 3, requests)
    demand[2::2] = -demand[1::2]
    earliest[1:] = rng.uniform(0, 40, count - 1)
    deadline[1:] = earliest[1:] + rng.uniform(5, 50, count - 1)
    service = np.where(np.arange(count) > 0, rng.uniform(0, 2, count), 0.0)
    values = {"deadline": deadline, "capacity": [2, 3], "earliest": earliest, "service_time": service}
    return make_instance(rng.uniform(0, 40, (count, 2)), demand, vehicle_speed=2.0, **(values | fields))


def line(places, deadline=None, demand=1, **fields):
    """Depot, pickup, drop-off, pickup, ... on a line, at speed 1."""
    count = len(places)
    signs = np.array([0] + [1, -1] * (count // 2)) * np.append(0, np.repeat(demand, (count - 1) // np.size(demand)))
    late = np.full(count, np.inf) if deadline is None else deadline
    return make_instance(np.stack([places, np.zeros(count)], axis=1), signs, late, **({"capacity": [3]} | fields))


@both
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("round_travel_time", [False, True])
def test_the_optimum_of_tiny_instances_is_found(solve, seed, round_travel_time):
    instance = small(seed, requests=2 + seed % 2, round_travel_time=round_travel_time)
    assert cost(instance, solve(instance)) == pytest.approx(optimum(instance), abs=1e-4)


@both
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_along_one_way_streets_is_found(solve, seed):
    seconds, metres = np.random.default_rng(seed).uniform(2, 20, (2, 7, 7)) * ~np.eye(7, dtype=bool)
    times, lengths, _ = closed(seconds, metres)
    instance = small(seed, travel_time=times, travel_distance=lengths)
    assert cost(instance, solve(instance)) == pytest.approx(optimum(instance), abs=1e-4)


LIMITED = {2: False, 4: True, 5: True, 11: True}
"""Seeds, and whether the limits cost anything there."""


@pytest.mark.parametrize(("seed", "costly"), LIMITED.items())
def test_the_optimum_with_both_limits_is_found(seed, costly):
    instance = small(seed, max_ride_time=15.0, max_route_duration=60.0)
    best = optimum(instance)
    assert (best > optimum(small(seed)) + 1e-4) == costly
    assert cost(instance, ortools(instance)) == pytest.approx(best, abs=1e-4)


def test_some_tiny_instances_are_served_in_full_and_some_are_not():
    costs = [optimum(small(seed)) for seed in LIMITED]
    assert min(costs) < 200 < max(costs)


@both
def test_five_requests_are_served_by_a_feasible_plan(solve):
    instance = small(11, requests=5, capacity=[3, 3], deadline=np.full(11, 500.0))
    plan = solve(instance)
    assert sorted(plan[0] + plan[1]) == list(range(1, 11))
    assert cost(instance, plan) < 500


def test_a_ride_time_limit_is_kept_where_ignoring_it_is_cheaper():
    # All in one go: 1, 10, 11, -1, home. Rides of at most 10: the first passenger is brought before the second.
    instance = line([0, 1, -1, 10, 11], [99, 15, 99, 99, 99], max_ride_time=10.0)
    plan = ortools(instance)
    assert plan == [[1, 2, 3, 4]]
    assert cost(instance, plan) == pytest.approx(26)
    assert ortools(instance.replace(max_ride_time=np.array(np.inf))) == [[1, 3, 4, 2]]
    # The documented relaxation.
    assert pyvrp(instance) == [[1, 3, 4, 2]]


def test_a_pickup_waits_where_an_early_one_would_ride_too_long():
    instance = line([0, 1, 2], [99, 90, 60], earliest=[0, 0, 50], max_ride_time=5.0)
    assert ortools(instance) == [[1, 2]]


def test_a_ride_begins_when_the_pickup_has_been_served():
    served = line([0, 1, 3], service_time=[0, 4, 0], max_ride_time=2.0)
    assert ortools(served) == [[1, 2]]


@both
def test_service_takes_time(solve):
    quick = line([0, 1, 9, 2, 9], [99, 1, 99, 2.5, 99])
    assert solve(quick)[0][:2] == [1, 3]
    slow = quick.replace(service_time=np.array([0.0, 1, 0, 0, 0]))
    assert len(solve(slow)[0]) == 2


@both
def test_a_route_duration_splits_a_route_and_leaves_the_depot_late(solve):
    places, earliest = [0, 5, 6, 5, 6], [0, 90, 90, 20, 20]
    instance = line(places, [199, 99, 99, 29, 29], earliest=earliest, capacity=[1, 1], max_route_duration=20.0)
    assert sorted(solve(instance)) == [[1, 2], [3, 4]]
    assert solve(instance.replace(max_route_duration=np.array(np.inf))) == [[3, 4, 1, 2], []]


@both
def test_a_request_that_cannot_be_served_is_left_out(solve):
    impossible = line([0, 1, 2, 3, 4], [99, 50, 5, 50, 50], earliest=[0, 10, 0, 0, 0])
    assert solve(impossible) == [[3, 4]]
    with pytest.warns(UserWarning, match="exceed every vehicle's capacity"):
        oversized = line([0, 1, 2, 3, 4], demand=[9, 1])
    assert solve(oversized) == [[3, 4]]
    too_far = line([0, 1, 9, 3, 4], max_ride_time=5.0)
    assert solve(too_far) == [[3, 4]]
    assert solve(line([0, 30, 31], [50, 40, 99])) == [[]]


@both
def test_two_requests_for_one_seat_at_one_time_leave_one_out(solve):
    instance = line([0, 1, 9, 1, 9], [99, 1, 9, 1, 9], capacity=[1])
    assert solve(instance) in ([[1, 2]], [[3, 4]])


@both
def test_the_penalty_decides_what_is_worth_driving(solve):
    instance = line([0, 1, 2, 50, 51], capacity=[3])
    assert solve(instance, penalty=100.0)[0] != []
    assert solve(instance, penalty=3.0) == [[1, 2]]
    assert solve(instance, penalty=1.0) == [[]]


@both
@pytest.mark.parametrize(("capacity", "large"), [([1, 3], 1), ([3, 1], 0)])
def test_the_large_party_gets_the_large_vehicle(solve, capacity, large):
    instance = line([0, 1, 9, 1, 9], [99, 1, 9, 1, 9], demand=[3, 1], capacity=capacity)
    plan = solve(instance)
    assert (plan[large], plan[1 - large]) == ([1, 2], [3, 4])


@both
def test_empty_routes_come_last_as_far_as_capacities_allow(solve):
    assert solve(line([0, 1, 2], capacity=[3, 3, 3])) == [[1, 2], [], []]
    assert solve(line([0, 1, 2], demand=3, capacity=[1, 3, 3])) == [[], [1, 2], []]
    instance = line([0, 1, 9, 1, 9], [99, 1, 9, 1, 9], demand=[2, 3], capacity=[2, 3, 2, 4])
    assert solve(instance) == [[1, 2], [3, 4], [], []]


@both
def test_padding_is_ignored_and_jax_arrays_are_fine(solve):
    instance = line([0, 1, 2, 3, 4], [99, 50, 50, 50, 50])
    assert solve(as_float32(pad(instance, 8, 3))) == [solve(instance)[0], [], []]
    assert solve(instance.replace(capacity=np.zeros(2, np.int32))) == [[], []]


@both
def test_rounded_times_may_make_a_stop_quicker_than_the_direct_way(solve):
    # 0.8 takes 1, twice 0.4 takes 0: both passengers are in time only via the other's pickup.
    instance = line([0, 0, 0.8, 0.4, 0.8], [9, 0, 0, 0, 0], round_travel_time=True)
    assert tighten(instance)[0].tolist() == [0, 0, 0, 0, 0]
    assert solve(instance)[0][:2] == [1, 3]


@both
def test_a_plan_that_fits_exactly_is_not_lost_to_rounding_and_one_that_misses_is(solve):
    locs = np.random.default_rng(1).uniform(0, 9, (9, 2))
    clock = np.append(0, np.cumsum(np.linalg.norm(np.diff(locs, axis=0), axis=1)))
    deadline = np.append(clock[-1] + np.linalg.norm(locs[-1] - locs[0]), clock[1:])
    instance = make_instance(locs, [0] + [1, -1] * 4, deadline, earliest=np.append(0, clock[1:]), capacity=[1])
    assert solve(instance) == [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert solve(line([0, 1, 9, 5, 9], [99, 1, 9, 5, 9])) == [[1, 3, 2, 4]]
    assert len(solve(line([0, 1, 9, 5, 9], [99, 1, 9, 5 - 1e-4, 9]))[0]) == 2


@both
def test_the_clock_starts_when_the_depot_opens(solve):
    """Times far from 0, also before it, are as good as any."""
    for opening in (-500.0, 1e9):
        instance = line([0, 1, 2], opening + np.array([9.0, 3, 4]), earliest=np.full(3, opening))
        assert solve(instance) == [[1, 2]]
        assert solve(instance.replace(deadline=opening + np.array([9.0, 0.5, 4]))) == [[]]


def test_tighten_takes_what_the_other_end_forbids():
    # The ride takes 4, service at the pickup 1; at most 10 on board.
    instance = line([0, 1, 5], [99, 90, 40], earliest=[0, 0, 30], service_time=[0, 1, 2], max_ride_time=10.0)
    earliest, deadline = tighten(instance)
    np.testing.assert_allclose(earliest, [0, 19, 30])
    np.testing.assert_allclose(deadline, [99, 35, 40])
    outbound = line([0, 1, 5], [99, 20, np.inf], earliest=[0, 10, 0], service_time=[0, 1, 2], max_ride_time=10.0)
    np.testing.assert_allclose(tighten(outbound), [[0, 10, 15], [99, 20, 31]])
    unlimited = line([0, 1, 5], [99, 20, np.inf], earliest=[0, 10, 0])
    np.testing.assert_allclose(tighten(unlimited), [[0, 10, 14], [99, 20, np.inf]])


@pytest.mark.parametrize("seed", range(6))
def test_tighten_changes_no_optimum(seed):
    instance = small(seed, requests=2, max_ride_time=15.0)
    earliest, deadline = tighten(instance)
    tight = instance.replace(earliest=earliest, deadline=deadline)
    assert optimum(tight) == pytest.approx(optimum(instance))


@both
def test_wrong_arguments_are_refused(solve):
    instance = line([0, 1, 2])
    with pytest.raises(ValueError, match="penalty is -1"):
        solve(instance, penalty=-1)
    with pytest.raises(ValueError, match="demand has 2 axes; solve the instances of a batch one by one"):
        solve(stack([instance, instance]))
    with pytest.raises(ValueError, match="penalty is 1e\\+06; give at most 20000, 10000 of the longest way"):
        solve(instance, penalty=1e6)


@both
@pytest.mark.parametrize("scale", [60.0, 1e6, 1 / 1440])
def test_the_same_problem_in_other_units_has_the_same_plan(solve, scale):
    """Requests at 1 and 2, and at 9 and 5; what is far is served, too, whatever a unit is."""
    places, deadline = np.array([0, 1, 9, 5, 9]) * scale, np.array([99, 1, 9, 5, 9]) * scale
    assert solve(line(places, deadline)) == [[1, 3, 2, 4]]
    assert solve(line(np.array([0, 1000, -1000]) * scale)) == [[1, 2]]


@pytest.mark.parametrize("name", ["pyvrp", "ortools"])
def test_a_time_limit_must_be_positive(name):
    pytest.importorskip(name, reason=MISSING)
    solve = {"pyvrp": solve_pyvrp, "ortools": solve_ortools}[name]
    for seconds in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="seconds is"):
            solve(line([0, 1, 2]), seconds=seconds)


def refuse_import(monkeypatch, solve, module, stub):
    monkeypatch.setitem(sys.modules, module, stub)
    with pytest.raises(
        ImportError, match=rf"^{solve.__name__} needs [^\n]*; pip install -e '\.\[solvers\]' in a clone of jaxvrp$"
    ):
        solve(line([0, 1, 2]), seconds=1)


def test_a_missing_or_old_package_is_named_with_the_remedy(monkeypatch):
    refuse_import(monkeypatch, solve_ortools, "ortools.constraint_solver", None)
    refuse_import(monkeypatch, solve_pyvrp, "pyvrp", None)
    refuse_import(monkeypatch, solve_pyvrp, "pyvrp", types.ModuleType("older_than_0_14"))
