"""Checking whole plans: each constraint by hand-made cases."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.darp.problem.instance import as_float32, make_instance, pad, stack
from jaxvrp.envs.darp.problem.solution import CONSTRAINTS, actions_to_routes, routes_to_actions, solution_report


def broken(report):
    """The violated constraints: `{name: (count, first node)}`."""
    return {name: (found.count, found.first_node) for name, found in report.violations.items() if found.count}


def on_a_line(**changes):
    """Pickups at 1 and 3, their drop-offs at 2 and 4, one and two passengers; two vehicles."""
    values = {
        "locs": [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]],
        "demand": [0, 1, -1, 2, -2],
        "deadline": [100] * 5,
        "capacity": [3, 3],
    }
    return make_instance(**values | changes)


GOOD = [1, 3, 2, 4, 0]


@pytest.mark.parametrize("plan", [GOOD, GOOD[:-1], [*GOOD, 0, 0, 0], [0, *GOOD], [1, 2, 0, 3, 4], [1, 2, 0, 3, 4, 0]])
def test_a_good_plan_passes_however_it_ends(plan):
    report = solution_report(on_a_line(), plan, strict=True)
    assert report.feasible and not broken(report) and list(report.violations) == list(CONSTRAINTS)
    assert report.cost == {1: 10, 2: 12}[sum(map(bool, report.routes))]


def test_routes_and_service_times():
    instance = on_a_line(earliest=[5, 20, 0, 0, 0], service_time=[0, 1, 2, 3, 4])
    report = solution_report(instance, [0, 1, 3, 2, 4, 0])
    assert report.routes == ((), (1, 3, 2, 4))
    np.testing.assert_array_equal(report.service_start, [np.nan, 20, 27, 23, 31])
    again = solution_report(instance, [0, 1, 3, 2, 4, 2, 0])
    np.testing.assert_array_equal(again.service_start, report.service_start)


def test_a_vehicle_leaves_as_late_as_it_can():
    """It must be back 20 after it left and node 3 opens at 50: leaving at 5 would not do."""
    instance = on_a_line(earliest=[5, 0, 0, 50, 0], max_route_duration=20, max_ride_time=6)
    report = solution_report(instance, GOOD, tolerance=0)
    assert report.feasible
    np.testing.assert_array_equal(report.service_start, [np.nan, 48, 51, 50, 53])


@pytest.mark.parametrize(("rounded", "expected"), [(False, [2.5, 3.75, 5.0, 6.25]), (True, [2, 3, 4, 5])])
def test_travel_time_is_rounded_half_to_even(rounded, expected):
    """Legs of 10, 5, 5 and 5 at speed 4: 2.5 and 1.25."""
    locs = [[0, 0], [10, 0], [15, 0], [20, 0], [25, 0]]
    instance = on_a_line(locs=locs, vehicle_speed=4, round_travel_time=rounded)
    report = solution_report(instance, [1, 2, 3, 4, 0])
    np.testing.assert_array_equal(report.service_start[1:], expected)
    assert report.cost == 50


BAD = {
    "nothing": ([], {}, {"unserved": (4, 1)}),
    "only the depot": ([0, 0, 0], {}, {"unserved": (4, 1)}),
    "a request left": ([1, 2, 0], {}, {"unserved": (2, 3)}),
    "a request left, tour open": ([1, 2], {}, {"unserved": (2, 3), "open_tour": (1, 2)}),
    "second tour open": (
        [3, 4, 0, 1],
        {},
        dict.fromkeys(("pairing", "load_at_depot", "open_tour"), (1, 1)) | {"unserved": (1, 2)},
    ),
    "out of range": ([1, 3, 2, 4, 5, -1, 0], {}, {"unknown_node": (2, 5)}),
    "a node twice": ([1, 3, 2, 4, 3, 3, 0], {}, {"duplicates": (2, 3)}),
    "not a second ride": ([1, 2, 3, 4, 2, 0], {"max_ride_time": 3}, {"duplicates": (1, 2)}),
    "a node in two tours": ([*GOOD, 4, 2, 0], {}, {"duplicates": (2, 4)}),
    "split request": ([1, 0, 3, 2, 4, 0], {}, {"pairing": (1, 1), "load_at_depot": (1, 1)}),
    "drop-off in an earlier tour": ([3, 4, 2, 0, 1, 0], {}, {"pairing": (1, 2), "load_at_depot": (1, 1)}),
    "both split": ([3, 1, 0, 2, 4, 0], {}, {"pairing": (2, 3), "load_at_depot": (1, 3)}),
    "no pickup": ([2, 3, 4, 0], {}, {"unserved": (1, 1), "pairing": (1, 2)}),
    "drop-off first": ([2, 1, 3, 4, 0], {}, {"precedence": (1, 2), "load_at_depot": (1, 1)}),
    "too many aboard": (GOOD, {"capacity": [2, 9]}, {"capacity": (1, 3)}),
    "too many aboard vehicle 1": ([0, *GOOD], {"capacity": [9, 2]}, {"capacity": (1, 3)}),
    "late at a pickup": (GOOD, {"deadline": [100, 100, 100, 2, 100]}, {"windows": (1, 3)}),
    "late at the depot": (GOOD, {"deadline": [9, 100, 100, 100, 100]}, {"windows": (1, 0)}),
    "late four times": (GOOD, {"earliest": [9, 0, 0, 0, 0], "deadline": [15, 100, 12, 11, 13]}, {"windows": (4, 3)}),
    "late on the leg home of an open plan": (GOOD[:-1], {"deadline": [9, 9, 9, 9, 9]}, {"windows": (1, 0)}),
    "a long ride": ([3, 1, 2, 4, 0], {"max_ride_time": 4}, {"ride_time": (1, 4)}),
    "a long service on the way": (GOOD, {"max_ride_time": 3, "service_time": [0, 9, 0, 1, 0]}, {"ride_time": (1, 2)}),
    "a long tour": ([1, 2, 0, 3, 4, 0], {"max_route_duration": 7}, {"route_duration": (1, 3)}),
    "too many tours": ([1, 2, 0, 0, 3, 4, 0], {}, {"vehicles": (1, 3)}),
    "a vehicle of capacity 0": ([1, 2, 0, 3, 4, 0], {"capacity": [3, 0]}, {"vehicles": (1, 3)}),
}


@pytest.mark.parametrize(("plan", "changes", "expected"), BAD.values(), ids=BAD)
def test_each_violation_is_counted_with_its_first_node(plan, changes, expected):
    instance = on_a_line(**changes)
    report = solution_report(instance, plan)
    assert broken(report) == expected and not report.feasible
    words = [f"{name} {expected[name][0]} (first node {expected[name][1]})" for name in CONSTRAINTS if name in expected]
    with pytest.raises(ValueError) as caught:
        solution_report(instance, plan, strict=True)
    assert str(caught.value) == f"the plan is not feasible: {', '.join(words)}"


def test_limits_hold_to_the_tolerance_and_not_beyond():
    """Nodes at 2, 3, 1, 5 on a line: a return at 10, a ride of 4, a tour of 10."""
    places, plan = [[0, 0], [2, 0], [3, 0], [1, 0], [5, 0]], [3, 1, 2, 4, 0]
    exact = {"deadline": np.array([10.0] * 5), "max_ride_time": 4.0, "max_route_duration": 10.0}
    assert solution_report(on_a_line(locs=places, **exact), plan, tolerance=0).feasible
    constraints = {"deadline": "windows", "max_ride_time": "ride_time", "max_route_duration": "route_duration"}
    for name, limit in exact.items():
        instance = on_a_line(locs=places, **exact | {name: limit - 1e-3})
        assert solution_report(instance, plan, tolerance=1.1e-3).feasible
        assert set(broken(solution_report(instance, plan))) == {constraints[name]}


def test_padding_need_not_be_served_and_may_not_be_visited():
    instance = pad(on_a_line(), 8, 4)
    assert solution_report(instance, GOOD).feasible
    report = solution_report(instance, [1, 2, 0, 5, 6, 0, 3, 4, 7, 0])
    assert broken(report) == {"unknown_node": (3, 5), "vehicles": (1, 3)}
    assert report.routes == ((1, 2), (), (3, 4)) and np.isnan(report.service_start[5:]).all()


def test_what_is_no_plan_is_an_error():
    for actions in ([1.0, 2.0], [[1, 2]], 3, ["a"], [True], [1, None]):
        with pytest.raises(ValueError, match=r"actions are .* whole node indices"):
            solution_report(on_a_line(), actions)
    with pytest.raises(ValueError, match="one instance of the batch at a time"):
        solution_report(stack([on_a_line(), on_a_line()]), GOOD)


def test_the_report_reads_as_an_aligned_table():
    lines = str(solution_report(on_a_line(), [1, 2])).splitlines()
    assert [line.split()[0] for line in lines] == ["feasible", "cost", "tours", *CONSTRAINTS]
    assert len({len(line.split("  first")[0].rstrip()) for line in lines}) == 1
    assert lines[0].endswith(" no") and lines[1].endswith(" 4.0000") and lines[3].endswith(" 2  first node 3")


def test_plans_and_routes():
    routes = [[1, 2], [], [3, 4]]
    plan = routes_to_actions(routes, 5)
    assert plan.tolist() == [1, 2, 0, 0, 3, 4, 0, 0, 0] and plan.dtype == np.int64
    assert actions_to_routes(plan) == actions_to_routes(jnp.asarray(plan, jnp.int32)) == routes
    assert actions_to_routes([]) == actions_to_routes([0, 0]) == []
    assert routes_to_actions([], 2).tolist() == [0, 0]
    with pytest.raises(ValueError, match="3 routes for 2 vehicles"):
        routes_to_actions(routes, 2)


def test_fractional_times_at_late_clocks_need_a_larger_tolerance_after_float32():
    """That is the default, by the dtype. No slack in the ride from 1200 to 1300, whose ends are rounded apart."""
    spacing = 2.0**-13
    leave, open_at = 1200 + 0.49 * spacing, 1300 + 0.51 * spacing
    windows = {"earliest": [0, 0, open_at, 0, 0], "deadline": [2000, leave, 1400, 2000, 2000]}
    instance, plan = on_a_line(**windows, max_ride_time=open_at - leave), [1, 2, 0, 3, 4, 0]
    assert solution_report(instance, plan, tolerance=1e-9).feasible
    assert broken(solution_report(as_float32(instance), plan, tolerance=1e-4)) == {"ride_time": (1, 2)}
    assert solution_report(as_float32(instance), plan, tolerance=1e-3).feasible
    assert solution_report(as_float32(instance), plan).feasible


def test_a_pickup_may_be_so_late_that_its_own_drop_off_is_late_too():
    """After 2 at clock 0, passengers 3 and 5 are driven to 4 and 6, a ride of 5, but 6 opens at 20: leave at 15."""
    instance = make_instance(
        [[place, 0] for place in (0, 0, 0, 0, 5, 0, 5)],
        [0, 1, -1, 1, -1, 1, -1],
        [100, 0, 100, 100, 100, 100, 100],
        capacity=[2],
        earliest=[0, 0, 0, 0, 0, 0, 20],
        max_ride_time=5,
    )
    report = solution_report(instance, [1, 2, 3, 5, 4, 6, 0], strict=True, tolerance=0)
    np.testing.assert_array_equal(report.service_start[1:], [0, 0, 15, 20, 15, 20])


@pytest.mark.parametrize("closes", [1e5, 1e7, 1e9, 1e11, np.inf])
@pytest.mark.parametrize("convert", [lambda instance: instance, as_float32])
def test_a_depot_that_closes_late_forgives_nobody_who_is_late(closes, convert):
    """Node 3 is reached at 3. Sums in float32 are as exact as the clocks of the tour, and pass."""
    for late, found in ((0.01, {"windows": (1, 3)}), (1e-6, {}), (-0.01, {})):
        instance = on_a_line(deadline=[closes, closes, closes, 3 - late, closes], max_ride_time=1e6)
        assert broken(solution_report(convert(instance), GOOD)) == found


def test_the_tolerance_of_a_clock_that_begins_late_is_of_what_happens_after():
    begin = 1.7e9
    instance = on_a_line(earliest=[begin] * 5, deadline=[1e10, 1e10, 1e10, begin + 2.99, 1e10])
    assert broken(solution_report(instance, GOOD)) == {"windows": (1, 3)}
