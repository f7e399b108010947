"""Nodes of plans: whole numbers of any kind are read; all else is refused, at its place, by every checker."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs import flying_sidekicks, truck_drone_tours, tsp_drone
from jaxvrp.envs.darp import routes_to_actions
from jaxvrp.envs.truck_and_drone.operations import Operation, operations_to_actions
from jaxvrp.io.problems.violations import node_of
from tests.refusals import refusal


@pytest.mark.parametrize("value", [1, 1.0, np.int32(1), np.float32(1), jnp.int32(1), np.array(1)])
def test_whole_numbers_of_any_kind_are_nodes(value):
    assert node_of(value, "here") == 1 and type(node_of(value, "here")) is int


NO_NODES = [1.9, True, "1", None, np.True_, float("nan"), float("inf")]


@pytest.mark.parametrize("value", NO_NODES)
def test_all_else_is_refused(value):
    with pytest.raises(ValueError, match=r"routes\[0\]\[2\] is .*; it must be a whole number"):
        node_of(value, "routes[0][2]")


def of_sidekicks(node):
    ways = [[0.0, 1.0], [1.0, 0.0]]
    problem = flying_sidekicks.make_instance(np.eye(2), truck_time=ways, drone_time=ways, endurance=[9.0])
    tasks = [flying_sidekicks.Task("drive", 1), flying_sidekicks.Task("serve", node), flying_sidekicks.Task("drive", 0)]
    return flying_sidekicks.flights_report(problem, tasks).feasible


def of_tours(node):
    zero, limits = [0.0, 0.0], ("truck_capacity", "drone_capacity", "endurance", "truck_price", "drone_price")
    customers = {"demand": zero, "opens": zero, "closes": [9.0, 9.0], "service": zero}
    problem = truck_drone_tours.make_instance([[0.0, 0.0], [1.0, 0.0]], **customers, **dict.fromkeys(limits, 1.0))
    return truck_drone_tours.tours_report(problem, [[Operation(0, node), Operation(1, 0)]]).feasible


def of_truck_and_drone(node):
    problem = tsp_drone.make_instance([[0, 0], [1, 0], [2, 0]])
    return tsp_drone.solution_report(problem, [Operation(0, 2, node), Operation(2, 0)]).feasible


CHECKERS = {
    "tasks[1].node": of_sidekicks,
    "tours[0][0].end": of_tours,
    "operations[0].fly": of_truck_and_drone,
    "operations[0].internal[0]": lambda node: operations_to_actions([Operation(0, 0, None, (node,))])["truck"][1] == 1,
    "routes[1][0]": lambda node: routes_to_actions([[2], [node]], 2).tolist() == [2, 0, 1, 0],
}


@pytest.mark.parametrize("place", CHECKERS)
def test_checkers_of_plans_read_1_and_refuse_what_is_no_node(place):
    assert CHECKERS[place](1) and CHECKERS[place](1.0)
    for value in (1.9, True, "1"):
        assert refusal(CHECKERS[place], value) == f"{place} is {value!r}; it must be a whole number"
