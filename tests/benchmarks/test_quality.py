"""The tables of the baselines."""

import argparse
import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.quality import darp, truck_drone
from benchmarks.quality.__main__ import main
from benchmarks.quality.darp_contest import HEAD, OVERALL, Contest, overall
from jaxvrp import registry
from jaxvrp.envs.darp.baselines.search import SearchActor
from jaxvrp.io.command_line import UserError
from train.running.loop.evaluator import Evaluator, baseline_actors


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Truck and drones at one small size, 32 episodes, from the command line."""
    out = tmp_path_factory.mktemp("quality") / "out.json"
    main(["--sizes", "1,2,3", "--battery_rate", "0.5", "--episodes", "32", "--out", str(out)])
    return json.loads(out.read_text())["tables"]["(drones, customers, nodes) = (1, 2, 3)"]


def test_greedy_beats_random_in_the_table(table):
    head, greedy, random = table
    assert head[:3] == ["player", "return", "completion_rate"] and head[-2:] == ["s/instance", "CPU s/instance"]
    assert (greedy[0], random[0]) == ("greedy", "random")
    assert float(greedy[1]) > float(random[1])
    assert float(greedy[2]) > 0.9 > float(random[2])
    assert all(float(seconds) > 0 for row in (greedy, random) for seconds in row[-2:])


@pytest.fixture
def a_run(monkeypatch):
    """`a_run(env)`: what `--run` finds is a run of that environment, given by its parameters."""

    def install(name, **parameters):
        def actor(params, deterministic):
            return "greedy choices" if deterministic else "sampled choices"

        env = jaxvrp.make(name, **parameters)
        config = argparse.Namespace(env={"name": name}, num_seeds=1)
        run = argparse.Namespace(learner=argparse.Namespace(env=env, config=config, actor=actor), params=())
        monkeypatch.setattr(truck_drone, "RunFolder", lambda *_, **__: argparse.Namespace(load=lambda _: run))

    return install


PLAYS = argparse.Namespace(
    run="somewhere", trust=False, checkpoint="latest", best_of=[4], blind=False, planner=[], planner_with_policy=False
)


def test_a_policy_decides_as_it_was_trained_and_baselines_at_every_step(a_run):
    a_run("truck_drone", num_drones=1, num_customers=2, num_route_nodes=3, battery_rate=0.7, decide="events")
    everybody = truck_drone.players((1, 2, 3), PLAYS, {})
    assert list(everybody) == ["greedy", "random", "policy", "policy, sampled", "policy, best of 4"]
    assert [env.decide for env, *_ in everybody.values()] == ["steps", "steps", "events", "events", "events"]
    assert [float(env.battery_rate) for env, *_ in everybody.values()] == pytest.approx([0.7] * 5)
    assert [player[1:] for player in list(everybody.values())[2:]] == [
        ("greedy choices", 1),
        ("sampled choices", 1),
        ("sampled choices", 4),
    ]


def test_a_run_of_another_environment_is_refused(a_run):
    a_run("darp", num_nodes=4, num_agents=1)
    with pytest.raises(UserError, match="--run somewhere is a run of another environment; give one of truck_drone"):
        truck_drone.players((1, 2, 3), PLAYS, {})


def test_a_scenario_and_its_parameters_are_named_and_a_dispatcher_may_ignore_batteries():
    plays = argparse.Namespace(**{**vars(PLAYS), "run": None, "blind": True})
    everybody = truck_drone.players((1, 2, 3), plays, {"scenario": "vrpd_tw", "dynamic_share": 0.5})
    assert list(everybody) == ["greedy", "random", "greedy, blind to batteries"]
    (env, blind, _), (same, *_) = everybody["greedy, blind to batteries"], everybody["greedy"]
    assert env is same and (type(env).__name__, env.num_customers, env.dynamic_share) == ("VrpdTw", 2, 0.5)
    assert (blind.env.battery_rate, blind.env.hover_cost) == (0.0, 0.0) and env.battery_rate > 0


@pytest.mark.parametrize(
    "words", [["--battery_rate", "-1"], ["--battery_rate", "much"], ["--episodes", "0"], ["--env", "truck_drones"]]
)
def test_a_mistake_is_one_line(words):
    with pytest.raises(UserError, match=f"{words[0]}.*{words[1]}") as error:
        main(words)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_an_environment_without_a_file_shows_the_headlines_of_its_toolbox(table, tmp_path, monkeypatch, capsys):
    """The same programs as those of `table`, so the same figures."""
    sizes = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 3}
    (tmp_path / "small_trucks.py").write_text(
        f"import jaxvrp\n\ndef make():\n    return jaxvrp.make('truck_drone', **{sizes})\n\n"
        "jaxvrp.register('small_trucks', make)\n"
    )
    monkeypatch.setattr(registry, "_ENTRIES", {kind: dict(names) for kind, names in registry._ENTRIES.items()})
    monkeypatch.syspath_prepend(tmp_path)
    main(["--env", "small_trucks:make", "--episodes", "32"])
    head, _, *players = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["return", "completion", "success"] and head.split()[-2:] == ["crashed", "steps"]
    for line, row in zip(players, table[1:], strict=True):
        name, *figures = line.split()
        assert [name, *figures[:4], figures[-1]] == row[:6]


@pytest.fixture(scope="module")
def contest():
    """Two small generated instances; nearest neighbour, the best of 40 random plays, a search."""
    env = jaxvrp.make("darp", num_nodes=6, num_agents=3)
    played = Contest(env, Evaluator(env, 2, 7).instances())
    actors = baseline_actors(env)
    played.act("nearest", actors["nearest neighbour"])
    played.act("random, best of 40", actors["random"], 40)
    played.act("search", SearchActor(env, 20))
    return played


@pytest.mark.slow
def test_plans_are_checked_replayed_and_compared(contest):
    results = contest.results
    assert all(np.isnan(contest.gap(name)) for name in results), "nothing to compare with yet"
    assert results["random, best of 40"].cost.mean() <= results["nearest"].cost.mean() + 1e-3
    for name, result in results.items():
        assert contest.num_replayed(name) == 2
        assert (result.distance <= result.cost).all() and (result.served <= 1).all()
        # Untouched by JAX: distances summed in Python.
        for i, plan in enumerate(result.actions):
            tour = contest.instances.locs[i][[0, *plan, 0]].astype(float)
            np.testing.assert_allclose(np.linalg.norm(np.diff(tour, axis=0), axis=1).sum(), result.distance[i], 1e-6)
            # A tour begins where a customer follows the depot.
            assert result.vehicles[i] == np.count_nonzero(np.diff([0, *(plan > 0)]) > 0)
    known = Contest(contest.env, contest.instances, results["nearest"].cost / 2)
    known.results.update(results)
    assert known.gap("nearest") == pytest.approx(1.0)
    assert all(len(row) == len(HEAD) for row in known.rows())


@pytest.mark.slow
def test_several_contests_are_summed_up(contest):
    known = [Contest(contest.env, contest.instances, contest.results["nearest"].distance / part) for part in (2, 4)]
    for each in known:
        each.results["nearest"] = dataclasses.replace(contest.results["nearest"], feasible=np.array([True, False]))
    (row,) = overall(known)
    assert len(row) == len(OVERALL) and row[:4] == ["nearest", "2/4", "+200.00 %", "+300.00 %"]
    for each in known:
        each.results["nearest"] = dataclasses.replace(contest.results["nearest"], feasible=np.zeros(2, bool))
    assert overall(known)[0][1:4] == ["0/4", "-", "-"]


@pytest.mark.slow
def test_instances_that_are_played_together_have_a_row_each(contest):
    known = Contest(contest.env, contest.instances, contest.results["nearest"].distance / 2)
    nearest = contest.results["nearest"]
    spoilt = dataclasses.replace(nearest, feasible=np.array([True, False]), cost=nearest.distance + np.array([0, 400]))
    known.results = {"nearest": nearest, "spoilt": spoilt}
    assert known.each_instance(["one", "two"]) == [
        ["instance", "nearest", "spoilt"],
        ["one", "+100.00 %", "+100.00 %"],
        ["two", "+100.00 %", "4 unserved"],
    ]


class Restless:
    """Visits node after node, whatever is allowed, goes to the depot after the second, and does not stop at the end."""

    ORDER = (1, 2, 0, 3, 4)

    def init(self, num_envs):
        return jnp.zeros((), jnp.int32)

    def act(self, key, carry, state, timestep):
        node = jnp.asarray(self.ORDER)[jnp.minimum(carry, len(self.ORDER) - 1)]
        return {"vehicle": jnp.broadcast_to(node, timestep.action_mask["vehicle"].shape[:2])}, carry + 1


@pytest.mark.slow
def test_what_an_actor_chooses_after_the_end_is_no_part_of_its_plan():
    """One vehicle that goes home after the first request: the second is not served."""
    env = jaxvrp.make("darp", num_nodes=4, num_agents=1, horizon=1000.0, max_pickup_deadline=500)
    contest = Contest(env, Evaluator(env, 1, 3).instances())
    contest.act("restless", Restless())
    result = contest.results["restless"]
    assert result.actions.tolist() == [[1, 2, 0, 0, 0]]
    assert result.served.tolist() == [0.5] and not result.feasible.any()
    assert contest.num_replayed("restless") == 1


@pytest.mark.slow
def test_a_damaged_plan_is_not_replayed(contest):
    plan = contest.results["nearest"]
    spoilt = np.where(plan.actions == 1, 2, plan.actions)
    other = Contest(contest.env, contest.instances)
    other.results["spoilt"] = dataclasses.replace(plan, actions=spoilt)
    assert other.num_replayed("spoilt") == 0


def test_the_first_solver_that_has_played_is_the_reference(contest):
    nearest = contest.results["nearest"]
    compared = Contest(contest.env, contest.instances)
    compared.results = {"nearest": nearest}
    assert compared.reference_name() == "" and len(compared.reference()) == 0
    compared.results["ortools"] = dataclasses.replace(nearest, cost=nearest.cost / 4)
    assert compared.reference_name() == "OR-Tools" and compared.gap("nearest") == pytest.approx(3.0)
    compared.results["pyvrp"] = dataclasses.replace(nearest, cost=nearest.cost / 2)
    assert compared.reference_name() == "PyVRP" and compared.gap("nearest") == pytest.approx(1.0)
    known = Contest(contest.env, contest.instances, nearest.cost)
    assert known.reference_name() == "the best known cost"


GENERATED = argparse.Namespace(run=None, size=(4, 2), episodes=3, seed=7, parameters={"vehicle_speed": 5.0})


def test_instances_have_the_parameters_and_the_seed_that_are_given():
    ((title, contest, run),) = darp.generated(GENERATED)
    assert (title, run) == ("3 generated instances, 4 nodes, 2 vehicles", None)
    assert contest.instances.locs.shape == (3, 5, 2) and contest.instances.vehicle_speed.tolist() == [5.0] * 3
    ((_, other, _),) = darp.generated(argparse.Namespace(**{**vars(GENERATED), "seed": 8}))
    assert (contest.instances.locs != other.instances.locs).all()


def test_samples_have_a_row_for_each_temperature():
    def actor(params, deterministic, temperature=None):
        return temperature

    learner = argparse.Namespace(config=argparse.Namespace(num_seeds=1), actor=actor)
    args = argparse.Namespace(temperature=[1.0, 2.0], best_of=8)
    contest = argparse.Namespace(act=print)
    (greedy, asked), *sampled = darp._policy(contest, argparse.Namespace(learner=learner, params=()), args).items()
    assert (greedy, asked.args) == ("policy", ("policy", None))
    assert [turn.args for _, turn in sampled] == [
        (name, temperature, 8) for (name, _), temperature in zip(sampled, [1.0, 2.0], strict=True)
    ]
    assert sampled[0][0].startswith("policy, best of 8 at temperature 1")


@pytest.mark.slow
def test_dial_a_ride_from_the_command_line(tmp_path, capsys):
    """Its own data: a hand-made file in Cordeau's format."""
    nodes = ["0 0 0 0 0 0 480", "1 3 4 1 1 0 1440", "2 -3 4 1 1 60 75", "3 6 8 1 -1 40 60", "4 -6 8 1 -1 0 1440"]
    (tmp_path / "tiny.txt").write_text("\n".join(["1 2 480 3 30", *nodes]) + "\n")
    (tmp_path / "best_known.csv").write_text("instance,optimal_cost\ntiny,36.0\n")
    out = tmp_path / "out.json"
    words = ["--instances", str(tmp_path / "tiny.txt"), "--search", "20", "--tries", "2"]
    main(["--env", "darp", *words, "--out", str(out)])
    table = json.loads(out.read_text())["tables"]["tiny"]
    assert [row[0] for row in table] == [
        "player",
        "nearest neighbour",
        "earliest deadline",
        "random",
        "search, 20 rounds",
    ]
    for row in table[4:]:
        planned = dict(zip(table[0], row, strict=True))
        # depot - 1 - 3 - 2 - 4 - depot: 5 + 5 + sqrt(97) + 5 + 10
        assert (planned["cost"], planned["feasible"], planned["replayed"]) == ("34.85", "100.0 %", "1/1")
        assert planned["vehicles"] == "1.00 (1 to 1)"
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("instance,optimal_cost\ntiny,cheap\n", "line 2: expected a number below 1000000000000 for optimal_cost"),
        ("name,cost\ntiny,3\n", "line 1: expected columns 'instance' and 'optimal_cost' or 'cost'"),
        ("instance,cost\ntiny\n", "line 2: expected the 2 fields 'instance cost', found 1"),
    ],
)
def test_a_damaged_table_of_costs_is_one_line(table, says, tmp_path):
    (tmp_path / "best_known.csv").write_text(table)
    with pytest.raises(ValueError, match=re.escape(says)):
        darp.best_known(tmp_path / "tiny.txt")


