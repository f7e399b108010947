"""`train.solve`: the plan that comes out is the one that was found, it is written and drawn, mistakes are one line."""

import csv
import dataclasses
import io
import json
import pathlib
import re
import subprocess
import sys
import time
import types

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp import registry, toolbox
from jaxvrp.envs import pcb, tsp_drone
from jaxvrp.envs.darp import Darp, generate_dataset, make_instance, save, solution_report
from jaxvrp.envs.darp.baselines import timed_search
from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index
from jaxvrp.envs.pcb.baselines import random_legal
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import as_float32 as as_computed
from jaxvrp.envs.truck_drone.scenarios import VrpdTw
from jaxvrp.envs.truck_drone_tours.plan import PROBLEMS as TANDEMS
from jaxvrp.episodes import timesteps_of
from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import shown_cost
from jaxvrp.io.problems.plan_files import plan_sheets
from jaxvrp.show.sheets import to_html
from train import plan, solve, td3
from train.solving import methods

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
    np.testing.assert_allclose(solution.cost, costs[-1], rtol=1e-6)
    requests = instance.num_nodes // 2
    actions = [node for route in solution.plan["routes"] for node in [*from_cordeau_index(route, requests), 0]]
    report = solution_report(instance, actions)
    assert report.feasible and solution.plan["feasible"]
    assert solution.cost == solution.plan["cost"] == solution.plan["distance"] == report.cost
    assert solution.words == shown_cost(report.cost)
    assert solution.plan["not_served"] == [] and solution.plan["violations"] == {}


LINE = {"locs": [[0, 0], [1, 0], [3, 0], [2, 0], [4, 0]], "demand": [0, 2, -2, 1, -1], "deadline": [100] * 5}
STAYING = {
    # The second passenger would ride too long, but could be picked up.
    "a request is left": ({"locs": [[0, 0], [1, 0], [2, 0], [3, 0], [9, 0]], "capacity": [2, 2]}, [[1, 3]], [2]),
    # It could serve the second request; both in one tour are shorter.
    "the first vehicle is small": ({"capacity": [1, 3]}, [[], [1, 2, 3, 4]], []),
    "the first vehicle is padding": ({"capacity": [0, 3]}, [[], [1, 2, 3, 4]], []),
    "both belong into the second vehicle": ({"capacity": [2, 3]}, [[], [1, 2, 3, 4]], []),
}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("values", "routes", "not_served"), STAYING.values(), ids=STAYING)
def test_the_plan_of_the_search_is_written_where_a_vehicle_stays_at_the_depot(
    values, routes, not_served, together, tmp_path
):
    """Also where the mask would send it out; and it costs what is said."""
    problem = make_instance(**LINE | values, max_ride_time=2)
    save(path := tmp_path / "staying.npz", problem)
    solution = solve.solve_all([path] * 2, seconds=0.1)[1] if together else solve.solve(path, seconds=0.1)
    assert (solution.plan["routes"], solution.plan["not_served"]) == (routes, not_served)
    assert set(solution.plan["violations"]) == ({"unserved"} if not_served else set())
    actions = [node for route in routes for node in [*from_cordeau_index(route, 2), 0]]
    left = 2 * len(not_served) * float(solution.problem.env.penalty_unvisited)
    np.testing.assert_allclose(solution.cost, solution_report(problem, actions).cost + left, rtol=1e-6)
    solution.write(tmp_path / "plan.html")


def test_nodes_behind_padding_have_numbers_of_their_own(tmp_path):
    """Of three requests the second is padding: pickups are 1 and 3, their drop-offs 4 and 6."""
    places = [[0, 0], [1, 0], [2, 0], [0, 0], [0, 0], [3, 0], [4, 0]]
    problem = make_instance(places, [0, 1, -1, 0, 0, 1, -1], [100] * 7, capacity=[1])
    save(path := tmp_path / "padded.npz", problem)
    solution = solve.solve(path, seconds=0.1)
    assert solution.plan["routes"] == [[1, 4, 3, 6]] and solution.plan["feasible"]
    assert solution.problem.problems.recompute(problem, solution.plan)["routes"] == [[1, 4, 3, 6]]


