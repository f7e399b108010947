"""Plans for published problems: the checkers against plans by hand and published ones, and what they refuse."""

import ast
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.published.data import VARIABLE
from benchmarks.records import check, published
from benchmarks.records.checkers import darp, flying_sidekicks, truck_drone_tours, tsp_drone
from jaxvrp.io.command_line import UserError

CHECKERS = {"darp": darp, "flying_sidekicks": flying_sidekicks, "truck_drone_tours": truck_drone_tours} | {
    "tsp_drone": tsp_drone
}


@pytest.mark.parametrize("checker", CHECKERS.values(), ids=CHECKERS)
def test_a_checker_is_one_short_file_that_needs_numpy_alone(checker):
    text = pathlib.Path(checker.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names - {"numpy"} <= sys.stdlib_module_names


def test_the_folder_of_checkers_runs_by_itself(line):
    folder, record = pathlib.Path(tsp_drone.__file__).parent, line / "record.json"
    plans = {
        "environment": "tsp_drone",
        "records": [{**entry("line.txt", "0-2^1 2-3 3-0^4", 1, alpha=2.0), "cost": 12}],
    }

    def run():
        record.write_text(json.dumps(plans))
        command = [sys.executable, "-I", str(folder), str(line), str(record)]  # -I: without this package in its way
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run().stdout == "one: 12.000000\n"
    plans["records"][0]["cost"] = 11.9
    assert (done := run()).returncode == 1 and done.stderr == f"{record}: one: stated 11.9, recomputed 12.0\n"
    plans["records"][0]["cost"] = float("nan")
    assert (done := run()).returncode == 1 and done.stderr == f"{record}: one: stated nan, recomputed 12.0\n"
    del plans["records"][0]["cost"]
    assert (done := run()).returncode == 1 and done.stderr == f"{record} cannot be read: KeyError: 'cost'\n"
    plans["records"] = []
    assert (done := run()).returncode == 1 and done.stderr == f"{record}: it has no plans\n"
    plans["environment"] = "os"
    assert (done := run()).returncode == 1 and f"{record}: there is no checker of 'os', only of darp, " in done.stderr


def entry(file, plan, row=None, **rules):
    return {"instance": "one", "file": file, "row": row, "rules": rules, "plan": plan}


def refuses(checker, folder, of, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        checker.cost_of(folder, of)


@pytest.fixture
def line(tmp_path):
    """The depot and four customers on a line, 0, 3, 4, 6 and 8."""
    (tmp_path / "line.txt").write_text("9 9 1 1\n0 0 3 0 4 0 6 0 8 0\n")
    return tmp_path


def test_a_plan_of_truck_and_drone_by_hand(line):
    # The truck drives 4, the drone flies (3 + 1) / 2; 2 together; the truck drives 6, the drone flies (2 + 8) / 2.
    assert tsp_drone.cost_of(line, entry("line.txt", "0-2^1 2-3 3-0^4", 1, alpha=2.0)) == 12
    assert tsp_drone.cost_of(line, entry("line.txt", "0-2^1 2-2^3 2-0^4", 1, alpha=2.0)) == 4 + 2 + 6
    assert tsp_drone.cost_of(line, entry("line.txt", "0-2-1-2^3 2-4 4-0", 1, alpha=2.0)) == 6 + 4 + 8


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("0-2^1 2-3", "not served: [4]; the end is at 3"),
        ("0-2^1 3-0^4", "both are at 2"),
        ("0-2^1 2-3 3-0^1", "1 is served twice"),
        ("0-1-2-2^3 2-0^4", "a place stands there twice"),
        ("0-2^1 2-0 0-3 3-0^4", "0 is served already"),
        ("0-1^1 1-2 2-3 3-0^4", "they meet at the drone's customer"),
        ("0-9^1", "there is no such node"),
        ("0", "'0' is no operation"),
        ("0-x", "'0-x' is no operation"),
    ],
)
def test_a_wrong_plan_of_truck_and_drone_is_refused(line, plan, says):
    refuses(tsp_drone, line, entry("line.txt", plan, 1, alpha=2.0), says)


