"""train.evaluate and train.replay on a user's own problem: any size for attention, its plan; mistakes are one line."""

import csv
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.episodes import record_episodes
from jaxvrp.io.command_line import UserError
from jaxvrp.policies.folder import write_policy
from train import evaluate, replay
from train.algorithms import make_train
from train.commands import instance_file
from train.commands.instance_file import InstanceFile, Output, write_all
from train.on_policy.config import PPOConfig
from train.run.folder import CONFIG, RunFolder, write_configuration
from train.run.resume import RecordedRun

MAPS = pathlib.Path(__file__).parents[3] / "docs" / "maps"
SMALL = {"num_envs": 4, "rollout_length": 4, "num_minibatches": 1, "eval_episodes": 4, "num_devices": 1}
NETWORK = {"attention_size": 8, "attention_heads": 2, "hidden_sizes": (8,)}
ENV = {"name": "truck_drone", "num_drones": 1, "num_customers": 1, "num_route_nodes": 2, "max_steps": 12}


def written(folder, **settings):
    """The folder of a policy that was never trained."""
    config = PPOConfig(**{"env": ENV, **SMALL, **NETWORK, **settings})
    learner, rng = make_train(config), np.random.default_rng(0)
    shapes = learner.actor_params(jax.eval_shape(learner.init, jax.random.key(0)))
    params = jax.tree.map(lambda leaf: rng.normal(0, 0.3, leaf.shape).astype(leaf.dtype), shapes)
    write_configuration(folder, RecordedRun(config, "mappo"))
    card = {"about": "", "training": {"update": 1}, "figures": {}, "exported": {}}
    write_policy(folder, params, folder / CONFIG, **card)
    return folder


