"""`benchmarks.solving`: gaps at times, from curves by hand and from a search of a tiny file. No figure is judged."""

import json
import pathlib

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks import solving
from benchmarks.published import instances
from benchmarks.published.data import VARIABLE
from benchmarks.records import check
from jaxvrp.envs.darp import generate_dataset, write_cordeau
from jaxvrp.envs.tsp_drone import make_instance, write_one_line
from jaxvrp.io.command_line import UserError

RECORDS = [
    {"instance": "a", "best_known": 100.0, "cost": 101.0, "feasible": True, "cpu_seconds": 3.0}
    | {"method": "search", "group": None, "curve": [[0.5, 120.0], [2.0, 110.0], [9.0, 101.0]]},
    {"instance": "b", "best_known": 50.0, "cost": 50.0, "feasible": False, "cpu_seconds": 4.0}
    | {"method": "search", "group": None, "curve": [[1.5, 51.0], [4.0, 50.0]]},
    {"instance": "c", "best_known": None, "cost": 7.0, "feasible": True, "cpu_seconds": 4.0}
    | {"method": "search", "group": None, "curve": [[1.5, 7.0]]},
]


def test_the_cost_after_some_seconds_is_the_least_by_then():
    costs = [solving.cost_after(RECORDS[0], seconds) for seconds in (0.4, 0.5, 1.9, 2.0, 10.0)]
    assert costs == [np.inf, 120.0, 120.0, 110.0, 101.0]


def test_the_table_has_gaps_means_and_the_worst():
    head, *rows = solving.table(RECORDS, 10.0)
    assert head[4:8] == ["gap, 1 s", "gap, 2 s", "gap, 5 s", "gap, 10 s"]
    assert rows[0][4:8] == ["+20.00%", "+10.00%", "+10.00%", "+1.00%"]
    assert rows[1][3:8] == ["no", "-", "+2.00%", "+0.00%", "+0.00%"]
    assert rows[2][1] == "-" and rows[2][4:8] == ["-"] * 4
    assert rows[3][:8] == ["mean", "", "", "2 of 3", "-", "+6.00%", "+5.00%", "+0.50%"]
    assert rows[4][0] == "worst" and rows[4][5:8] == ["+10.00%", "+10.00%", "+1.00%"]


def test_the_table_of_sets_counts_what_was_reached():
    of_sets = [{**record, "group": group} for record, group in zip(RECORDS, ["x", "x", "y"], strict=True)]
    assert solving.table_of_sets(of_sets)[1:] == [["x", "2", "1", "+0.50%", "+0.00%", "+1.00%"]]
    assert solving.table_of_sets(RECORDS)[1:] == []