def test_the_time_of_the_best_plan_is_not_that_of_the_last_look_at_the_clock(found, capsys):
    """Four requests are solved at once; the search goes on until time is up."""
    solution, shown = found
    first = next(each for each in shown if each.cost == shown[-1].cost)
    assert first.seconds < shown[-1].seconds
    assert (solution.seconds, solution.searched_seconds) == (first.seconds, shown[-1].seconds)
    assert [solution.plan[key] for key in ("seconds", "searched_seconds")] == [first.seconds, shown[-1].seconds]
    report = solve.report(solution)
    assert f"found after   {first.seconds:.2f} s\nsearched for  {shown[-1].seconds:.2f} s\n" in report
    assert not solution.interrupted and "interrupted" not in report


def test_a_plan_that_is_worth_nothing_was_not_found(found):
    solution = solve.solved(
        dataclasses.replace(found[0].problem, methods={"none": lambda *_: iter([found[1][0]._replace(cost=np.inf)])}),
        seconds=1,
    )
    assert solution.plan["cost"] is solution.plan["seconds"] is None and solution.plan["searched_seconds"] > 0
    assert "found after" not in solve.report(solution)


class Doubled(Darp):
    """Pays twice as much."""

    def reward(self, state):
        return jax.tree.map(lambda paid: 2.0 * paid, super().reward(state))


def test_the_cost_is_minus_the_return_also_where_the_checker_does_not_know_the_reward(file):
    problem = solve.open_problem(file)
    plain = solve.solved(problem, seconds=1, method="nearest neighbour")
    env = Doubled(**{each.name: getattr(problem.env, each.name) for each in dataclasses.fields(problem.env)})
    doubled = plain.episode.replace(timesteps=timesteps_of(env, plain.episode.states))
    found = solve.Searched(1.0, 2.0 * plain.cost, {}, lambda: doubled)
    methods = {"none": lambda *_: iter([found])}
    solution = solve.solved(dataclasses.replace(problem, env=env, methods=methods), seconds=1)
    assert plain.plan["feasible"] and plain.cost == plain.plan["distance"] == solution.plan["distance"]
    assert solution.cost == solution.plan["cost"] == 2.0 * plain.cost


def test_stops_tell_times_and_loads(found, instance):
    plan = found[0].plan
    visited = [stop["node"] for stop in plan["stops"] if stop["node"]]
    assert sorted(visited) == list(range(1, 9))
    for stop in plan["stops"]:
        node = int(from_cordeau_index(stop["node"], 4))
        assert stop["begin"] >= stop["leave"] and stop["late"] == 0
        assert stop["what"] == ("depot" if node == 0 else "pickup" if node % 2 else "drop-off")
        if node:
            assert stop["node"] == stop["request"] + (4 if stop["what"] == "drop-off" else 0)
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
    assert len(seen) == 1 and solution.cost == pytest.approx(seen[0].cost, rel=1e-6)
    assert solution.interrupted and "s, then interrupted\n" in solve.report(solution)


def test_whoever_interrupts_begins_no_further_problem(file):
    problems = [str(file)] * 3
    began = []

    def interrupt(problem, **how):
        began.append(problem)
        return dataclasses.replace(solved(problem, **how), interrupted=len(began) == 2)

    solved = solve.solved
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "solved", interrupt)
        solutions = solve.solve_all(problems, method="greedy")
    assert len(began) == len(solutions) == 2 and solutions[-1].interrupted


def test_the_command_writes_and_draws(file, tmp_path, capsys):
    names = [str(tmp_path / name) for name in ("plan.json", "stops.csv")]
    pictures = [str(tmp_path / name) for name in ("plan.svg", "plan.png")]
    solve.main([str(file), "--seconds", "0.1", "--out", *names, "--picture", *pictures])
    printed = capsys.readouterr().out
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert f"{plan['cost']:.2f}" in printed and "feasible      yes" in printed
    rows = list(csv.DictReader((tmp_path / "stops.csv").read_text().splitlines()))
    assert [int(row["node"]) for row in rows] == [stop["node"] for stop in plan["stops"]]
    assert "<svg" in (tmp_path / "plan.svg").read_text()
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_greedy_is_the_first_baseline(file):
    assert solve.solve(file, method="greedy").method == "nearest neighbour"


def changed_map(path, **changes):
    """A file beside `path` with a town that differs in the entries of these lists, or in `truck`."""
    content = json.loads(pathlib.Path(MAP).read_text())
    for field, change in changes.items():
        content[field] = {**content[field], **change} if field == "truck" else [{**e, **change} for e in content[field]]
    path.write_text(json.dumps(content))
    return str(path)


@pytest.fixture(scope="module")
def dispatched():
    return solve.solve(MAP, method="greedy")