@pytest.fixture(scope="module")
def run(programs_once, tmp_path_factory):
    """Its evaluation has other episodes than a map asks for."""
    return written(tmp_path_factory.mktemp("run"), network="attention", eval_env={"max_steps": 9})


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A shorter day in the market town."""
    path = tmp_path_factory.mktemp("maps") / "short day.json"
    content = json.loads((MAPS / "market_town.json").read_text())
    content["customers"] = [{**entry, "window": [0, 10]} for entry in content["customers"][:3]]
    drones = [{**entry, "payload_factor": 0} for entry in content["drones"]]
    path.write_text(json.dumps({**content, "drones": drones, "horizon": 12}))
    return path


@pytest.mark.slow
def test_a_policy_plays_a_map_of_another_size_and_writes_its_plan(run, town, tmp_path, capsys):
    out = [tmp_path / "plan.json", tmp_path / "plan.csv"]
    words = ["--run", str(run), "--instance", str(town), "--actor", "greedy", "--render", str(tmp_path / "town.png")]
    evaluate.main([*words, "--plan", *map(str, out)])
    printed = capsys.readouterr().out
    assert f"{town}, deterministic policy of update 1\n" in printed
    assert {"policy", "greedy", "random"} <= {line.split("  ")[0] for line in printed.splitlines()}
    plan = json.loads(out[0].read_text())
    assert (plan["player"], plan["name"], plan["summary"]["customers"]) == ("greedy", "market town", 3)
    assert plan["summary"]["served"] == plan["figures"]["customers_served"] > 0
    row = next(line.split() for line in printed.splitlines() if line.startswith("greedy"))
    assert float(row[1]) == pytest.approx(plan["figures"]["return"], abs=6e-4)
    with out[1].open(newline="") as file:
        events = list(csv.DictReader(file))
    assert {event["who"] for event in events} == {"van", "red", "blue"}
    assert max(float(event["end"]) for event in events) == plan["summary"]["end"] <= 12
    assert (tmp_path / "town.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_best_of_several_tries_is_the_one_that_is_kept(run, town, monkeypatch):
    """Two are played side by side, so the third of three has a neighbour who does not count."""
    file = InstanceFile.open(str(town), str(run), {})
    actor = file.players(file.folder.load("latest"), deterministic=False, temperature=1.0)["random"]
    monkeypatch.setattr(instance_file, "AT_ONCE", 2)
    played = file.play(actor, 7, 3)
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), file.problems.instance(file.problem, file.env))
    play = jax.jit(
        lambda key: record_episodes(file.env, actor, both, key, lambda *step: step[-1].team_reward)[1].sum(axis=0)
    )
    returns = np.concatenate([play(key) for key in jax.random.split(jax.random.key(7), 2)])
    assert len(set(returns.tolist())) == 4
    assert played.figures["return"] == pytest.approx(returns[:3].max(), rel=1e-6)
    steps = int(played.figures["length"])
    assert played.episode.states.step[-1] == played.episode.states.step[steps] == steps
    assert {leaf.shape[0] for leaf in jax.tree.leaves(played.episode.states)} == {file.env.max_steps + 1}
    shared = jax.vmap(file.env.shared_reward)(jax.tree.map(lambda leaf: leaf[1 : steps + 1], played.episode.states))
    assert float(np.sum(shared)) == pytest.approx(played.figures["return"], rel=1e-5)
    assert file.env.max_steps == 24, "a map goes before what evaluation changes"


@pytest.mark.slow
def test_the_page_has_the_names_of_the_map(run, town, tmp_path):
    replay.main(["--run", str(run), "--instance", str(town), "--out", str(tmp_path)])
    episode = json.loads((tmp_path / "episode_short day.json").read_text())
    assert [agent["name"] for agent in episode["agents"]] == ["van", "red", "blue"]
    places = episode["story"]["places"]
    assert [place["name"] for place in places if place["kind"] == "customer"] == ["bakery", "farm", "doctor"]
    assert (episode["title"], episode["subtitle"]) == ("market town", "policy of update 1, most probable actions")
    assert "bakery" in (tmp_path / "episode_short day.html").read_text()


@pytest.mark.parametrize("command", [evaluate.main, replay.main])
def test_what_the_reader_assumes_and_what_is_absurd_is_said_and_can_be_given(command, tmp_path, monkeypatch, capsys):
    """35 and 50 miles an hour are 56.33 and 80.47 km an hour; the one customer is 50 km away, 75 minutes in all."""

    def ends_here(*_):
        raise UserError("no further")

    monkeypatch.setattr(RunFolder, "load", ends_here)
    path = tmp_path / "one.csv"
    path.write_text("x,y,demand,open,close,servicetime\n0,0,0,0,900,0\n30,40,1,0,800,0\n")
    words = ["--run", "truck_drone_tours", "--instance", str(path), "--env.units.length", "km"]
    for given in ([], ["--env.drone_speed", "60"]):
        with pytest.raises(UserError, match="no further"):
            command([*words, *given, *(["--out", str(tmp_path)] if command is replay.main else [])])
        said = capsys.readouterr().err
        drone = [] if given else ["drone_speed 80.47"]
        start = ", ".join(["assumed, as the file does not say it: units.time min", "truck_speed 56.33", *drone])
        assert f"{start}, truck_capacity 1400" in said
        assert f"no customer is within 30, the nearest needs {2 * 50 / (60 if given else 80.4672) * 60:g}" in said


def test_rules_of_the_run_that_no_file_says_are_said(tmp_path):
    (tmp_path / "lines.txt").write_text("0 0 1 1 2 2 3 1\n")
    opened = [
        InstanceFile.open(str(tmp_path / "lines.txt"), "tsp_drone", changes)
        for changes in ({}, {"alpha": 3.0}, {"allow_revisits": True})
    ]
    assert [file.assumed for file in opened] == [
        "alpha 2, allow_revisits false (of the run)",
        "allow_revisits false (of the run)",
        "alpha 2",
    ]
    assert [file.env.allow_revisits for file in opened] == [False, False, True]


MISTAKES = {
    "--instance none.json": "none.json: No such file or directory; give another file",
    "--instance island.json": "island.json: customers[3].known_from: TruckDroneBasic ignores it; play vrpd_tw",
    "--instance town.json --env.num_drones 3": "--env.num_drones: town.json says what it is; leave one",
    "--instance town.json --env.num_drone 3": "'num_drone'; did you mean 'num_drones'",
    "--instance town.json --plan plan.txt": "--plan plan.txt: the name must end in one of: .json, .csv",
    "--instance town.json --plan town.json": "--plan is 'town.json', which would take the place of",
    "--instance town.json --plan no/plan.csv": "--plan no/plan.csv: there is no folder no; make it first",
    "--instance town.json --render town.json": "--render town.json: the name must end in one of: .gif",
    "--instance town.json --actor greed": "--actor greed: there is no such player; did you mean 'greedy'",
    "--instance town.json --episodes 3": "--episodes: there is one instance, that of --instance",
    "--instance town.json --index 1": "instance 1 is chosen, but town.json holds a single instance; "
    "leave the choice out",
    "--plan plan.csv": "--plan, --actor and --index are of the problem in a file; name it with --instance",
    "--index 1": "--plan, --actor and --index are of the problem in a file; name it with --instance",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(words, run, town, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "town.json").write_bytes(town.read_bytes())
    (tmp_path / "island.json").write_bytes((MAPS / "island.json").read_bytes())
    (tmp_path / "near.json").write_text(json.dumps({**json.loads(town.read_text()), "reach": {"delivery": 1e-12}}))
    with pytest.raises(UserError) as error:
        evaluate.main(["--run", str(run), *words.split()])
    assert MISTAKES[words] in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} == {"town.json", "island.json", "near.json"}


@pytest.mark.slow
def test_networks_of_one_size_and_environments_without_files_are_one_line(programs_once, town, tmp_path):
    flat = written(tmp_path, network="mlp")
    with pytest.raises(UserError, match=r"\(mlp\) are tied to the sizes .* train with --network attention"):
        evaluate.main(["--run", str(flat), "--instance", str(town)])
    (tmp_path / "toy").mkdir()
    toy = written(tmp_path / "toy", env={"name": "toy_of_the_tests"}, network="mlp")
    with pytest.raises(UserError, match=r"^town\.json: \w+ reads no instances from files; leave it out"):
        evaluate.main(["--run", str(toy), "--instance", "town.json"])


def test_a_plan_that_cannot_be_written_takes_no_other_with_it(tmp_path, capsys):
    def write(path):
        assert not capsys.readouterr().out, "files come first"
        if path.endswith("b"):
            raise ValueError("this format cannot hold it")
        pathlib.Path(path).write_text("plan")

    paths = [str(tmp_path / name) for name in "abc"]
    with pytest.raises(UserError, match=r"^--out .*b: this format cannot hold it$"):
        write_all([Output("--out", path, write) for path in paths], "cost 3")
    assert capsys.readouterr().out == f"cost 3\nwrote {paths[0]}\nwrote {paths[2]}\n"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a", "c"]


def test_the_best_episode_by_events_is_as_long_as_its_time():
    env = jaxvrp.make(**ENV, decide="events")
    instance, actor = env.generate(jax.random.key(0)), RandomActor(env)
    play = jax.jit(functools.partial(instance_file.best_episode, env, actor, tries=1))
    episode, figures = play(instance, jax.random.key(1))
    assert figures["length"] == env.metrics(jax.tree.map(lambda leaf: leaf[-1], episode.states))["time_step"]
    assert figures["length"] > (np.asarray(episode.timesteps.duration) > 0).sum()
