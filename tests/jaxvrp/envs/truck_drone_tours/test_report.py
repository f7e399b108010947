"""Plans with time windows: the report's rules one by one, published optima by exhaustive search, and the search."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs import tsp_drone
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_drone_tours import make_instance, pad, read_kuo, save
from jaxvrp.envs.truck_drone_tours.baselines import annealing
from jaxvrp.envs.truck_drone_tours.plan import PROBLEMS as TANDEMS
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report
from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.io.problems.problem_files import UnknownFormatError
from tests.jaxvrp.envs.truck_drone_tours.exhaustive import cheapest_plan
from train import solve

LINE = [[0, 0], [4, 0], [6, 0], [8, 0]]
PLAN = [Operation(0, 2, 1), Operation(2, 3), Operation(3, 0)]
"""The drone serves customer 1 on the way to customer 2, then rides along."""


def line(**changes):
    """Customers at 4, 6, 8 on a line; service takes 2, the drone is twice as fast, money is the truck's way."""
    fields = {
        "demand": [0, 1, 1, 1],
        "opens": [0, 0, 0, 0],
        "closes": [100, 90, 90, 90],
        "service": [0, 2, 2, 2],
        "truck_capacity": 3.0,
        "drone_capacity": 1.0,
        "endurance": 5.0,
        "truck_price": 1.0,
        "drone_price": 0.1,
        "launch_time": 1.0,
        "recovery_time": 1.0,
    }
    return make_instance(LINE, **{**fields, **changes})


def times(report):
    """When service begins and ends, by node."""
    return {each.node: (each.begin, each.leave) for each in report.ways.services}


def test_money_is_paid_for_the_ways_of_truck_and_drone():
    report = tours_report(line(), [PLAN])
    assert report.feasible
    assert (report.truck_distance, report.drone_distance) == (16.0, 6.0)
    assert report.cost == pytest.approx(16.6)
    apart = tours_report(line(), [[*PLAN[:1], Operation(2, 0)], [Operation(0, 3), Operation(3, 0)]])
    assert apart.feasible
    assert apart.cost == pytest.approx(12.6 + 16.0)


def test_launch_service_meeting_and_service_follow_each_other():
    # The drone leaves at 1, serves from 3 to 5, is at customer 2 at 6; the truck, there at 7, takes it in by 8.
    report = tours_report(line(), [PLAN])
    assert times(report) == {1: (3.0, 5.0), 2: (8.0, 10.0), 3: (12.0, 14.0)}
    assert report.end.tolist() == [22.0]


def test_the_truck_waits_for_the_drone_and_meets_it_before_it_serves():
    late = tours_report(line(drone_pace=2.0, endurance=20.0), [PLAN])
    assert times(late)[1] == (9.0, 11.0)
    assert times(late)[2] == (16.0, 18.0)  # the drone is back at 15
    # Had the truck served first, from 7 on, it would have kept this window.
    closed = line(drone_pace=2.0, endurance=20.0, closes=[100, 90, 15, 90])
    assert tours_report(closed, [PLAN]).summary() == "windows 1 (first node 2)"


def test_a_launch_is_held_back_until_the_drone_need_not_wait():
    report = tours_report(line(opens=[0, 50, 0, 0]), [PLAN])
    assert report.feasible  # the wait does not count as flight
    assert times(report)[1] == (50.0, 52.0)
    assert times(report)[2] == (55.0, 57.0)  # the truck leaves at 48, too, and is there at 54


def test_a_launch_follows_the_service_at_its_stop():
    plan = [Operation(0, 1), Operation(1, 3, 2), Operation(3, 0)]
    assert times(tours_report(line(), [plan])) == {1: (4.0, 6.0), 2: (8.0, 10.0), 3: (12.0, 14.0)}