def test_a_map_is_solved_by_the_scenario_that_obeys_all_that_it_says(dispatched):
    assert isinstance(dispatched.problem.env, VrpdTw)
    for entry in dispatched.plan["customers"]:
        assert entry["time"] is None or entry["time"] >= entry["window"][0]
    served = [name for vehicle, route in dispatched.plan["routes"].items() if vehicle != "van" for name in route]
    assert sorted(served) == sorted(entry["customer"] for entry in dispatched.plan["customers"] if entry["drone"])
    assert all(event["where"] for event in dispatched.plan["events"])
    assert dispatched.plan["feasible"] == (not dispatched.plan["reasons"])


def test_another_scenario_refuses_a_map_that_says_more():
    with pytest.raises(UserError, match=r"customers\[0\]\.demand: TruckDroneBasic ignores it; play vrpd_tw"):
        solve.open_problem(MAP, env="truck_drone")
    assert isinstance(solve.open_problem(MAP, env="vrpd_tw").env, VrpdTw)


def test_a_scenario_of_ones_own_is_given_as_the_environment():
    with pytest.raises(UserError, match=r"^--env\.scenario: .* give one of your own as --env package\.module:Class$"):
        solve.read_problems(MAP, None, {"scenario": "mine:Mine"})


def test_a_report_has_the_units_of_the_file_and_why_a_plan_is_not_feasible(tmp_path, capsys):
    path = changed_map(tmp_path / "far.json", drones={"range": 500})
    solve.main([path, "--method", "greedy"])
    out, errors = capsys.readouterr()
    assert "feasible          no: 6 not served (bakery, farm, doctor, library, vineyard, chapel); no cust" in out
    why = "no customer is within reach of a node: the nearest needs 1198 m, a charge lasts for 500 m"
    assert why in out
    assert errors.startswith(f"warning: drones[0].range: {why}; raise it")


