"""Several seeds of a training as one row: means, intervals, which runs there are, and the picture of the table."""

import argparse
import itertools
import os
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.quality import darp, plot, truck_drone
from benchmarks.quality.__main__ import main
from benchmarks.quality.darp_contest import Contest, overall
from benchmarks.quality.seeds import Estimate, by_seed, cell, check_seeds, kept_runs
from jaxvrp.io.command_line import UserError
from train.on_policy.config import PPOConfig
from train.running.loop.evaluator import Evaluator, baseline_actors

T_OF_3 = 4.302653
"""Two-sided 95 % quantile of Student's t with two degrees of freedom, from a printed table."""


def test_the_interval_is_students():
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert estimate.mean == pytest.approx(2.0)
    assert estimate.half == pytest.approx(T_OF_3 / np.sqrt(3), rel=1e-6)
    assert Estimate.of([4.0, 4.0]).half == 0.0


def test_a_single_value_has_no_interval():
    assert np.isnan(Estimate.of([5.0]).half)
    assert cell([5.0], ".2f") == "5.00" and cell([0.5], "+.1f", percent=True) == "+50.0 %"


def test_a_cell_holds_mean_and_interval_in_the_same_digits():
    assert cell([1.0, 2.0, 3.0], ".2f") == "2.00 ± 2.48"
    assert cell([0.01, 0.02, 0.03], "+.1f", percent=True) == "+2.0 ± 2.5 %"


def test_runs_are_found_by_name_in_the_order_they_were_begun(tmp_path):
    for name in ("second", "first, of all"):
        (tmp_path / name).mkdir()
    (tmp_path / "first, of all" / "config.yaml").write_text("")
    (tmp_path / "no run").mkdir()
    later = tmp_path / "second" / "config.yaml"
    later.write_text("")
    os.utime(later, (2e9, 2e9))
    assert list(kept_runs(tmp_path)) == ["first, of all", "second"]
    assert list(kept_runs(tmp_path, ["second"])) == ["second"]
    with pytest.raises(UserError, match="holds no run 'third'; choose among: first, of all, second"):
        kept_runs(tmp_path, ["second", "third"])
    with pytest.raises(UserError, match=r"no run in it; train some: python -m benchmarks\.ablation --runs"):
        kept_runs(tmp_path / "no run")


class Either:
    """Nearest neighbour with parameter 0, the earliest deadline with 1."""

    def __init__(self, env, which):
        baselines = baseline_actors(env)
        self.actors, self.which = (baselines["nearest neighbour"], baselines["earliest deadline"]), which

    def init(self, num_envs):
        return ()

    def act(self, key, carry, state, timestep):
        choices = [actor.act(key, (), state, timestep)[0]["vehicle"] for actor in self.actors]
        return {"vehicle": jnp.where(self.which == 0, *choices)}, carry


@pytest.fixture(scope="module")
def contest():
    """Two instances of three requests; both heuristics, and a "run" whose two seeds are these."""
    env = jaxvrp.make("darp", num_nodes=6, num_agents=3)
    played = Contest(env, Evaluator(env, 2, 7).instances())
    for name in ("nearest neighbour", "earliest deadline"):
        played.act(name, baseline_actors(env)[name])
    learner = types.SimpleNamespace(
        env=env, config=argparse.Namespace(num_seeds=2), actor=lambda params, **_: Either(env, params["which"])
    )
    played.learned("learned", types.SimpleNamespace(learner=learner, params={"which": jnp.arange(2)}))
    return played


@pytest.mark.slow
def test_every_seed_plays_and_the_row_is_their_mean(contest):
    results = contest.results
    for seed, name in enumerate(("nearest neighbour", "earliest deadline")):
        np.testing.assert_array_equal(results[f"learned, seed {seed}"].actions, results[name].actions)
    assert list(contest.players()) == ["nearest neighbour", "earliest deadline", "learned"]
    row = contest.rows()[-1]
    costs = [results[name].cost.mean() for name in ("nearest neighbour", "earliest deadline")]
    assert row[0] == "learned" and row[2] == cell(costs, ".2f") and row[2].startswith(f"{np.mean(costs):.2f} ± ")
    assert row[-1] == "4/4"


@pytest.mark.slow
def test_seeds_that_are_runs_of_their_own_make_a_row_together(contest):
    """As the run whose two seeds they are, in the tables of one contest and of several."""
    pooled = Contest(contest.env, contest.instances, contest.results["nearest neighbour"].distance)
    pooled.results = {name: contest.results[name] for name in ("nearest neighbour", "earliest deadline")}
    pooled.pool("all 2 seeds", list(pooled.results))
    one, other, both = (pooled.figures()[name]["cost"] for name in (*pooled.results, "all 2 seeds"))
    assert both == [*one, *other] and pooled.rows()[-1][2] == contest.rows()[-1][2]
    shares = [row[:2] for row in overall([pooled, pooled])]
    counts = [2 * result.feasible.sum() for result in pooled.results.values()]
    assert shares == [
        ["nearest neighbour", f"{counts[0]}/4"],
        ["earliest deadline", f"{counts[1]}/4"],
        ["all 2 seeds", f"{sum(counts)}/8"],
    ]