@pytest.mark.parametrize(
    ("changes", "tours", "says"),
    [
        ({}, [[*PLAN[:1], Operation(2, 0)]], "unserved 1 (first node 3)"),
        ({}, [[*PLAN, Operation(0, 7)]], "unknown_node 1 (first node 7)"),
        ({}, [[PLAN[0], Operation(3, 0), Operation(0, 3)]], "chain 1 (first node 3)"),
        ({}, [PLAN[:2]], "open_tour 1 (first node 3)"),
        ({}, [PLAN, [Operation(0, 2), Operation(2, 0)]], "duplicates 1 (first node 2)"),
        ({}, [[*PLAN[:2], Operation(3, 0)], [Operation(0, 0, 1)]], "idle_truck 1 (first node 1)"),
        ({}, [[Operation(0, 2), Operation(2, 2, 1), *PLAN[1:]]], "same_stop 1 (first node 2)"),
        ({"no_fly": [0, 1, 0, 0]}, [PLAN], "no_fly 1 (first node 1)"),
        ({"drone_capacity": 0.5}, [PLAN], "no_fly 1 (first node 1)"),
        ({"endurance": 4.9}, [PLAN], "endurance 1 (first node 1)"),
        ({"truck_capacity": 2.0}, [PLAN], "capacity 1 (first node 3)"),
        ({"closes": [100, 90, 90, 11.9]}, [PLAN], "windows 1 (first node 3)"),
        ({"closes": [21.9, 90, 90, 90]}, [PLAN], "horizon 1 (first node 3)"),
    ],
)
def test_what_breaks_a_rule_is_named(changes, tours, says):
    report = tours_report(line(**changes), tours)
    assert not report.feasible
    assert says in report.summary()
    with pytest.raises(ValueError, match="the plan is not feasible"):
        tours_report(line(**changes), tours, strict=True)


def test_limits_hold_exactly():
    assert tours_report(line(endurance=5.0, truck_capacity=3.0, closes=[22, 4, 8, 12]), [PLAN]).feasible


def test_a_sortie_around_the_whole_tour_is_allowed():
    assert tours_report(line(endurance=9.0), [[Operation(0, 0, 1, (2, 3))]]).feasible


# --- published optima -----------------------------------------------------------------------------------------------