def test_without_revisits_they_meet_where_nobody_was(line):
    rules = {"alpha": 2.0, "allow_revisits": False}
    assert tsp_drone.cost_of(line, entry("line.txt", "0-2^1 2-3 3-0^4", 1, **rules)) == 12
    for plan in ("0-2^1 2-2^3 2-0^4", "0-2-1-2^3 2-4 4-0"):
        refuses(tsp_drone, line, entry("line.txt", plan, 1, **rules), "2 is served")


def test_limits_of_the_files(line):
    head = "/*truck*/ 1\n0.5\n5\n0 0 depot\n3 0 a\n4 0 b\n6 0 c\n8 0 d\n"
    plan = "0-2^1 2-3 3-0^4"
    for limit, says in (("#MAXFLY 9.9\n", "a flight of 10"), ("#NOVISIT 1\n", "the drone may not serve 1")):
        (line / "agatz.txt").write_text(limit + head)
        refuses(tsp_drone, line, entry("agatz.txt", plan), says)
    (line / "agatz.txt").write_text(head)
    assert tsp_drone.cost_of(line, entry("agatz.txt", plan)) == 12


@pytest.mark.parametrize(
    ("counts", "endurance", "says"),
    [
        ("flight", 7.9, "a flight of 8"),
        ("flight and recovery", 8.9, "a flight of 8"),
        ("flight, waiting and recovery", 18.9, "a sortie of 19"),
    ],
)
def test_rules_of_murray_and_chu(tmp_path, counts, endurance, says):
    (tmp_path / "nodes.csv").write_text("")
    (tmp_path / "Cprime.csv").write_text("1")
    (tmp_path / "tau.csv").write_text("0,8,9,0\n8,0,18,8\n9,18,0,9\n0,0,0,0\n")
    (tmp_path / "tauprime.csv").write_text("0,4,5,0\n4,0,6,4\n5,6,0,5\n0,0,0,0\n")
    rules = {"launch_time": 1.0, "depot_launch_time": 0.0, "recovery_time": 1.0, "endurance_counts": counts}
    assert tsp_drone.cost_of(tmp_path, entry("nodes.csv", "0-2-0^1", endurance=endurance + 0.1, **rules)) == 19
    refuses(tsp_drone, tmp_path, entry("nodes.csv", "0-2-0^1", endurance=endurance, **rules), says)


KUO = "x,y,demand,open,close,servicetime\n0,0,0,0,480,0\n7,0,9,0,480,10\n0,5,2,60,480,10\n"


def test_a_tandem_by_hand(tmp_path):
    (tmp_path / "kuo.csv").write_text(KUO)
    truck, drone = 1.61 * 1.13 * 0.07, 0.161 * 1.13 * 0.07
    cost = truck_drone_tours.cost_of(tmp_path, entry("kuo.csv", "0-1 1-0 / 0-2 2-0"))
    assert cost == pytest.approx(truck * 24)
    cost = truck_drone_tours.cost_of(tmp_path, entry("kuo.csv", "0-1-0^2"))
    assert cost == pytest.approx(truck * 14 + drone * 10)
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-1 1-0"), "not served: [2]")
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-2-0^1"), "1 is too heavy")
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-1-0-2-0"), "the depot lies within an operation")
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-1-0^3"), "0-1-0^3: there is no such node")
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-1 1-"), "'1-' is no operation")
    slow = {"units.time": "h", "truck_speed": 1.0, "truck_price": 2.0, "drone_price": 0.5, "drone_capacity": 9.0}
    slow |= {"endurance": 25.0, "drone_speed": 1.0}
    assert truck_drone_tours.cost_of(tmp_path, entry("kuo.csv", "0-2-0^1", **slow)) == pytest.approx(20 + 7)
    slow["endurance"] = 23.9  # 14 hours of flight, 10 of service
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-2-0^1", **slow), "a sortie to 1 of 24")
    (tmp_path / "kuo.csv").write_text(KUO.replace("60,480", "0,5"))
    refuses(truck_drone_tours, tmp_path, entry("kuo.csv", "0-1 1-2 2-0"), "service of 2 begins at")