@pytest.mark.slow
def test_the_best_of_several_tries_of_a_learned_player(contest):
    env = contest.env
    nearest = baseline_actors(env)["nearest neighbour"]
    learner = types.SimpleNamespace(env=env, config=argparse.Namespace(num_seeds=1), actor=lambda *_, **__: nearest)
    played = Contest(env, contest.instances)
    played.act("nearest", nearest, 4)
    run = types.SimpleNamespace(learner=learner, params=jnp.zeros(()))
    played.learned("learned", run, 4, temperature=1.0)
    np.testing.assert_array_equal(played.results["learned"].actions, played.results["nearest"].actions)


@pytest.mark.parametrize(("asked", "who"), [(None, set()), ([], {"a", "b"}), (["b"], {"b"})])
def test_who_samples(asked, who):
    assert darp._sampled(argparse.Namespace(sampled=asked), {"a": None, "b": None}) == who


def test_a_run_that_does_not_play_cannot_sample():
    with pytest.raises(UserError, match="--sampled: no run 'c' plays; choose among: a, b"):
        darp._sampled(argparse.Namespace(sampled=["a", "c"]), ["a", "b"])


def test_all_runs_are_pooled_where_all_have_sampled(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("")
    args = argparse.Namespace(trained=tmp_path, only=None, temperature=[1.0], best_of=8, sampled=["a"])
    pools = {}
    asked = argparse.Namespace(pool=pools.__setitem__)
    darp._pool(asked, args)
    assert {name: sorted(members) for name, members in pools.items()} == {"all 2 seeds": ["a", "b"]}
    args.sampled = ["b", "a"]
    darp._pool(asked, args)
    assert set(pools) == {"all 2 seeds", "all 2 seeds, best of 8 at temperature 1"}
    assert sorted(pools["all 2 seeds, best of 8 at temperature 1"]) == [
        f"{name}, best of 8 at temperature 1" for name in ("a", "b")
    ]


def test_the_figures_of_all_seeds_are_kept(contest):
    figures = contest.figures()
    assert [len(found["cost"]) for found in figures.values()] == [1, 1, 2]
    one, other, both = (found["cost"] for found in figures.values())
    assert both == [*one, *other]


def test_every_player_is_in_the_picture(contest, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "save_still", lambda figure, path, **_: drawn.append(figure))
    points = [plot.Point(name, found["cost"], 1e-3) for name, found in contest.figures().items()]
    plot.draw(points, "cost", "two instances", tmp_path / "table.png")
    quality, _ = drawn[0].axes
    assert [label.get_text() for label in quality.get_yticklabels()] == list(contest.players())
    spread = next(bars for bars in quality.containers if bars.has_xerr and bars.lines[2])
    ((low, _), (high, _)) = spread.lines[2][0].get_segments()[0]
    estimate = Estimate.of(contest.figures()["learned"]["cost"])
    assert (low, high) == pytest.approx((estimate.mean - estimate.half, estimate.mean + estimate.half))


@pytest.mark.parametrize("seconds", [(1e-3,), (4.2e-4, 5.6e-3), (2e-3, 3e-3), (1e-5, 4e-4, 11.0)])
def test_labels_of_seconds_do_not_overlap(seconds, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "save_still", lambda figure, path, **_: drawn.append(figure))
    points = [plot.Point(f"player {place}", [1.0, 2.0], each) for place, each in enumerate(seconds)]
    plot.draw(points, "return", "two instances", tmp_path / "table.png")
    (figure,) = drawn
    axis = figure.axes[1]
    figure.draw_without_rendering()
    low, high = axis.get_xlim()
    assert low < min(seconds) and max(seconds) < high
    ticks = [*axis.xaxis.get_major_ticks(), *axis.xaxis.get_minor_ticks()]
    shown = [tick.label1 for tick in ticks if tick.label1.get_visible() and low <= tick.get_loc() <= high]
    boxes = sorted((label.get_window_extent() for label in shown if label.get_text()), key=lambda box: box.x0)
    assert len(boxes) >= 2 and all(box.x1 < after.x0 for box, after in itertools.pairwise(boxes))


def test_the_budgets_of_a_method_are_joined(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "save_still", lambda figure, path, **_: drawn.append(figure))
    figures = {
        "greedy": (1.0, 0.1),
        "search, 10 s": (4.0, 9.0),
        "search, 1 s": (3.0, 0.9),
        "policy, sampled": (2.0, 0.2),
    }
    points = [plot.Point(name, [value], seconds) for name, (value, seconds) in figures.items()]
    plot.draw_curve(points, truck_drone.method_of, "return", "two instances", tmp_path / "curve.png")
    lines = {line.get_label(): line.get_xydata().tolist() for line in drawn[0].axes[0].lines}
    assert lines == {"greedy": [[0.1, 1]], "search": [[0.9, 3], [9, 4]], "policy, sampled": [[0.2, 2]]}


def test_parameters_of_each_seed():
    several = types.SimpleNamespace(config=argparse.Namespace(num_seeds=2))
    assert [jax.device_get(each["w"]).tolist() for each in by_seed(several, {"w": jnp.arange(4).reshape(2, 2)})] == [
        [0, 1],
        [2, 3],
    ]
    assert by_seed(types.SimpleNamespace(config=argparse.Namespace(num_seeds=1)), "all") == ["all"]


def test_networks_that_are_tied_to_another_size_are_left_out(tmp_path, monkeypatch):
    for name in ("MLP", "attention"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("")

    def read(folder, changes, trust):
        network = "mlp" if folder.name == "MLP" else "attention"
        recorded = argparse.Namespace(config=argparse.Namespace(env={"num_customers": 3}))
        config = argparse.Namespace(env={"name": "truck_drone"}, network=network)
        return types.SimpleNamespace(
            recorded=recorded, player=argparse.Namespace(config=config), load=lambda _: folder.name
        )

    monkeypatch.setattr(truck_drone, "RunFolder", read)
    monkeypatch.setattr(truck_drone, "played_by_seeds", lambda run, episodes: {"return": [1.0], "of": run})
    args = argparse.Namespace(trained=tmp_path, only=None, pooled=False, trust=False, checkpoint="latest", episodes=2)
    assert truck_drone.trained((1, 2, 3), args, {}) == {"attention": {"return": [1.0], "of": "attention"}}


def test_runs_of_one_training_make_a_row_together(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("")

    def read(folder, changes, trust):
        config = PPOConfig(network="attention", seed=len(folder.name))
        recorded = argparse.Namespace(config=config)
        return types.SimpleNamespace(recorded=recorded, player=recorded, load=lambda _: folder.name)

    monkeypatch.setattr(truck_drone, "RunFolder", read)
    monkeypatch.setattr(truck_drone, "played_by_seeds", lambda run, _: {"return": [float(len(run))], "seconds": [1.0]})
    args = argparse.Namespace(trained=tmp_path, only=None, pooled=True, trust=False, checkpoint="latest", episodes=2)
    found = truck_drone.trained((1, 2, 3), args, {})
    assert set(found) == {"first", "second", "all 2 seeds"}
    assert sorted(found["all 2 seeds"]["return"]) == [5.0, 6.0] and found["all 2 seeds"]["seconds"] == [1.0, 1.0]


def test_only_the_seed_differs_among_the_seeds_of_a_training():
    trainings = {"a": PPOConfig(), "b": PPOConfig(seed=1, logger=[], pictures=False)}
    check_seeds(trainings)
    check_seeds({"a": PPOConfig(start_from="runs/a"), "b": PPOConfig(seed=1, start_from="runs/b")})
    with pytest.raises(UserError, match="'a' and 'c' differ in actor_lr; only the seed may differ"):
        check_seeds({**trainings, "c": PPOConfig(seed=2, actor_lr=0.5)})
    with pytest.raises(UserError, match="'b' and 'c' have the same seed, 1"):
        check_seeds({**trainings, "c": PPOConfig(seed=1)})
    with pytest.raises(UserError, match="--trained holds 1 of its seeds; at least 2 are needed"):
        check_seeds({"a": PPOConfig()})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--pooled"], "--pooled is about the runs of --trained; give that as well"),
        (["--env", "darp", "--pooled"], "--pooled is about the runs of --trained; give that as well"),
        (["--env", "darp", "--sampled", "a"], "--sampled is about the runs of --trained; give that as well"),
        (["--env", "darp", "--plot", "table.gif"], "--plot is 'table.gif'; it must end in"),
        (
            ["--sizes", "1,2,3", "2,3,5", "--plot", "table.png"],
            "--plot shows one table; give one of --sizes, and one --battery_rate",
        ),
        (["--sizes", "1,2,3", "--curve", "curve.gif"], "--curve is 'curve.gif'; it must end in"),
    ],
)
def test_a_mistake_is_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        main(words)
    assert "\n" not in str(error.value)