def published(data):
    """Name, customers, and the proven optimum or None, of the instances in a folder."""
    with open(data / "published_results.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            proven = float(row["mip_z"]) if row["mip_gap_percent"] == "0.00" else None
            yield f"instance-{row['instance']}.csv", int(row["n"]), proven


@pytest.mark.parametrize("part", [slice(1), pytest.param(slice(1, None), marks=pytest.mark.slow)])
def test_every_published_optimum_of_five_customers(kuo, part):
    found = [(kuo / name, proven) for name, count, proven in published(kuo) if count == 5]
    assert len(found) == 8
    for path, proven in found[part]:
        cost, tours = cheapest_plan(read_kuo(path))
        # Two digits are printed, and not all of them are rounded the same way.
        assert abs(cost - proven) < 0.006, path
        assert tours_report(read_kuo(path), tours, strict=True).cost == pytest.approx(cost)


# --- search ---------------------------------------------------------------------------------------------------------


def small_instance(seed, customers=4):
    """Random places, windows and loads."""
    draw = np.random.default_rng(seed)
    opens = np.concatenate([[0], draw.uniform(20, 60, customers) * draw.integers(0, 2, customers)])
    closes = np.where(opens > 0, opens + 30, 150)
    return make_instance(
        np.concatenate([[[0, 0]], draw.uniform(-8, 8, (customers, 2))]),
        demand=[0, *draw.uniform(0, 4, customers)],
        opens=opens,
        closes=[150, *closes[1:]],
        service=[0, *[3] * customers],
        truck_capacity=6.0,
        drone_capacity=3.0,
        endurance=14.0,
        truck_price=1.0,
        drone_price=0.1,
        launch_time=1.0,
        recovery_time=1.0,
    )


def random_codes(draw, customers, count):
    """Sequences `i32[P, count]` of the customers and two tours' ends, with random spans."""
    inside = np.array([draw.permutation([*range(1, customers + 1), 0, 0]) for _ in range(count)]).T
    spans = draw.integers(0, 4, inside.shape) * draw.integers(0, 2, inside.shape) * (inside > 0)
    return np.pad(inside + (customers + 1) * spans, [(1, 1), (0, 0)]).astype(np.int32)


@pytest.mark.parametrize("seed", range(4))
def test_prices_are_those_of_the_report(seed):
    instance, draw = small_instance(seed), np.random.default_rng(seed)
    codes = random_codes(draw, 4, 300)
    tables = annealing.make_tables(as_float32(instance))
    money, late = jax.device_get(jax.jit(annealing.price)(tables, jnp.asarray(codes)))
    feasible = 0
    for column in range(codes.shape[1]):
        if not np.isfinite(money[column]) or late[column] > 0:
            continue
        report = tours_report(instance, annealing.tours_of(codes[:, column], 5))
        assert report.feasible, (codes[:, column], report.summary())
        np.testing.assert_allclose(report.cost, money[column], rtol=1e-5)
        feasible += 1
    assert feasible > 10


@pytest.mark.slow("1", "2")
@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_the_cheapest_plan(seed):
    instance = small_instance(seed)
    *_, found = annealing.search_tours(pad(instance, 7), jax.random.key(seed), 1.0)
    cost, _ = cheapest_plan(instance)
    assert tours_report(instance, found.tours, strict=True).cost == pytest.approx(found.cost, rel=1e-5)
    assert found.cost == pytest.approx(cost, rel=1e-5)


def test_changes_keep_every_customer_and_every_end():
    codes = jnp.asarray(random_codes(np.random.default_rng(0), 4, 4096))
    tables = annealing.make_tables(as_float32(small_instance(0)))
    drawn = jax.random.uniform(jax.random.key(0), (8, codes.shape[1]))
    changed = np.asarray(jax.jit(annealing.changed_codes)(tables, codes, drawn))
    np.testing.assert_array_equal(np.sort(changed % 5, axis=0), np.sort(codes % 5, axis=0))
    assert not changed[[0, -1]].any() and not (changed[changed % 5 == 0]).any()
    assert (changed != codes).any(axis=0).mean() > 0.7


def test_the_first_plan_is_feasible():
    for seed in range(20):
        instance = small_instance(seed, customers=9)
        tours = annealing.tours_of(annealing.first_codes(instance), 10)
        tours_report(instance, tours, strict=True)


def test_an_instance_without_customers_has_no_tours():
    instance = small_instance(0, customers=1)
    empty = pad(instance.replace(exists=np.array([True, False])), 4)
    *_, found = annealing.search_tours(empty, jax.random.key(0), 0.1)
    assert (found.cost, found.tours) == (0.0, [])


def test_a_file_is_solved_and_its_plan_is_played_and_written(tmp_path):
    save(tmp_path / "one.npz", small_instance(1))
    solution = solve.solve(tmp_path / "one.npz", seconds=0.5)
    assert type(solution.problem.env).__name__ == "TruckDroneTours"
    plan = solution.plan
    assert plan["format"] == "jaxvrp-truck-drone-tours-plan-1"
    assert plan["feasible"] and plan["cost"] == pytest.approx(solution.cost, rel=1e-5)
    assert set(plan["routes"]) == {
        f"{vehicle} {tour + 1}" for tour in range(len(plan["tours"])) for vehicle in ("truck", "drone")
    }
    served = [node for route in plan["routes"].values() for node in route if node]
    assert sorted(served) == [1, 2, 3, 4]
    tours = [[Operation(**{**each, "internal": tuple(each["internal"])}) for each in tour] for tour in plan["tours"]]
    assert tours_report(small_instance(1), tours, strict=True).cost == pytest.approx(plan["cost"], rel=1e-5)
    solution.write(tmp_path / "plan.csv")
    assert (tmp_path / "plan.csv").read_text().startswith("tour,who,leave")


def test_readers_tell_problems_with_windows_from_those_without(tmp_path):
    save(tmp_path / "windows.npz", small_instance(0))
    save(tmp_path / "plain.npz", tsp_drone.make_instance(LINE))
    with pytest.raises(UnknownFormatError, match=r"has time windows; make 'truck_drone_tours'"):
        PROBLEMS.read(tmp_path / "windows.npz")
    with pytest.raises(UnknownFormatError, match=r"has no time windows; make 'tsp_drone'"):
        TANDEMS.read(tmp_path / "plain.npz")
