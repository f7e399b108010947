"""The tables of quality: who plays, when each player decides, how plans are judged, what a mistake says."""

import argparse
import json
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.measuring.measure import Seconds
from benchmarks.quality import contest, darp, truck_drone
from benchmarks.quality.__main__ import main
from benchmarks.quality.contest import best_of, cell, gap
from benchmarks.quality.darp import HEAD, Contest
from jaxvrp.envs.darp.baselines.search import SearchActor
from jaxvrp.io.command_line import UserError
from jaxvrp.registry import players_of
from train import Evaluator, baseline_actors
from train.on_policy.config import PPOConfig

T_OF_3 = 4.302653
"""Two-sided 95 % quantile of Student's t with two degrees of freedom, from a printed table."""


def test_a_cell_holds_the_mean_over_seeds_and_students_interval():
    assert cell([1.0, 2.0, 3.0], ".4f") == f"2.0000 ± {T_OF_3 / np.sqrt(3):.4f}"
    assert cell([5.0], ".2f") == "5.00" and cell([4.0, 4.0], ".1f") == "4.0 ± 0.0"


def test_a_gap_is_that_of_the_sums():
    assert gap(np.array([3.0, 3.0]), np.array([2.0, 1.0])) == "+100.00 %" and gap(np.ones(2), None) == "-"


