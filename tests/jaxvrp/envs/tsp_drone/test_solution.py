"""`solution_report` names each violation; plans and actions are two ways to say the same."""

import numpy as np
import pytest

from jaxvrp.envs.tsp_drone import (
    Operation,
    actions_to_operations,
    make_instance,
    operations_to_actions,
    pad,
    solution_report,
)

GOOD = [Operation(0, 2, 1), Operation(2, 3), Operation(3, 0, 4)]


@pytest.fixture(scope="module")
def instance():
    """Depot and four customers on a line, 0, 3, 4, 6 and 8; the drone is twice as fast."""
    return make_instance(np.stack([[0, 3, 4, 6, 8], np.zeros(5)], axis=1))


def test_clocks_of_a_plan_by_hand(instance):
    report = solution_report(instance, GOOD, strict=True)
    # The truck drives 4, the drone flies (3 + 1) / 2; then 2 together; the drone flies (2 + 8) / 2, the truck drives 6.
    assert report.begin.tolist() == [0, 4, 6] and report.end.tolist() == [4, 6, 12]
    assert report.truck_arrival.tolist() == [4, 6, 12] and report.drone_arrival.tolist() == [2, 6, 11]
    assert report.cost == 12 and "feasible" in str(report) and report.summary() == ""
    slow = instance.replace(launch_time=np.float64(1), recovery_time=np.float64(2))
    assert solution_report(slow, GOOD).end.tolist() == [7, 9, 18]


@pytest.mark.parametrize(
    ("plan", "broken"),
    [
        ([], {"unserved": (4, 1)}),
        (GOOD[:2], {"unserved": (1, 4), "open_tour": (1, 3)}),
        ([*GOOD, Operation(0, 0, 4)], {"duplicates": (1, 4)}),
        ([*GOOD, Operation(0, 0, 0)], {"duplicates": (1, 0), "meeting": (1, 0)}),
        ([Operation(0, 2, 9), Operation(2, 3, 1), GOOD[2]], {"unknown_node": (1, 9)}),
        ([Operation(0, 1), Operation(2, 3), GOOD[2]], {"chain": (1, 2), "unserved": (1, 2)}),
        ([Operation(0, 0), *GOOD], {}),
        ([Operation(0, 1, 1), Operation(1, 2), *GOOD[1:]], {"meeting": (1, 1)}),
        ([Operation(0, 2, 1, (1,)), *GOOD[1:]], {"revisits": (1, 1)}),
        ([Operation(0, 2, 1, (2,)), *GOOD[1:]], {"revisits": (1, 2)}),
        ([GOOD[0], Operation(2, 0), Operation(0, 3), GOOD[2]], {"revisits": (1, 0)}),
        ([GOOD[0], Operation(2, 2, 3), Operation(2, 0, 4)], {}),
        ([GOOD[0], GOOD[1], Operation(3, 4), Operation(4, 0, None, (2,))], {"revisits": (1, 2)}),
    ],
)
def test_each_violation_is_named(plan, broken, instance):
    report = solution_report(instance, plan)
    found = {name: (each.count, each.first_node) for name, each in report.violations.items() if each.count}
    assert found == broken
    assert report.feasible == (not broken)
    if broken:
        with pytest.raises(ValueError, match=f"the plan is not feasible: .*{next(iter(broken))}"):
            solution_report(instance, plan, strict=True)


def test_limits_of_the_drone(instance):
    barred = instance.replace(no_fly=np.array([0, 1, 0, 0, 0], bool), max_flight=np.float64(9.99))
    found = solution_report(barred, GOOD).violations
    assert (found["no_fly"].first_node, found["range"].first_node) == (1, 4)
    assert solution_report(instance.replace(max_flight=np.float64(10)), GOOD).feasible


def test_a_launch_at_the_depot_and_a_sortie_as_a_whole(instance):
    rules = {"launch_time": 1.0, "depot_launch_time": 0.0, "recovery_time": 2.0, "max_sortie": 8.0}
    instance = instance.replace(**{name: np.float64(value) for name, value in rules.items()})
    # As above, 4 + 2; 2; 1 + 6 + 2, of which the launch is no part of the sortie: 8.
    report = solution_report(instance, GOOD, strict=True)
    assert report.end.tolist() == [6, 8, 17]
    assert [leg.leave for leg in report.ways.legs if leg.vehicle == "drone"] == [0, 1.5, 9, 10]
    shorter = solution_report(instance.replace(max_sortie=np.float64(7.9)), GOOD)
    assert shorter.violations["endurance"].first_node == 4 and shorter.summary() == "endurance 1 (first node 4)"


def test_revisits_may_be_forbidden(instance):
    loops = [Operation(0, 0, 1), Operation(0, 2), Operation(2, 0, 3, (4,))]
    assert solution_report(instance, loops).feasible
    found = solution_report(instance, loops, allow_revisits=False).violations["revisits"]
    assert (found.count, found.first_node) == (1, 0), "the last way home is none"


def test_the_truck_may_come_back_to_the_drone_where_it_was_before(instance):
    report = solution_report(instance, [Operation(0, 2, 3, (2, 1)), Operation(2, 4), Operation(4, 0)])
    assert report.feasible and report.cost == 6 + 4 + 8


def test_padding_is_neither_missed_nor_known(instance):
    padded = pad(instance, 7)
    assert solution_report(padded, GOOD).feasible
    assert solution_report(padded, [*GOOD, Operation(0, 0, 6)]).violations["unknown_node"].first_node == 6
    with pytest.raises(ValueError, match="give one instance of the batch at a time"):
        solution_report(padded.replace(exists=padded.exists[None]), GOOD)


def test_plans_are_actions_and_back():
    plan = [Operation(0, 3, 1, (2,)), Operation(3, 3, 4), Operation(3, 5), Operation(5, 2, 6), Operation(2, 0)]
    actions = operations_to_actions([Operation(0, 0), *plan])
    # Fly to 1, drive to 2, fly on, drive to 3, meet; fly to 4, stay, meet; ride; fly to 6, back to 2, meet; ride home.
    drone = [3, 0, 0, 0, 1, 6, 0, 1, 0, 0, 8, 0, 1, 0, 0]
    truck = [0, 2, 0, 3, 0, 0, 3, 0, 0, 5, 0, 2, 0, 0, 0]
    assert actions["drone"].ravel().tolist() == drone and actions["truck"].ravel().tolist() == truck
    assert actions_to_operations(actions) == plan
    # A truck that waits where it has just served is there once: fly to 1, drive to 2, fly on, stay, meet.
    waits = {"drone": [3, 0, 0, 0, 1], "truck": [0, 2, 0, 2, 0]}
    assert actions_to_operations(waits) == [Operation(0, 2, 1)]
    cut = {role: chosen[:4] for role, chosen in actions.items()}
    assert actions_to_operations(cut) == [], "who has not met yet has made no operation"
