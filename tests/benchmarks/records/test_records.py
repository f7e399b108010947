"""Frozen sets and records: the problems are what they were, and whatever a record says wrongly is refused."""

import copy
import dataclasses
import functools
import json
import pathlib

import jax
import numpy as np
import pytest

from benchmarks.records import check, run, sets
from jaxvrp.io.command_line import UserError

RECORDS = pathlib.Path(__file__).parents[3] / "benchmarks" / "results" / "records"


@functools.cache
def problems_of(name):
    return sets.generate(name, sets.known_sets()[name])


@pytest.fixture(autouse=True)
def generated_once(monkeypatch):
    """Compiling a generator takes seconds."""
    known = sets.known_sets()
    monkeypatch.setattr(sets, "known_sets", lambda: known)
    monkeypatch.setattr(check, "generate", lambda name, known: problems_of(name))


@pytest.mark.parametrize("name", sets.known_sets())
def test_a_set_is_what_it_was(name):
    assert len(problems_of(name)) == sets.known_sets()[name].problems.count


@pytest.mark.parametrize("name", ["darp_10_requests", "darp_25_requests"])
def test_no_rounded_time_of_a_set_is_near_to_another(name):
    """A drop-off's deadline is a distance that is rounded up: another machine must round it to the same number."""
    for problem in problems_of(name):
        locs = problem.locs.astype(np.float64)
        direct = np.linalg.norm(locs[2::2] - locs[1::2], axis=1) / problem.vehicle_speed
        for time in (direct[direct > 1], 2 * direct[direct > 1]):
            assert (np.abs(time - np.round(time)) > 1e-4).all()


def test_other_problems_are_refused(monkeypatch):
    known = sets.known_sets()["tsp_drone_20_nodes"]
    other = known._replace(problems=dataclasses.replace(known.problems, seed=1))
    with pytest.raises(UserError, match=r"tsp_drone_20_nodes has the checksum \w{64} here, and not 9628f"):
        sets.generate("tsp_drone_20_nodes", other)


@pytest.fixture(scope="module", autouse=True)
def recomputed_once():
    """Most faults are of one plan or of none: what follows from a plan that was right is not computed again."""
    kind = type(next(iter(sets.known_sets().values())))
    recompute, right = kind.recompute, {}

    def once(self, problem, plan):
        leaves = map(np.asarray, jax.tree.leaves(problem))
        name = (*(each.tobytes() for each in leaves), json.dumps(plan, sort_keys=True))
        if name not in right:
            right[name] = recompute(self, problem, plan)
        return right[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "recompute", once)
        yield


@pytest.fixture(params=["darp_10_requests_policy", "tsp_drone_20_nodes_policy"])
def record(request):
    """One that is right."""
    return json.loads((RECORDS / f"{request.param}.json").read_text())


@pytest.mark.parametrize(
    ("name", "player"),
    [
        pytest.param("tsp_drone_20_nodes", {"method": "nearest neighbour"}, marks=pytest.mark.slow),
        ("tsp_drone_20_nodes", {"policy": "tsp_drone"}),
        pytest.param("tsp_drone_20_nodes", {"method": "search", "seconds": 0.01, "seed": 3}, marks=pytest.mark.slow),
        pytest.param("darp_10_requests", {"method": "search", "seconds": 0.01, "seed": 3}, marks=pytest.mark.slow),
    ],
)
def test_a_run_makes_a_record_that_is_right(tmp_path, capsys, name, player, monkeypatch):
    if name == "tsp_drone_20_nodes" and "seconds" in player:  # searched one after the other: a thousand take long
        for module in (run, check):
            monkeypatch.setattr(module, "generate", lambda name, known: problems_of(name)[:16])
    path = tmp_path / "record.json"
    options = [word for key, value in player.items() for word in (f"--{key}", str(value))]
    run.main([name, *options, "--out", str(path)])
    check.main([str(path)])
    assert "set, plans and figures are right" in capsys.readouterr().out
    record = json.loads(path.read_text())
    assert record["player"] == player
    (*_, figure) = record["figures"].items()
    assert figure[1] == np.mean([plan[figure[0]] for plan in record["plans"]])
    assert record["machine"]["jax"]
    assert record["seconds_per_problem"]["cpu"] > 0


@pytest.mark.parametrize("path", sorted(RECORDS.rglob("*.json")), ids=lambda path: path.stem)
def test_the_records_of_the_docs_are_right(path):
    try:
        check.main([str(path)])
    except UserError as error:
        if "cannot be checked" not in str(error):
            raise
        pytest.skip(str(error))


def change_figure(record):
    name = next(iter(record["figures"]))
    record["figures"][name] *= 1.001


def change_number(record):
    name = next(iter(record["figures"]))
    record["plans"][3][name] *= 0.999


def change_plan(record):
    plan = record["plans"][0]
    for route in plan.get("routes", [])[:1]:
        route.reverse()
    for operation in plan.get("operations", [])[:1]:
        operation["end"] = operation["start"]


def leave_out_a_node(record):
    plan = record["plans"][0]
    decisions = plan.get("routes", plan.get("operations"))
    del decisions[0]


FAULTS = {
    "figures: .* from the plan follows": change_figure,
    "plan 3: .* from the plan follows": change_number,
    "plan 0 is not feasible": change_plan,
    "plan 0": leave_out_a_node,
    "another version of .*, or its checksum": lambda record: record["set"].update(checksum="0" * 64),
    "another version": lambda record: record["set"].update(version=2),
    "has 31 plans for the 32": lambda record: record["plans"].pop(),
    "there is no set darp_9": lambda record: record["set"].update(name="darp_9"),
    "figures: 'won' is no figure": lambda record: record["figures"].update(won=1.0),
    "is no record: its format is": lambda record: record.update(format="other"),
    "plan 5 is not feasible: plan": lambda record: record["plans"].__setitem__(5, {}),
    "is damaged: TypeError: object of type 'int' has no len": lambda record: record.update(plans=3),
}


@pytest.mark.parametrize(("message", "fault"), FAULTS.items(), ids=FAULTS)
def test_a_record_that_is_wrong_is_refused_in_one_line(record, message, fault, tmp_path):
    sound = copy.deepcopy(record)
    fault(record)
    assert record != sound
    (tmp_path / "record.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=message):
        check.main([str(tmp_path / "record.json")])


def test_a_file_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "record.json").write_text("{")
    with pytest.raises(UserError, match=r"record\.json is no JSON"):
        check.main([str(tmp_path / "record.json")])