def test_each_late_customer_stands_in_the_report(tmp_path, capsys):
    path = changed_map(tmp_path / "late.json", customers={"window": [0, 0.5]})
    solve.main([path, "--method", "greedy"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("feasible")]
    plan = solve.solve(path, method="greedy").plan
    late = [entry for entry in plan["customers"] if entry["late"]]
    assert late and line.split("  ")[-1].strip().startswith(f"no: {len(late)} late (")
    assert all(f"{entry['customer']} by {entry['late']:.6g} min" in line for entry in late)


def test_a_page_plays_the_plan_in_names_and_units_and_has_a_sheet_for_each_vehicle(dispatched, tmp_path):
    dispatched.write(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    episode = json.loads(page.split('id="episode">')[1].split("</script>")[0])
    story = episode["story"]
    assert (story["units"], story["clocks"][:3]) == ({"time": "min", "length": "m"}, [0.0, 0.5, 1.0])
    assert episode["actions"]["drone"][2:4] == ["DELIVER bakery", "DELIVER farm"]
    assert [card["title"] for card in story["cards"]] == ["van", "red", "blue"]
    words = json.dumps([step["why"] for step in episode["steps"]] + [episode["shortfalls"]])
    assert not re.search(r"drone_\d|customer \d|step \d", words) and " min" in words
    sheets = page.split('id="sheets"')[1].split("<script")[0]
    assert re.findall(r"<h2>(.*?)</h2>", sheets) == ["van", "red", "blue"]
    assert "@media print" in page and "http" not in re.sub(r"http://www\.w3\.org/\S*", "", page)


def test_plans_of_other_environments_become_pages_too(found, tmp_path):
    found[0].write(tmp_path / "plan.html")
    sheets = (tmp_path / "plan.html").read_text().split('id="sheets"')[1]
    assert "<h2>vehicle 0</h2>" in sheets and "pickup" in sheets
    assert len(re.findall("<h2>", sheets)) == len(found[0].plan["routes"])


def test_each_vehicle_has_a_sheet_also_an_idle_one():
    stops = [{"vehicle": "van", "what": "pickup"}]
    sheets = plan_sheets({"stops": stops, "routes": {"bus": [], "van": ["pickup"]}}, "stops", "vehicle")
    assert [(sheet.title, sheet.rows) for sheet in sheets] == [("bus", ()), ("van", (("pickup",),))]
    assert to_html(sheets).count("nothing to do") == 1
    sheets = plan_sheets({"stops": [{"vehicle": 1, "what": "pickup"}], "routes": [[], [1]]}, "stops", "vehicle")
    assert [sheet.title for sheet in sheets] == ["vehicle 0", "vehicle 1"]
    assert [sheet.title for sheet in plan_sheets({"stops": [], "routes": {"van": []}}, "stops", "vehicle")] == ["van"]


def test_each_truck_and_each_drone_of_tandems_has_a_sheet():
    way = {"leave": 0.0, "arrive": 3.0, "from": 0, "to": 1, "serves": 1, "with_drone": True}
    ways = [{"tour": tour, "who": vehicle, **way} for tour, vehicle in ((1, "truck"), (1, "drone"), (2, "truck"))]
    routes = {f"{vehicle} {tour}": [] for tour in (1, 2) for vehicle in ("truck", "drone")}
    sheets = TANDEMS.sheets(None, {"ways": ways, "routes": routes})
    assert [(sheet.title, len(sheet.rows)) for sheet in sheets] == [
        ("truck 1", 1),
        ("drone 1", 1),
        ("truck 2", 1),
        ("drone 2", 0),
    ]
    assert "tour" not in sheets[0].columns


def test_names_in_a_sheet_are_text_and_not_markup():
    (sheet,) = plan_sheets({"events": [{"who": "<b>van</b>", "what": "drive", "late": None}]}, "events", "who")
    assert (sheet.title, sheet.columns, sheet.rows) == ("<b>van</b>", ("what",), (("drive",),))
    assert "&lt;b&gt;van" in to_html([sheet]) and "<b>" not in to_html([sheet])


def test_the_command_plan_checks_solves_and_writes_one_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(solve, "watched", lambda problem, **how: solve.solved(problem, seconds=1, method="greedy"))
    plan.main([MAP, "--out", str(tmp_path / "day.html")])
    printed = capsys.readouterr().out
    assert printed.startswith("the truck crosses the map, 2970 m, in 9.9 min of 100 min\n")
    assert "distance of van" in printed and f"wrote {tmp_path / 'day.html'}" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["day.html"]


def test_the_command_plan_says_when_nothing_looks_wrong(tmp_path, capsys):
    """Also of problems without figures; what looks wrong is said in its place."""
    for name, lines in (("sound", NUMBERS), ("far", NUMBERS.replace("1 1 1", "1 900 900"))):
        path = tmp_path / f"{name}.txt"
        path.write_text(f"1 1 480 3 30\n{lines}")
        plan.main([str(path), "--check"])
    printed = capsys.readouterr()
    assert printed.out == "nothing looks wrong\n" and "warning" in printed.err


class Stream(io.StringIO):
    """What is written, and how often."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal, self.times = terminal, 0

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.times += bool(text.strip())
        return super().write(text)


def searched(monkeypatch, terminal, found):
    """What stderr shows of a search that reads its clock so often."""
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(solve, "solved", lambda problem, *, progress, **how: [progress(each) for each in found])
    problems = types.SimpleNamespace(cost_words=lambda problem, env, found: shown_cost(found.cost))
    problem = types.SimpleNamespace(problems=problems, problem=None, env=None)
    solve.watched(problem, seconds=30, method="search", seed=0)
    return stream


def test_a_log_has_a_line_for_each_new_best_and_every_ten_seconds(monkeypatch):
    found = [solve.Searched(seconds / 10, 9.0 if seconds < 35 else 7.5, {}) for seconds in range(1, 300)]
    lines = searched(monkeypatch, False, found).getvalue().splitlines()
    assert lines == [
        "searching: 0.1 of 30 s, cost 9.000",
        "searching: 3.5 of 30 s, cost 7.500",
        "searching: 13.5 of 30 s, cost 7.500",
        "searching: 23.5 of 30 s, cost 7.500",
    ]


def test_a_terminal_has_a_bar_that_is_drawn_at_most_four_times_a_second(monkeypatch):
    found = [solve.Searched(number / 1000, 1000.0 - number, {}) for number in range(5000)]
    begin = time.monotonic()
    stream = searched(monkeypatch, True, found)
    assert stream.times <= 3 + 4 * (time.monotonic() - begin)
    assert "cost -3999.00" in stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["darp", "dispatch", "flying_sidekicks", "truck_drone", "truck_drone_tours", "tsp_drone"]
)
def test_what_plays_a_file_reads_no_value_of_a_parameter(name):
    env = jaxvrp.make(name)
    players, instance = registry.players_of(env), jax.eval_shape(env.generate, jax.random.key(0))
    for make in {**players.planners, **players.baselines}.values():
        jax.eval_shape(methods.episode_program(make, tries=1), env, instance, jax.random.key(0))


@pytest.mark.slow
def test_a_truck_and_its_drone(tmp_path):
    """The search is at least as good as the heuristic; its plan is the one that the report prices, way by way."""
    env = jaxvrp.make("tsp_drone", num_nodes=6)
    instance = jax.device_get(jax.jit(env.generate)(jax.random.key(3)))
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


@pytest.fixture(scope="module")
def board():
    """A fixed part in the middle, and three that two nets join to it; pads in the middle of the parts' sides."""
    return pcb.make_netlist(
        pcb.make_board(
            outline=[12, 10],
            size=[[4, 3], [2, 1], [2, 1], [1, 1]],
            pin_component=[0, 0, 1, 2, 2, 3],
            pin_offset=[[2, 0], [-2, 0], [-1, 0], [1, 0], [-1, 0], [0, 0]],
            pin_net=[0, 1, 0, 0, 1, 1],
            power_rail=[0, 0],
            position=[[6, 5], [1, 1], [1, 1], [1, 1]],
            fixed=[True, False, False, False],
        ),
        component_names=("U1", "R1", "R2", "C1"),
    )


@pytest.fixture(scope="module")
def boards(board, tmp_path_factory):
    path = tmp_path_factory.mktemp("boards") / "two.pcb"
    pcb.write_pcb(path, pcb.PcbFile((dataclasses.replace(board, source="other"), board)))
    return path


@pytest.mark.slow
def test_a_board_is_annealed_and_written(board, boards, tmp_path, capsys):
    """The plan is legal and as long as it says, measured here; as a board it reads back as it was told."""
    names = [str(tmp_path / name) for name in ("plan.json", "parts.csv", "placed.pcb")]
    solve.main([str(boards), "--index", "1", "--seconds", "0.3", "--out", *names, "--picture", str(tmp_path / "b.svg")])
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["feasible"] and plan["violations"] == {} and plan["method"] == "annealing"
    assert f"{plan['cost']:.2f}" in capsys.readouterr().out
    assert [part["part"] for part in plan["parts"]] == ["U1", "R1", "R2", "C1"]
    assert plan["routes"] == {"net0": ["U1.1", "R1.1", "R2.1"], "net1": ["U1.2", "R2.2", "C1.1"]}
    assert [plan["parts"][0][name] for name in ("x", "y", "degrees")] == [6, 5, 0]
    boxes, pads = placed(board.board, plan["parts"])
    for index, (low, high) in enumerate(boxes):
        assert (low >= -1e-4).all() and (high <= [12 + 1e-4, 10 + 1e-4]).all()
        for other_low, other_high in boxes[:index]:
            assert (np.minimum(high, other_high) - np.maximum(low, other_low)).min() < 1e-4
    hpwl = sum(np.ptp(pads[board.board.pin_net == net], axis=0).sum() for net in (0, 1))
    np.testing.assert_allclose([plan["cost"], plan["hpwl"], sum(plan["nets"].values())], hpwl, rtol=1e-5)
    assert plan["cost"] < 9  # a start has some 20; what can be reached is 6 or so
    written = pcb.read_pcb(tmp_path / "placed.pcb").boards[0]
    np.testing.assert_allclose(written.board.position, [[part["x"], part["y"]] for part in plan["parts"]], atol=1e-6)
    assert len(list(csv.DictReader((tmp_path / "parts.csv").read_text().splitlines()))) == 4
    assert "<svg" in (tmp_path / "b.svg").read_text()


@pytest.mark.slow
def test_a_policy_places_the_parts_of_a_board_of_a_file(board, boards, tmp_path):
    """One that was trained on generated boards; what its plan costs is what the parts, placed so, are measured at."""
    run = tmp_path / "run"
    options = "--env.num_boards 1 --env.max_parts 3 --env.max_steps 6 --eval_env.max_steps 6"
    sizes = "--num_envs 2 --rollout_length 2 --total_steps 24 --pictures false --buffer_size 64 --batch_size 4"
    td3.main(["--config", "pcb_td3", *options.split(), *sizes.split(), "--run_dir", str(run)])
    solution = solve.solve(boards, row=1, seconds=0.0, run=run, method="policy")
    _, pads = placed(board.board, solution.plan["parts"])
    hpwl = sum(np.ptp(pads[board.board.pin_net == net], axis=0).sum() for net in (0, 1))
    np.testing.assert_allclose(solution.plan["hpwl"], hpwl, rtol=1e-5)
    assert [solution.plan["parts"][0][name] for name in ("x", "y", "degrees")] == [6, 5, 0]
    assert solution.plan["feasible"] == bool(np.isfinite(solution.cost))


def placed(board, parts):
    """Corners of the parts, and where pads are, of a placement; y points down, and parts turn counter-clockwise."""
    boxes, pads = [], np.zeros((len(board.pin_net), 2))
    for row, part in enumerate(parts):
        centre, quarters = np.array([part["x"], part["y"]]), part["degrees"] // 90
        half = board.size[row][:: -1 if quarters % 2 else 1] / 2
        boxes.append((centre - half, centre + half))
        for pin in np.flatnonzero(board.pin_component == row):
            offset = complex(board.pin_offset[pin, 0], -board.pin_offset[pin, 1]) * 1j**quarters
            pads[pin] = centre + np.array([offset.real, -offset.imag])
    return boxes, pads


@pytest.mark.slow
def test_annealing_is_no_worse_than_chance(boards):
    annealed = solve.solve(boards, row=0, seconds=0.3, method="annealing")
    board = as_computed(pcb.read_pcb(boards).boards[0].board)
    position, orientation, legal = jax.jit(random_legal)(board, jax.random.key(0))
    drawn = jax.jit(measure_board)(board, position, orientation)
    assert annealed.plan["feasible"] and legal and annealed.cost < drawn.hpwl


@pytest.mark.slow
def test_several_problems_are_solved_in_one_program(file, found, instance, tmp_path, monkeypatch):
    """Of other sizes, from three files, one of which holds two: each plan is feasible in the problem as it is."""
    monkeypatch.setattr(timed_search, "LANES", timed_search.TRIES)  # the program that one problem takes
    smaller = jax.device_get(generate_dataset(jaxvrp.make("darp", num_nodes=6, num_agents=1), seed=3, count=2))
    save(tmp_path / "two.npz", smaller)
    seen = []
    solutions = solve.solve_all([file, file, tmp_path / "two.npz"], seconds=0.1, progress=seen.append)
    problems = [instance, instance, *(jax.tree.map(lambda leaf, row=row: leaf[row], smaller) for row in range(2))]
    assert len(solutions) == 4 and seen[0].cost.shape == (4,)
    for solution, problem in zip(solutions, problems, strict=True):
        requests = problem.num_nodes // 2
        actions = [node for route in solution.plan["routes"] for node in [*from_cordeau_index(route, requests), 0]]
        report = solution_report(problem, actions)
        assert solution.plan["feasible"] == report.feasible
        np.testing.assert_allclose(solution.plan["distance"], report.cost, rtol=1e-5)
    assert solutions[0].plan["feasible"] and solutions[0].method == "search"


def test_problems_of_different_environments_are_not_solved_together(file, boards):
    with pytest.raises(UserError, match="the files are of darp, pcb; solve those of one environment at a time"):
        solve.solve_all([file, boards])


def test_a_search_is_the_best_choice_for_a_map():
    assert solve.chosen(solve.open_problem(MAP), None) == "search"


@pytest.mark.slow
def test_a_map_is_solved_by_search():
    solution = solve.solve(MAP, seconds=1.0)
    assert solution.cost <= solve.solve(MAP, method="greedy").cost
    assert solution.plan["feasible"] and solution.plan["summary"]["on_time"] == 6
    assert all(event["where"] for event in solution.plan["events"])
    last = max(event["end"] for event in solution.plan["events"] if event["who"] != "van")
    drives = [event["end"] for event in solution.plan["truck"] if event["what"] == "drive"]
    assert max(drives) <= last == solution.plan["summary"]["end"]
    np.testing.assert_allclose(solution.cost, solution.plan["cost"])


@pytest.mark.parametrize(("seconds", "lots"), [(3.0, [4, 4, *7 * [1]]), (12.0, [64, 4, *7 * [1]]), (0.1, [])])
def test_the_samples_of_a_policy_end_at_their_limit(monkeypatch, seconds, lots):
    """Each episode takes an eighth of a second; of several tries, the best is played again beside up to 15 others."""
    played = []
    monkeypatch.setattr(methods, "episode_program", lambda make, *, tries: tries)

    def timed(tries, env, instance, key):
        played.append(tries)
        return toolbox.Searched({64: 80, 16: 32, 4: 8, 1: 1}[tries] / 8, 1.0, {})

    monkeypatch.setattr(methods, "timed", timed)
    reports = list(methods.sample_policy(None, None, None, None, jax.random.key(0), seconds))
    assert played == [1, *lots] and len(reports) == len(played)
    assert reports[-1].seconds == max(seconds, 1 / 8)


@pytest.mark.slow
def test_a_policy_samples_until_time_is_up(file):
    shown = []
    solution = solve.solve(file, run="darp", seconds=0.5, progress=shown.append)
    assert solution.method == "policy"
    assert len(shown) > 1 and solution.cost <= shown[0].cost


SAYS = {
    "plan MAP --index 1 --fleet fleet.yaml": "--fleet: the fleet says what plays; leave --index out",
    "plan MAP --env.max_steps 3 --fleet fleet.yaml": r"--fleet: the fleet says what plays; leave --env\.max_steps out",
    "plan MAP --out plan.txt": r"--out plan\.txt: the name must end in one of: \.json, \.csv, \.html",
    "plan MAP --out nowhere/plan.html": r"--out nowhere/plan\.html: there is no folder nowhere; make it first",
    "plan none.json": r"cannot read none\.json: No such file or directory; give another file",
    "plan MAP --seconds 0": "--seconds",
    "solve none.npz": r"cannot read none\.npz: No such file or directory; give another file",
    "solve README.md": r"^README\.md is of no format .* here; give one of .csv, .json, .nodes, .npz, .pcb, .txt$",
    "solve MAP --env truck_dron": "--env: unknown environment 'truck_dron'",
    "solve MAP --env darp": r"is neither \.txt .* nor \.npz .* nor \.json with shipments \(VROOM\)",
    "solve MAP --env flying_sidekicks": r"is neither \.npz .* nor tbl_locations\.csv \(Murray & Raj\)",
    "solve MAP --env tsp_drone": r"is neither \.txt .* nor nodes\.csv \(Murray & Chu\)",
    "solve MAP --env pcb": r"is neither \.pcb, \.nodes",
    "solve MAP --env.max_steps 3 --fleet fleet.yaml": r"--fleet: the fleet says what plays; leave --env\.max_steps out",
    "solve MAP --run vrpd_tw --fleet fleet.yaml": "--fleet: the fleet says what plays; leave --run out",
    "solve MAP --index 0": "instance 0 is chosen, but .* holds a single instance; leave the choice out",
    "solve MAP --method greedi": "--method greedi: there is none of that name; did you mean 'greedy'",
    "solve MAP --method policy": "--method policy: there is none of that name; it needs --run",
    "solve MAP --seconds 0": "--seconds",
    "solve MAP --seed 99999999999999999999": "--seed: '99999999999999999999' is no whole number from 0",
    "solve MAP --run darp": r"^\S+\.json is neither \.txt",
    "solve MAP --run vrpd_tw --env darp": "--env: a run brings its own environment",
    "solve MAP --trust": "--trust is of --run; leave it out",
    "solve MAP --out plan.txt": r"--out plan\.txt: the name must end in one of: \.json, \.csv, \.html",
    "solve MAP --out nowhere/plan.json": r"--out nowhere/plan\.json: there is no folder nowhere; make it first",
    "solve MAP --picture plan.doc": r"--picture plan\.doc: the name must end in one of: \.gif",
}


@pytest.mark.parametrize("words", SAYS)
def test_a_mistake_is_one_line(words):
    command, *given = words.replace("MAP", MAP).split()
    with pytest.raises(UserError, match=SAYS[words]):
        {"plan": plan.main, "solve": solve.main}[command](given)


NUMBERS = "0 0 0 0 0 0 480\n1 1 1 3 1 0 480\n2 2 1 3 -1 0 480\n"
DAMAGED = {
    "darp": (
        "a.txt",
        f"1 1 480 3 30\n{NUMBERS}".replace("2 2", "2 x"),
        r"\(darp: line 4: expected .* found 'x'; [a-z ]+\)$",
    ),
    "agatz": ("a.txt", "/**/\n1\n/**/\n0,5\n1\n0 0 depot\n", r"\(tsp_drone: line 4: [^:]*\)$"),
    "day": ("a.json", '{"format": "jaxvrp-dispatch-day-1"}', r"read \(dispatch: horizon is missing; give it\)$"),
    "moment": ("a.json", '{"format": "jaxvrp-dispatch-moment-1"}', r"\(dispatch: now is missing; give it\)$"),
    "map": ("a.json", '{"format": "jaxvrp-truck-drone-1"}', r"read \(truck_drone: horizon is missing; give it\)$"),
    "another format": ("a.json", '{"format": "other"}', r"a.json is of no format that is read here; [^:]*$"),
    "no JSON": ("a.json", '{"format": ', r"a.json is no JSON \(Expecting value: .*\); correct it, or give another$"),
    "UTF-16": ("a.txt", f"1 1 480 3 30\n{NUMBERS}".encode("utf-16"), r"a.txt is in UTF-16; save it as UTF-8$"),
    "Latin-1": (
        "a.json",
        b'{"name": "Z\xfcrich"}',
        r"a.json, byte 11: expected a character in UTF-8, [^:;]*; save it as UTF-8$",
    ),
    "an archive": ("a.npz", b"PK", r"a.npz is no readable .npz file \([^;]*\); correct it, or give another$"),
}


@pytest.mark.parametrize(("name", "content", "says"), DAMAGED.values(), ids=DAMAGED)
def test_of_a_damaged_file_only_its_own_format_complains(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=says):
        solve.read_problems(tmp_path / name, None)


def test_of_a_damaged_archive_only_its_own_format_complains(tmp_path, instance):
    save(tmp_path / "a.npz", instance.replace(demand=-np.asarray(instance.demand)))
    with pytest.raises(UserError, match=r"\(darp: demand of pickup 1 is negative; [^:;]*\)$"):
        solve.read_problems(tmp_path / "a.npz", None)


def test_only_the_readers_of_an_ending_are_imported(tmp_path):
    script = "import sys; from train import solve; solve.read_problems(sys.argv[1], None); print(*sys.modules)"
    (tmp_path / "town.json").write_text(pathlib.Path(MAP).read_text())
    argv = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "town.json")]
    imported = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert "jaxvrp.envs.truck_drone.toolbox" in imported
    assert not [name for name in imported if name.startswith(("jaxvrp.envs.pcb", "jaxvrp.envs.darp"))]