@pytest.mark.parametrize("env", [["darp", "--instances", "a.txt"], ["pcb", "--td3", "."], ["darp", "--run", "."]])
def test_what_is_read_is_not_overwritten(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("an instance")
    with pytest.raises(UserError, match=r"--out is 'a\.txt', which would take the place of '.*'; choose another --out"):
        main(["--env", *env, "--out", "./a.txt"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--env", "pcb"], "--env is given twice"),
        (["--instances", "a0-0"], "no file 'a0-0', and no a0-0.txt in"),
        (["--solvers", "gurobi"], "invalid choice: 'gurobi'"),
        (["--policy_alone"], "--policy_alone leaves nobody to play; give --run, --trained or --solvers as well"),
        (["--size", "40"], "--sizes: '40' is not nodes,vehicles"),
        (["--size", "40,8", "--instances", "a2-16"], "--size is that of generated instances"),
        (["--run", "nowhere"], "nowhere is no run folder"),
        (["--env.num_nodes", "40"], "--env.num_nodes is a size; give both: --size nodes,vehicles"),
        (["--env.vehicle_speed", "-5"], "--env: vehicle_speed"),
        (["--env.wings", "2"], "--env: "),
    ],
)
def test_a_mistake_about_darp_is_one_line(words, says):
    with pytest.raises(UserError) as error:
        main(["--env", "darp", *words])
    assert says in str(error.value)


@pytest.mark.slow
def test_plans_of_a_search_stand_beside_those_of_the_dispatcher():
    """The actions that were found are played again for the table, so a return that nobody is paid would show."""
    env = jaxvrp.make("truck_drone", num_drones=1, num_customers=2, num_route_nodes=3, max_steps=30)
    name, found = truck_drone.found_by_search(env, 2, 0.2)
    greedy = truck_drone.played_by((env, baseline_actors(env)["greedy"], 1), 2)
    assert name == "search, 0.2 s" and len(truck_drone.row(name, found)) == len(truck_drone.HEAD)
    assert found["return"][0] >= greedy["return"][0] - 1e-3


@pytest.mark.slow
def test_the_planner_is_a_row_of_the_table(capsys):
    main(["--sizes", "1,2,3", "--episodes", "2", "--env.max_steps", "20", "--planner", "4", "6"])
    rows = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert {"greedy", "random", "planner, 4 continuations", "planner, 6 continuations"} <= set(rows)


def test_a_planner_continues_with_a_policy_only_of_a_run():
    with pytest.raises(UserError, match="--planner_with_policy continues with the policy of a run; give --run"):
        main(["--planner", "4", "--planner_with_policy"])
