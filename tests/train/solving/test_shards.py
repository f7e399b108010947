"""Many files: each is solved once, whatever is killed, and a collection misses nothing."""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import jax
import pytest

import jaxvrp
from jaxvrp.envs.darp import generate_dataset, save
from jaxvrp.io.command_line import INTERRUPTED, UserError, run_command
from jaxvrp.io.whole_files import write_json
from jaxvrp.policies.folder import CARD, CONFIG, SHIPPED
from train import solve
from train.run.checkpoint import CONTENTS, Contents
from train.run.folder import CHECKPOINTS, contents_file
from train.solving import methods, shards, solution

ROOT = pathlib.Path(shards.__file__).parents[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder of five files, one of them of two problems."""
    folder = tmp_path_factory.mktemp("written")
    instances = generate_dataset(jaxvrp.make("darp", num_nodes=4, num_agents=2), seed=0, count=6)
    for row in range(4):
        save(folder / f"day{row}.npz", jax.tree.map(lambda leaf, row=row: leaf[row], instances))
    save(folder / "both.npz", jax.tree.map(lambda leaf: leaf[4:], instances))
    return folder


@pytest.fixture
def days(written, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(written, tmp_path / "days")


def run(days, *words):
    run_all(days, "--method", "nearest neighbour", *words)


def run_all(days, *words):
    solve.main([str(days), "--out", str(days.parent / "plans"), *words])


def plans(days):
    return {path.name: path.read_bytes() for path in (days.parent / "plans").glob("*.npz*.json")}


def test_shards_solve_each_file_once_and_are_collected(days, capsys):
    run(days, "--shard", "1/2")
    with pytest.raises(UserError, match="lacks the shards 2/2"):
        solve.main(["--collect", str(days.parent / "plans")])
    run(days, "--shard", "2/2")
    names = {"both.npz.0000.json", "both.npz.0001.json", *(f"day{row}.npz.json" for row in range(4))}
    assert plans(days).keys() == names
    solve.main(["--collect", str(days.parent / "plans")])
    assert "6 plans, 6 of them feasible" in capsys.readouterr().out
    rows = (days.parent / "plans" / "plans.csv").read_text().splitlines()
    assert len(rows) == 7
    plan = json.loads(plans(days)["day2.npz.json"])
    assert plan["cost"] == pytest.approx(solve.solve(days / "day2.npz", method="nearest neighbour").cost)


def test_what_is_done_is_kept_and_what_has_changed_is_solved_again(days, monkeypatch):
    run(days)
    first = plans(days)
    solved = []
    once = shards.solved
    monkeypatch.setattr(shards, "solved", lambda problem, **options: solved.append(problem) or once(problem, **options))
    run(days)
    assert plans(days) == first
    assert not solved
    (days / "day1.npz").write_bytes((days / "day2.npz").read_bytes())
    (days.parent / "plans" / "day3.npz.json").write_bytes(first["day3.npz.json"][:-20])
    run(days)
    assert len(solved) == 2
    assert json.loads(plans(days)["day1.npz.json"])["routes"] == json.loads(first["day2.npz.json"])["routes"]
    run(days, "--seed", "1")
    assert len(solved) == 2 + 6


def test_problems_of_one_size_are_of_one_program(days, monkeypatch):
    traced, best_episode = [], methods.best_episode
    monkeypatch.setattr(methods, "best_episode", lambda *rest, **how: traced.append(1) or best_episode(*rest, **how))
    run(days)
    assert len(plans(days)) == 6
    assert len(traced) <= 1  # none, where another test has compiled it


def test_a_search_solves_files_of_one_size_together(days):
    solve.main([str(days / "day*.npz"), "--seconds", "0.1", "--out", str(days.parent / "plans")])
    together = [json.loads(text) for text in plans(days).values()]
    assert len(together) == 4
    assert all(plan["feasible"] and plan["method"] == "search" for plan in together)


@pytest.mark.parametrize("method", ["nearest neighbour", "search"])
def test_ctrl_c_ends_all_of_it_and_keeps_what_is_done(days, method, monkeypatch, capfd):
    """One by one, or together: the plan of a search that was cut short would else be taken for one of all its time."""
    words, many = ["--method", method, "--seconds", "0.1"], solution.watched_to_the_end
    calls = []

    def interrupted(reports, progress):
        calls.append(reports)
        best, found, _ = many(reports, progress)
        return best, found, len(calls) == 2

    with monkeypatch.context() as patch:
        patch.setattr(shards, "TOGETHER", 3)
        patch.setattr(solution, "watched_to_the_end", interrupted)
        status = run_command(lambda: run_all(days, *words))
    assert status == INTERRUPTED and len(calls) == 2
    out = days.parent / "plans"
    says = f"interrupted; finished plans are in {out}, and the same command goes on with the others"
    assert capfd.readouterr().err.splitlines()[-1] == says
    kept = plans(days)
    assert 0 < len(kept) < 6 and not list(out.glob("manifest*"))
    run_all(days, *words)
    assert len(plans(days)) == 6 and kept.items() <= plans(days).items()


def test_a_policy_of_the_same_name_that_was_trained_further_solves_again(days, monkeypatch):
    policy = shutil.copytree(SHIPPED / "darp", days.parent / "policy")
    opened, solved, open_problem, solve_it = [], [], shards.open_problem, shards.solved

    def open_first(*words, **options):  # it takes as long as all else
        opened.extend([] if opened else [open_problem(*words, **options)])
        return opened[0]

    monkeypatch.setattr(shards, "open_problem", open_first)
    monkeypatch.setattr(shards, "solved", lambda *words, **options: solved.append(words) or solve_it(*words, **options))
    words = [str(days / "day0.npz*"), "--out", str(days.parent / "plans"), "--run", str(policy)]
    for trained_further, count in ((False, 1), (False, 1), (True, 2)):
        if trained_further:
            card = json.loads((policy / CARD).read_text())
            write_json(policy / CARD, card | {"training": card["training"] | {"update": 10**6}})
        solve.main([*words, "--method", "nearest neighbour"])
        assert len(solved) == count


def test_what_is_compared_of_a_run_is_its_latest_checkpoint(tmp_path):
    with pytest.raises(UserError, match="no run folder"):
        contents_file(tmp_path)
    shutil.copy(SHIPPED / "darp" / CONFIG, tmp_path)
    with pytest.raises(UserError, match="no complete checkpoint"):
        contents_file(tmp_path)
    found = []
    for update in (20, 40):
        (tmp_path / CHECKPOINTS / str(update)).mkdir(parents=True)
        contents = Contents(None, {}, {}, {"arrays": str(update)})
        write_json(tmp_path / CHECKPOINTS / str(update) / CONTENTS, dataclasses.asdict(contents))
        found += [shards.checksum(contents_file(tmp_path)), shards.checksum(contents_file(tmp_path))]
    assert found[0] == found[1] != found[2] == found[3]


def test_a_broken_file_is_named_and_all_others_are_solved(days):
    (days / "day0.npz").write_text("nothing")
    with pytest.raises(UserError, match=r"1 of the files are refused, the first: .*day0\.npz"):
        run(days)
    assert len(plans(days)) == 5
    assert "day0.npz" in shards.collect(days.parent / "plans")


def test_a_file_that_an_option_does_not_fit_is_named(days):
    shutil.copy(ROOT / "docs" / "maps" / "market_town.json", days)
    with pytest.raises(
        UserError, match=r"1 of the files .*market_town\.json: --method nearest neighbour: there is none"
    ):
        run(days)
    assert re.search(r"refused: \S+market_town\.json: --method", shards.collect(days.parent / "plans"))


@pytest.mark.parametrize("text", ["days", "days/*", "./days/*.*", "days/../days"])
def test_plans_do_not_go_among_the_problems(days, text, monkeypatch):
    """A second run would take them for problems."""
    monkeypatch.chdir(days.parent)
    before = sorted(days.iterdir())
    with pytest.raises(
        UserError, match=r"^--out days: \S+ would read the plans there as problems; give another folder"
    ):
        solve.main([text, "--out", "days", "--method", "nearest neighbour"])
    assert sorted(days.iterdir()) == before


def test_plans_may_go_beside_problems_of_other_endings(days):
    words = [str(days / "day*.npz"), "--out", str(days), "--method", "nearest neighbour"]
    solve.main(words)
    solve.main(words)
    assert "4 plans" in shards.collect(days)


MISTAKES = {
    "nowhere/*.txt --out x": "there is no file",
    "--out x": "there is no problem to solve",
    "DAYS": "many files take --out DIR",
    "DAYS --out x --picture y.png": "neither --picture nor --index",
    "DAYS --out x --shard 0/3": "'0/3' is no shard; the third of sixteen is 3/16",
    "DAYS/day0.npz --shard 1/2": "--shard is of many files",
    "--collect nowhere": "nowhere holds no manifest",
    "--collect x --seed 1": "--collect takes a folder alone; leave out --seed",
    "DAYS --collect x": "--collect takes a folder alone; leave out days",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_command_that_is_none_is_refused_in_one_line(days, words, monkeypatch):
    monkeypatch.chdir(days.parent)
    with pytest.raises(UserError, match=MISTAKES[words]):
        solve.main(words.replace("DAYS", "days").split())
    assert not (days.parent / "x").exists() or not list((days.parent / "x").iterdir())


@pytest.mark.parametrize("change", ["a file more", "options"])
def test_shards_of_other_files_or_options_are_not_collected(days, change):
    run(days, "--shard", "1/2")
    if change == "a file more":
        shutil.copy(days / "day0.npz", days / "an_earlier_name.npz")
    run(days, "--shard", "2/2", *(["--seed", "1"] if change == "options" else []))
    out = days.parent / "plans"
    with pytest.raises(UserError, match="not all of the same files and options; run them again"):
        shards.collect(out)
    run(days, "--shard", "1/2")
    run(days, "--shard", "2/2")
    assert ("7 plans" if change == "a file more" else "6 plans") in shards.collect(out)


def test_tables_of_customers_take_one_fleet(tmp_path, capsys):
    tables, fleet = tmp_path / "tables", tmp_path / "fleet.yaml"
    tables.mkdir()
    for name in ("monday", "tuesday"):
        (tables / f"{name}.csv").write_text("name,lat,lon\nAda,53.08,8.81\nBob,53.07,8.82\n")
    text = "start: '08:00'\nend: '16:00'\ndepot: {lat: 53.07, lon: 8.80}\nvans: {count: 1, speed: 30}\n"
    fleet.write_text(text)
    words = ["--fleet", str(fleet), "--method", "accept"]
    run_all(tables, *words)
    assert "2 plans, 2 of them feasible" in shards.collect(tmp_path / "plans")
    first = (tmp_path / "plans" / "monday.csv.json").read_text()
    fleet.write_text(text.replace("30", "20"))
    run_all(tables, *words)
    assert (tmp_path / "plans" / "monday.csv.json").read_text() != first


def test_a_matrix_that_a_fleet_names_belongs_to_what_is_solved(tmp_path):
    tables, fleet, matrix = tmp_path / "tables", tmp_path / "fleet.yaml", tmp_path / "table.csv"
    tables.mkdir()
    (tables / "monday.csv").write_text("name,lat,lon\nAda,53.08,8.81\nBob,53.07,8.82\n")
    fleet.write_text("start: '08:00'\nend: '16:00'\ndepot: {lat: 53.07, lon: 8.80}\nvans: {matrix: table.csv}\n")
    plan, found = tmp_path / "plans" / "monday.csv.json", []
    for seconds in (300, 300, 400):
        matrix.write_text(f"0,{seconds},300\n300,0,300\n300,300,0\n")
        run_all(tables, "--fleet", str(fleet), "--method", "accept")
        found.append(plan.read_text())
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("damage", ["plan", "manifest", "other shards"])
def test_a_collection_that_misses_something_is_refused(days, damage):
    run(days)
    out = days.parent / "plans"
    manifest = out / "manifest-1-of-1.json"
    if damage == "plan":
        (out / "day0.npz.json").unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:-9])
    else:
        run(days, "--shard", "1/2")
    with pytest.raises(UserError, match=r"day0\.npz\.json|is damaged|holds shards of 1 and of 2"):
        shards.collect(out)


@pytest.mark.parametrize(
    ("files", "plan", "message"),
    [
        ([3], "{}", "is damaged"),
        ([{"plan": "a.json"}], "{}", "is damaged"),
        ([{"file": "a", "plan": "a.json"}], "{}", "is not the plan of the manifest"),
        ([{"file": "a", "plan": "a.json"}], "[" * 100_000, "is not the plan of the manifest"),
    ],
)
def test_damage_of_any_kind_is_refused_in_one_line(tmp_path, files, plan, message):
    (tmp_path / "manifest-1-of-1.json").write_text(json.dumps({"shard": 1, "of": 1, "files": files}))
    (tmp_path / "a.json").write_text(plan)
    with pytest.raises(UserError, match=message):
        shards.collect(tmp_path)


@pytest.mark.slow
def test_a_killed_shard_goes_on_where_it_was(days):
    command = [sys.executable, "-m", "train.solve", str(days), "--seconds", "1", "--out", str(days.parent / "plans")]
    commands = [[*command, "--shard", f"{number}/2"] for number in (1, 2)]
    processes = [subprocess.Popen(each, cwd=ROOT) for each in commands]
    deadline = time.time() + 300
    while not plans(days) and time.time() < deadline:
        time.sleep(0.02)
    processes[0].kill()
    assert processes[1].wait(300) == 0
    processes[0].wait(300)
    before = plans(days)
    subprocess.run(commands[0], cwd=ROOT, check=True, timeout=300)
    after = plans(days)
    assert len(after) == 6
    assert before.items() <= after.items()
    assert "6 plans" in shards.collect(days.parent / "plans")