def test_riders_by_hand(tmp_path):
    rows = ["1 2 100 1 20", "0 0 0 0 0 0 100", "1 3 0 1 1 0 100", "2 3 4 1 1 0 100", "3 6 0 1 -1 0 100"]
    (tmp_path / "two.txt").write_text("\n".join([*rows, "4 0 4 1 -1 0 100\n"]))
    cost = darp.cost_of(tmp_path, entry("two.txt", "1 3 2 4"))
    assert cost == pytest.approx(3 + 3 + 5 + 3 + 4)
    refuses(darp, tmp_path, entry("two.txt", "1 2 3 4"), "too full: [1, 2, 3, 4]")
    refuses(darp, tmp_path, entry("two.txt", "3 1 2 4"), "1 is not dropped off after its pickup")
    refuses(darp, tmp_path, entry("two.txt", "1 3"), "a stop is missing")
    refuses(darp, tmp_path, entry("two.txt", "1 x"), "a stop is no number")
    (tmp_path / "two.txt").write_text("\n".join([*rows, "4 0 4 1 -1 0 15\n"]))
    refuses(darp, tmp_path, entry("two.txt", "1 3 2 4"), "late: [1, 3, 2, 4]")


def test_sidekicks_by_hand(tmp_path):
    """The truck drives 100 s to 1 and back; the drone serves 2 meanwhile, or is waited for."""
    folder = tmp_path / "one"
    folder.mkdir()
    places = "% node\n0, 0, 0.0, 0.0, 0, -1\n1, 1, 0.0, 0.01, 0, 9\n2, 1, 0.0, 0.02, 0, 1\n"
    (folder / "tbl_locations.csv").write_text(places)
    roads = [f"{a}, {b}, {100 * (a != b)}, 9\n" for a in range(3) for b in range(3)]
    (folder / "tbl_truck_travel_data_PG.csv").write_text("".join(roads))
    drone = "2,2,10,20,5,360,50,5,60,30,60,457503,low\n"
    (tmp_path / "vehicles.csv").write_text("% head\n1,1,-1,-1,-1,-1,-1,-1,-1,-1,30,-1,NA\n" + drone)
    rules = {"vehicles": "vehicles.csv", "drones": 1, "battery": False}
    metres = flying_sidekicks.EARTH * np.radians(0.01)
    flight = 5 + 0.5 + 10 + metres * np.array([2, 1]) / 20  # up, turn, down, and along
    plan = entry("one/tbl_locations.csv", "L2:0 D1 R2:0 S D0", **rules)
    back = 60 + flight[0] + 60 + flight[1]
    assert flying_sidekicks.cost_of(tmp_path, plan) == pytest.approx(max(back, 160) + 30 + 30 + 100)
    for tasks, says in (
        ("L2:0 D1 S D0", "somebody is not home"),
        ("D1 S D0", "not served: [2]"),
        ("L1:0 D2 R1:0 S D0", "1 is too heavy"),
        ("L2:0 R2:0 D1 S D0", "drone 0 is not back"),
        ("L2:1 D1 R2:1 S D0", "L2:1: there is no such node or drone"),
        ("D3 S D0", "D3: there is no such node or drone"),
        ("L2 D1 S D0", "'L2' is no task"),
    ):
        refuses(flying_sidekicks, tmp_path, {**plan, "plan": tasks}, says)
    assert flying_sidekicks.cost_of(tmp_path, {**plan, "rules": {**rules, "battery": True}}) > 0
    # 335 s of flight are within 350, not with 60 s of service.
    (tmp_path / "vehicles.csv").write_text((tmp_path / "vehicles.csv").read_text().replace("10,20,5", "10,11,5"))
    refuses(flying_sidekicks, tmp_path, plan, "the flight to 2 takes 394.")


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A record of two plans for a set of two lines, in which only the second problem has the plan's cost."""
    folder = tmp_path / "tspd_bogyrbayeva"
    folder.mkdir()
    (folder / "random_n5.txt").write_text("0 0 1 0 2 0 3 0 4 0\n0 0 3 0 4 0 6 0 8 0\n")
    (folder / "random_n5_tsp_ep_all.txt").write_text("6.5\n12.5\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    plan = [{"start": 0, "internal": [], "end": 2, "fly": 1}, {"start": 2, "internal": [3], "end": 0, "fly": 4}]
    of = published.entry_of("tsp_drone", folder / "random_n5.txt", 1, {"alpha": 2.0}, {"operations": plan})
    assert of == {
        **{"file": "tspd_bogyrbayeva/random_n5.txt", "row": 1, "rules": {"alpha": 2.0}},
        "plan": "0-2^1 2-3-0^4",
    }
    head = {"format": published.FORMAT, "environment": "tsp_drone", "machine": {"cores": 1}, "protocol": {"seed": 0}}
    figures = {"group": "random_n5", "best_known": 12.5, "cost": 12.0, "feasible": True}
    return {**head, "records": [{"instance": "random_n5#1", **figures, **of}]}


def checked(record, folder):
    """The message about a record; None if it is right."""
    (folder / "record.json").write_text(published.as_text(record))
    try:
        check.main([str(folder / "record.json")])
    except UserError as error:
        return str(error)


def test_a_record_says_what_its_plans_cost(record, tmp_path, monkeypatch, capsys):
    assert checked(record, tmp_path) is None and json.loads((tmp_path / "record.json").read_text()) == record
    assert "tsp_drone, 1 plans; seed 0; cores 1\nplans and costs are right" in capsys.readouterr().out
    record["records"][0]["cost"] = 11.9
    says = "record.json: records[0]: 'random_n5#1' costs 11.9; from the plan follows 12.000000"
    assert says in checked(record, tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    assert "is not there; JAXVRP_DATA names its folder" in checked(record, tmp_path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"instance": "random_n5#0"}, "random_n5.txt and 0"),
        ({"row": 0}, "file and row are tspd_bogyrbayeva/random_n5.txt and 0; random_n5#1 is "),
        ({"row": None}, "file and row are tspd_bogyrbayeva/random_n5.txt and None; "),
        ({"instance": "random_n5#2"}, "instance is 'random_n5#2'; there is none of that name in random_n5"),
        ({"group": "random_n9"}, "group: cannot read 'random_n9'"),
        ({"group": None}, "group is null"),
        ({"best_known": 13.5}, "best_known is 13.5; by its rules it is 12.5"),
        # The plan takes as long: a drone that is this much faster waits.
        ({"rules": {"alpha": 100.0}}, "best_known is 12.5; by its rules it is None"),
        ({"rules": {}}, "rules.alpha is None; by its file and row it is 2.0"),
        ({"rules": {"alpha": 2.0, "launch_time": 1.0}}, "rules.launch_time is 1; by its file and row it is None"),
        (
            {"rules": {"alpha": 2.0, "allow_revisits": "no"}},
            "rules.allow_revisits is 'no'; by its file and row it is N",
        ),
        ({"rules": {"alpha": [2.0]}}, "alpha is [2]; it must be a number"),
        ({"rules": {"alpha": True}}, "alpha is True; it must be a number from 0"),
        ({"feasible": False}, "feasible is False; the plan breaks no rule"),
        ({"feasible": "yes"}, "feasible is 'yes'; the plan breaks no rule"),
        ({"plan": "0-2^1 2-3^4"}, "random_n5#1: not served: []; the end is at 3"),
        ({"plan": "0-2^1 x"}, "'x' is no operation"),
        ({"plan": ["0-2^1"]}, "is damaged: AttributeError: 'list' object has no attribute 'split'"),
        ({"cost": "12"}, "is damaged: TypeError: unsupported operand type(s) for -: 'float' and 'str'"),
        ({"cost": float("nan")}, "record.json"),
        ({"file": "."}, "record.json cannot be checked: "),
    ],
    ids=str,
)
def test_a_record_of_something_else_is_one_line(changes, says, record, tmp_path):
    record["records"][0].update(changes)
    assert says in (checked(record, tmp_path) or "")


def test_a_record_may_have_other_rules_and_no_best_known_cost(record, tmp_path):
    record["records"][0].update({"rules": {"alpha": 100.0}, "best_known": None})
    assert checked(record, tmp_path) is None
    record["records"][0].update({"rules": {"alpha": 2.0, "allow_revisits": False}, "best_known": 12.5})
    assert checked(record, tmp_path) is None
    record["records"] = []
    assert "record.json has no plans for one of: darp, " in checked(record, tmp_path)


@pytest.mark.parametrize("name", ["instance", "best_known", "cost", "file", "row", "rules", "plan"])
def test_what_a_record_lacks_is_named(name, record, tmp_path):
    del record["records"][0][name]
    assert f"record.json is damaged: KeyError: '{name}'" in checked(record, tmp_path)
