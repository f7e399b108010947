"""`train.solve`: the plan that comes out is the one that was found, it is written and drawn, mistakes are one line."""

import csv
import json

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs import tsp_drone
from jaxvrp.envs.darp import generate_dataset, save, solution_report
from jaxvrp.io.command_line import UserError
from train import solve

MAP = "docs/maps/market_town.json"


@pytest.fixture(scope="module")
def instance():
    """Four requests, so small that a fraction of a second of search is plenty."""
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2)
    return jax.device_get(jax.tree.map(lambda leaf: leaf[0], generate_dataset(env, seed=2, count=1)))


@pytest.fixture(scope="module")
def file(instance, tmp_path_factory):
    path = tmp_path_factory.mktemp("problem") / "four.npz"
    save(path, instance)
    return path


@pytest.fixture(scope="module")
def found(file):
    """The solution of a search, and all that it showed of its progress."""
    shown = []
    return solve.solve(file, seconds=0.2, progress=shown.append), shown


def test_the_plan_is_what_was_found_and_keeps_all_constraints(found, instance):
    solution, shown = found
    assert solution.method == "search"
    costs = [each.cost for each in shown]
    assert costs == sorted(costs, reverse=True)
    assert solution.cost == solution.plan["cost"] == costs[-1]
    actions = [node for route in solution.plan["routes"] for node in [*route, 0]]
    report = solution_report(instance, actions)
    assert report.feasible and solution.plan["feasible"]
    np.testing.assert_allclose(solution.cost, report.cost, rtol=1e-5)
    assert solution.plan["not_served"] == [] and solution.plan["violations"] == {}


def test_stops_tell_times_and_loads(found, instance):
    plan = found[0].plan
    visited = [stop["node"] for stop in plan["stops"] if stop["node"]]
    assert sorted(visited) == list(range(1, 9))
    for stop in plan["stops"]:
        node = stop["node"]
        assert stop["begin"] >= stop["leave"] and stop["late"] == 0
        assert stop["what"] == ("depot" if node == 0 else "pickup" if node % 2 else "drop-off")
        if node:
            assert instance.earliest[node] <= stop["begin"] <= instance.deadline[node]
            assert 0 <= stop["load"] <= instance.capacity[stop["vehicle"]]
        else:
            assert stop["load"] == 0


def test_the_search_is_no_worse_than_a_heuristic(found, file):
    assert found[0].cost <= solve.solve(file, method="nearest neighbour").cost + 1e-3


def test_whoever_interrupts_keeps_the_best(file, found):
    seen = []

    def interrupt(best):
        seen.append(best)
        raise KeyboardInterrupt

    solution = solve.solve(file, seconds=1e9, progress=interrupt)
    assert len(seen) == 1 and solution.cost == seen[0].cost


def test_the_command_writes_and_draws(file, tmp_path, capsys):
    names = [str(tmp_path / name) for name in ("plan.json", "stops.csv")]
    solve.main([str(file), "--seconds", "0.1", "--out", *names, "--picture", str(tmp_path / "plan.svg")])
    printed = capsys.readouterr().out
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert f"{plan['cost']:.2f}" in printed and "feasible     yes" in printed
    rows = list(csv.DictReader((tmp_path / "stops.csv").read_text().splitlines()))
    assert [int(row["node"]) for row in rows] == [stop["node"] for stop in plan["stops"]]
    assert "<svg" in (tmp_path / "plan.svg").read_text()


def test_a_map_is_solved_by_the_dispatcher():
    solution = solve.solve(MAP, method="greedy")
    served = [name for who, route in solution.plan["routes"].items() if who != "van" for name in route]
    assert sorted(served) == sorted(entry["customer"] for entry in solution.plan["customers"] if entry["drone"])
    assert solution.plan["feasible"] == (
        len(served) == len(solution.plan["customers"]) and not solution.plan["summary"]["drones_crashed"]
    )


def test_a_truck_and_its_drone(tmp_path):
    """The search is at least as good as the heuristic; its plan is the one that the report prices, way by way."""
    env = jaxvrp.make("tsp_drone", num_nodes=6)
    instance = jax.device_get(env.generate(jax.random.key(3)))
    tsp_drone.save(tmp_path / "six.npz", instance)
    solution = solve.solve(tmp_path / "six.npz", seconds=0.1)
    assert solution.method == "search"
    operations = [
        tsp_drone.Operation(each["start"], each["end"], each["fly"], tuple(each["internal"]))
        for each in solution.plan["operations"]
    ]
    report = tsp_drone.solution_report(instance, operations)
    assert report.feasible and solution.plan["feasible"]
    np.testing.assert_allclose([solution.cost, solution.plan["makespan"]], report.cost, rtol=1e-5)
    assert max(way["arrive"] for way in solution.plan["ways"]) == pytest.approx(report.cost)
    assert sorted(way["to"] for way in solution.plan["ways"] if way["serves"]) == [1, 2, 3, 4, 5]
    heuristic = solve.solve(tmp_path / "six.npz", method="nearest neighbour")
    assert solution.cost <= heuristic.cost * (1 + 1e-6)


def test_a_search_is_the_best_choice_for_a_map():
    assert solve.chosen(solve.open_problem(MAP), None) == "search"


@pytest.mark.slow
def test_a_map_is_solved_by_search():
    solution = solve.solve(MAP, seconds=1.0)
    assert solution.cost <= solve.solve(MAP, method="greedy").cost
    assert solution.plan["feasible"]
    np.testing.assert_allclose(solution.cost, solution.plan["cost"])


@pytest.mark.slow
def test_a_policy_samples_until_time_is_up(file):
    shown = []
    solution = solve.solve(file, run="darp", seconds=0.5, progress=shown.append)
    assert solution.method == "policy"
    assert len(shown) > 1 and solution.cost <= shown[0].cost


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.npz"], r"cannot read .*none\.npz: No such file or directory; give another file"),
        (["README.md"], r"is no problem that can be read \(darp: .*; truck_drone: .*; tsp_drone: .*\)"),
        ([MAP, "--env", "truck_dron"], "--env: unknown environment 'truck_dron'"),
        ([MAP, "--env", "darp"], "is neither .txt"),
        ([MAP, "--method", "greedi"], "--method greedi: there is none of that name; did you mean 'greedy'"),
        ([MAP, "--method", "policy"], "--method policy: there is none of that name; it needs --run"),
        ([MAP, "--seconds", "0"], "--seconds"),
        ([MAP, "--out", "plan.txt"], r"--out plan.txt: the name must end in one of: \.json, \.csv"),
        ([MAP, "--out", "nowhere/plan.json"], "--out nowhere/plan.json: there is no folder nowhere; make it first"),
        ([MAP, "--picture", "plan.doc"], "--picture plan.doc: the name must end in one of: .gif"),
    ],
)
def test_a_mistake_is_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        solve.main(words)
    assert len(str(error.value).splitlines()) == 1