def test_who_knows_the_format_says_what_is_wrong(tmp_path):
    """Nobody else: that a map is no board helps nobody who has mistyped a key of it."""
    (tmp_path / "town.json").write_text('{"dronez": 2}')
    with pytest.raises(UserError, match=r"can be read \(truck_drone: .*unknown key 'dronez'; .*\)$") as error:
        solve.read_problems(tmp_path / "town.json", None)
    assert not any(f"{name}:" in str(error.value) for name in ("darp", "pcb", "tsp_drone"))
    (tmp_path / "board.pcb").write_text("no board")
    with pytest.raises(UserError, match=r"can be read \(pcb: [^;]*(; [^:;]*)?\)$"):
        solve.read_problems(tmp_path / "board.pcb", None)


def test_a_picture_that_cannot_be_drawn_takes_no_plan_with_it(file, tmp_path, monkeypatch):
    def fails(self, path):
        raise OSError(f"cannot write {path}")

    monkeypatch.setattr(solve.Solution, "draw", fails)
    plan, picture = tmp_path / "plan.json", tmp_path / "plan.png"
    with pytest.raises(UserError, match=rf"^--picture {picture}: cannot write {picture}$"):
        solve.main([str(file), "--seconds", "0.1", "--out", str(plan), "--picture", str(picture)])
    assert plan.exists()