def test_the_best_of_several_tries_is_that_of_the_least_cost_by_name_and_instance():
    costs = {"a": [[3.0, 1.0], [2.0, 4.0], [5.0, 1.0]], "b": [[1.0, 9.0], [2.0, 8.0], [3.0, 7.0]]}
    tries = {name: jnp.array(each) for name, each in costs.items()}
    best = best_of(
        lambda number, key: {name: (cost[number], jnp.full(2, number)) for name, cost in tries.items()},
        jax.random.key(0),
        3,
    )
    assert {name: (cost.tolist(), plan.tolist()) for name, (cost, plan) in best.items()} == {
        "a": ([2.0, 1.0], [1, 0]),  # of two that are alike the earlier
        "b": ([1.0, 7.0], [0, 2]),
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Truck and drones at one small size, 32 episodes, from the command line."""
    out = tmp_path_factory.mktemp("quality") / "out.json"
    main(["--sizes", "1,2,3", "--env.max_steps", "40", "--episodes", "32", "--out", str(out)])
    return json.loads(out.read_text())["tables"]["(drones, customers, nodes) = (1, 2, 3)"]


def test_greedy_beats_random_in_the_table(table):
    head, greedy, random = table
    assert head[:4] == ["player", "decides by", "return", "completion_rate"]
    assert head[-2:] == ["s/instance", "CPU s/instance"]
    assert (greedy[0], random[0]) == ("greedy", "random")
    assert float(greedy[2]) > float(random[2]) and float(greedy[3]) > float(random[3])
    assert all(float(seconds) > 0 for row in (greedy, random) for seconds in row[-2:])


@pytest.mark.slow
def test_a_baseline_is_shown_in_its_strongest_form(table):
    """By an episode of each form, played here; and `train.evaluate` tells the same."""
    sizes = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 3, "max_steps": 40}
    env = jaxvrp.make("truck_drone", **sizes)
    forms = players_of(env).forms(env)
    assert [form.decide for form in forms] == ["steps", "events"]
    returns = {}
    for form in forms:
        evaluator, actor = Evaluator(form, 32, contest.SEED), baseline_actors(form)["greedy"]
        returns[form.decide] = float(
            jax.jit(lambda evaluator=evaluator, actor=actor: evaluator.play(actor))()["return"]
        )
    best = max(returns, key=returns.get)
    assert table[1][1:3] == [best, f"{returns[best]:.3f}"]
    figures = Evaluator(env, 32, contest.SEED).baselines()
    assert [f"{figures[name]['return']:.3f}" for name in ("greedy", "random")] == [row[2] for row in table[1:]]


def a_run(name, seed=0, **parameters):
    """A run of that environment, given by its parameters; its policy is the dispatcher, or random play."""
    env = jaxvrp.make(name, **parameters)
    config = argparse.Namespace(env={"name": name}, num_seeds=1, seed=seed)

    def actor(params, deterministic, temperature=None):
        return baseline_actors(env)["greedy" if deterministic else "random"]

    return types.SimpleNamespace(learner=types.SimpleNamespace(env=env, config=config, actor=actor), params=())


PLAYS = argparse.Namespace(best_of=[4], blind=False, planner=[], search_seconds=[], episodes=2)
SMALL = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 3, "max_steps": 20}


def test_who_plays():
    run, other = (a_run("truck_drone", seed=seed, **SMALL, decide="events") for seed in (3, 5))
    env = run.learner.env
    assert list(truck_drone.players(env, [], PLAYS)) == ["greedy", "random"]
    alone = ["greedy", "random", "policy", "policy, sampled", "policy, best of 4"]
    assert list(truck_drone.players(env, [run], PLAYS)) == alone
    assert list(truck_drone.players(env, [run, other], PLAYS)) == ["greedy", "random", "seed 3", "seed 5"]
    more = argparse.Namespace(**{**vars(PLAYS), "blind": True, "planner": [4], "search_seconds": [0.5]})
    assert list(truck_drone.players(env, [], more))[2:] == [
        "greedy, blind to batteries",
        "planner, 4 continuations",
        "search, 0.5 s",
    ]


@pytest.mark.slow
def test_a_policy_decides_as_it_was_trained():
    run = a_run("truck_drone", **SMALL, decide="events", max_repeat=5)
    turns = truck_drone.players(run.learner.env, [run], PLAYS)
    assert turns["policy"]().decides == "events"
    assert turns["greedy"]().figures["return"] >= turns["policy"]().figures["return"] - 1e-4


def test_a_row_of_several_seeds_has_their_means():
    seeds = [
        truck_drone.Played("events", dict.fromkeys(truck_drone.FIGURES, value), Seconds(value, 2 * value))
        for value in (1.0, 2.0, 3.0)
    ]
    row = truck_drone.row("all 3 seeds", seeds)
    assert len(row) == len(truck_drone.HEAD)
    assert row[:3] == ["all 3 seeds", "events", "2.000 ± 2.484"] and row[-2:] == ["2", "4"]


def test_only_the_seed_differs_among_the_seeds_of_a_training():
    trainings = {"a": PPOConfig(), "b": PPOConfig(seed=1, logger=[], pictures=False)}
    truck_drone.check_seeds(trainings)
    with pytest.raises(UserError, match="'a' and 'c' differ in actor_lr; only the seed may differ"):
        truck_drone.check_seeds({**trainings, "c": PPOConfig(seed=2, actor_lr=0.5)})
    with pytest.raises(UserError, match="'b' and 'c' have the same seed, 1"):
        truck_drone.check_seeds({**trainings, "c": PPOConfig(seed=1)})


@pytest.mark.parametrize("env", ["truck_drone", "tsp_drone"])
def test_a_run_of_another_environment_is_refused(env, monkeypatch):
    run = a_run("darp", num_nodes=4, num_agents=1)
    monkeypatch.setattr(contest, "RunFolder", lambda *_, **__: argparse.Namespace(load=lambda _: run))
    with pytest.raises(UserError, match=f"--run nowhere is a run of another environment; give one of {env}"):
        main(["--env", env, "--run", "nowhere"])


@pytest.mark.slow
def test_an_environment_without_a_file_shows_the_headlines_of_its_toolbox(
    table, registered_apart, tmp_path, monkeypatch, capsys
):
    """The same programs as those of `table`, so the same figures."""
    (tmp_path / "small_trucks.py").write_text(
        f"import jaxvrp\n\ndef make():\n    return jaxvrp.make('truck_drone', **{SMALL | {'max_steps': 40}})\n\n"
        "jaxvrp.register('small_trucks', make)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    main(["--env", "small_trucks:make", "--episodes", "32"])
    head, _, *players = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["return", "completion", "success"] and head.split()[-2:] == ["crashed", "steps"]
    for line, row in zip(players, table[1:], strict=True):
        name, *figures = line.split()
        # Simulation steps, however often agents decide.
        assert [name, *figures[:4], figures[-1]] == [row[0], *row[2:7]]


@pytest.fixture(scope="module")
def darp_contest():
    """Two small generated instances; nearest neighbour, the best of 40 random plays, a search: their plans."""
    env = jaxvrp.make("darp", num_nodes=6, num_agents=3)
    field = Contest(env, Evaluator(env, 2, 7).instances())
    actors = baseline_actors(env)
    results = {"nearest": field.act(actors["nearest neighbour"])}
    results["random, best of 40"] = field.act(actors["random"], 40)
    results["search"] = field.act(SearchActor(env, 20))
    return field, results


@pytest.mark.slow
def test_plans_are_checked_replayed_and_compared(darp_contest):
    field, results = darp_contest
    costs = {name: field.cost(plans) for name, (_, plans) in results.items()}
    assert costs["random, best of 40"].mean() <= costs["nearest"].mean() + 1e-3
    rows = {row[0]: row for row in field.standings("two", results).rows[1:]}
    for name, (actions, plans) in results.items():
        assert field.num_replayed(actions, plans) == 2
        assert (plans.cost <= costs[name]).all()
        # Untouched by JAX: distances summed in Python.
        for i, plan in enumerate(actions):
            tour = field.instances.locs[i][[0, *plan, 0]].astype(float)
            np.testing.assert_allclose(np.linalg.norm(np.diff(tour, axis=0), axis=1).sum(), plans.cost[i], 1e-6)
        # A tour begins where a customer follows the depot.
        fleets = [np.count_nonzero(np.diff([0, *(plan > 0)]) > 0) for plan in actions]
        assert rows[name][6] == f"{np.mean(fleets):.2f} ({min(fleets)} to {max(fleets)})"
        assert len(rows[name]) == len(HEAD) and rows[name][3] == "-", "nothing to compare with"
    known = Contest(field.env, field.instances, costs["nearest"] / 2)
    assert known.standings("two", results).rows[1][3] == "+100.00 %"


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
    field = Contest(env, Evaluator(env, 1, 3).instances())
    actions, plans = field.act(Restless())
    assert actions.tolist() == [[1, 2, 0, 0, 0]]
    (row,) = field.standings("one", {"restless": (actions, plans)}).rows[1:]
    assert (row[4], row[5], row[-1]) == ("0.0 %", "50.00 %", "1/1")


@pytest.mark.slow
def test_a_damaged_plan_is_not_replayed(darp_contest):
    field, results = darp_contest
    actions, plans = results["nearest"]
    assert field.num_replayed(np.where(actions == 1, 2, actions), plans) == 0


@pytest.mark.slow
def test_the_first_solver_that_has_played_is_the_reference(darp_contest):
    field, results = darp_contest
    played = {"nearest": results["nearest"]}
    assert field.standings("two", played).reference == "nothing: no solver has played"
    played["ortools"] = results["search"]
    assert field.standings("two", played).reference == "OR-Tools"
    shown = field.standings("two", played | {"pyvrp": results["nearest"]})
    assert shown.reference == "PyVRP" and shown.rows[1][3] == "+0.00 %"
    known = Contest(field.env, field.instances, field.cost(results["nearest"][1]))
    assert known.standings("two", played).reference == "the best known cost"


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
    players = ["player", "nearest neighbour", "random", "search, 20 rounds"]
    assert [row[0] for row in table] == players
    for row in table[3:]:
        planned = dict(zip(table[0], row, strict=True))
        # depot - 1 - 3 - 2 - 4 - depot: 5 + 5 + sqrt(97) + 5 + 10
        assert (planned["cost"], planned["feasible"], planned["replayed"]) == ("34.85", "100.0 %", "1/1")
        assert planned["vehicles"] == "1.00 (1 to 1)"
    printed = capsys.readouterr().out
    assert "gap: summed cost against the best known cost" in printed and "wrote" in printed


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


@pytest.mark.slow
def test_plans_of_a_search_stand_beside_those_of_the_dispatcher():
    """The actions that were found are played again for the table, so a return that nobody is paid would show."""
    env = jaxvrp.make("truck_drone", num_drones=1, num_customers=2, num_route_nodes=3, max_steps=30)
    found = truck_drone.found_by_search(env, 2, 0.2)
    greedy = truck_drone.strongest([env], lambda form: baseline_actors(form)["greedy"], 2)
    assert found.figures["return"] >= greedy.figures["return"] - 1e-3


@pytest.mark.slow
def test_the_planner_is_a_row_of_the_table(capsys):
    main(["--sizes", "1,2,3", "--episodes", "2", "--env.max_steps", "20", "--planner", "4"])
    rows = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert {"greedy", "random", "planner, 4 continuations"} <= set(rows)