@pytest.fixture
def squares(tmp_path, monkeypatch):
    """A published set of two squares, whose best known costs are 36.22 and 72.43."""
    lines = tmp_path / "tspd_bogyrbayeva"
    lines.mkdir()
    square = np.array([[0, 0], [10, 0], [10, 10], [0, 10]])
    write_one_line(lines / "random_n4.txt", [make_instance(square), make_instance(2 * square)])
    (lines / "random_n4_tsp_ep_all.txt").write_text("36.22\n72.43\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("squares")
def test_sets_of_truck_and_drone(tmp_path, capsys):
    """A square, around which the drone flies ahead; its file is chosen among two by the number of the line."""
    out = tmp_path / "result.json"
    words = ["--env", "tsp_drone", "--instances", "random_n4", "--seconds", "0.05", "--out", str(out)]
    solving.main(words)
    records = json.loads(out.read_text())["records"]
    assert [record["instance"] for record in records] == ["random_n4#0", "random_n4#1"]
    assert all(record["feasible"] and record["cost"] <= record["best_known"] for record in records)
    assert ["random_n4", "2"] in [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    solving.main([*words[:-2], "--rows", "1"])
    assert "random_n4#1" not in capsys.readouterr().out


@pytest.mark.usefixtures("squares")
@pytest.mark.parametrize(
    ("given", "rules", "best_known"),
    [
        ([], {"alpha": 2.0, "allow_revisits": True}, 36.22),
        (["--env.alpha", "2"], {"alpha": 2, "allow_revisits": True}, 36.22),
        (["--env.allow_revisits", "false"], {"alpha": 2.0, "allow_revisits": False}, 36.22),
        (["--env.alpha", "100"], {"alpha": 100, "allow_revisits": True}, None),
    ],
)
def test_costs_of_other_rules_are_not_compared(given, rules, best_known, tmp_path, capsys):
    record = tmp_path / "record.json"
    words = ["--env", "tsp_drone", "--instances", "random_n4", "--rows", "1", "--record", str(record)]
    solving.main([*given, *words, "--method", "greedy", "--seconds", "0.01"])
    check.main([str(record)])
    (entry,) = json.loads(record.read_text())["records"]
    assert (entry["rules"], entry["best_known"]) == (rules, best_known)
    assert ("mean" in capsys.readouterr().out) == (best_known is not None)


def test_a_fixed_endurance_has_no_published_costs(monkeypatch):
    monkeypatch.setattr(instances.tsp_drone, "sidekicks", lambda name, option: [("one", pathlib.Path("a"), 0, 5.0)])
    known = [instances.sidekicks(name, "--instances")[0].best_known for name in ("n8", "n8_fixed")]
    assert known == [5.0, None]


def test_rules_of_tandems_that_are_changed_are_recorded(tmp_path, monkeypatch):
    folder, record = tmp_path / "vrptwd_kuo", tmp_path / "record.json"
    folder.mkdir()
    (folder / "instance-1.csv").write_text("x,y,demand,open,close,servicetime\n0,0,0,0,480,0\n7,0,9,0,480,10\n")
    (folder / "published_results.csv").write_text("instance,n,mip_z,vns_best,alns_best\n1,1,1.5,,\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    words = ["--env", "truck_drone_tours", "--instances", "kuo_n1", "--method", "greedy", "--seconds", "0.01"]
    for given in ([], ["--env.truck_price", "2"]):
        solving.main([*words, *given, "--record", str(record)])
        check.main([str(record)])
        (entry,) = json.loads(record.read_text())["records"]
        if given:
            assert entry["rules"]["truck_price"] == 2 and entry["rules"]["endurance"] == 30
            assert entry["cost"] == 28 and entry["best_known"] is None
        else:
            assert entry["rules"] == {} and entry["best_known"] == 1.5


def test_a_set_of_an_endurance_takes_no_other(monkeypatch):
    found = instances.Published("one", pathlib.Path("nodes.csv"), 0, 5.0, "fstsp_20")
    monkeypatch.setitem(solving.PUBLISHED, "tsp_drone", lambda name, option: [found])
    with pytest.raises(UserError, match=r"^--env.endurance: fstsp_20 says what it is; leave it out$"):
        solving.main(["--env", "tsp_drone", "--instances", "fstsp_20", "--env.endurance", "30"])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A file with three requests, and a table of best known costs beside it that is easy to reach."""
    folder = tmp_path_factory.mktemp("published")
    windows = {"min_pickup_deadline": 300, "max_pickup_deadline": 400, "horizon": 2000.0}
    windows |= {"max_ride_time": 200.0, "max_route_duration": 2000.0}
    env = jaxvrp.make("darp", num_nodes=6, num_agents=2, round_travel_time=False, vehicle_speed=1.0, **windows)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], generate_dataset(env, seed=0, count=1))
    write_cordeau(folder / "tiny.txt", instance)
    (folder / "best_known.csv").write_text("instance,optimal_cost\ntiny,100.0\n")
    return folder / "tiny.txt"


@pytest.mark.slow
def test_the_command_solves_and_writes(published, tmp_path, capsys):
    out = tmp_path / "result.json"
    solving.main(["--instances", str(published), "--seconds", "0.3", "--out", str(out)])
    (record,) = json.loads(out.read_text())["records"]
    assert record["instance"] == "tiny" and record["feasible"] and record["best_known"] == 100.0
    last = record["curve"][-1][1]  # as the search says it, in 32 bits
    assert record["cost"] == pytest.approx(last, rel=1e-6) and last == min(cost for _, cost in record["curve"])
    assert f"{record['cost']:.2f}" in capsys.readouterr().out