def test_lines_of_places_are_problems_of_truck_and_drone(tmp_path):
    """Told by their content, although `darp` reads the same ending; of several problems the user chooses."""
    path = tmp_path / "lines.txt"
    path.write_text("0 0 1 2 3 4\n0 0 5 6\n")
    with pytest.raises(UserError, match=r"lines.txt holds 2 instances; choose one with --index 0 to 1$"):
        solve.open_problem(path)
    assert solve.open_problem(path, row=1).env.num_nodes == 2
    assert not solve.open_problem(path, row=1, given={"allow_revisits": False}).env.allow_revisits
    with pytest.raises(UserError, match=r"^--env\.allow_revisits is 'no'; it must be true or false$"):
        solve.open_problem(path, row=1, given={"allow_revisits": "no"})
    path.write_text("0 0 1 2 3 4\n0 0 5\n")
    says = r"can be read \(tsp_drone: [^;]*line 2: expected an even number of coordinates, found 3; correct it\)$"
    with pytest.raises(UserError, match=says):
        solve.open_problem(path)
    with pytest.raises(UserError, match=r"line 2: expected an even number of coordinates, found 3; correct it$"):
        solve.open_problem(path, env="tsp_drone")


@pytest.mark.parametrize("head", ["id,x,y", "lat,lon,kg"])
def test_a_table_of_customers_asks_for_the_fleet(tmp_path, head):
    path = tmp_path / "customers.csv"
    path.write_text(f"{head}\n1,2,3\n")
    with pytest.raises(UserError, match="is a table of customers; give the fleet, too: --fleet"):
        solve.solve(path, seconds=0.1)
