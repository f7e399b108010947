"""train.replay on a small run: the episode that evaluation plays, as JSON and as a page; mistakes are one line."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp import registry, show
from jaxvrp.io.command_line import UserError
from train import play
from train import replay as command
from train.algorithms import make_train
from train.run.checkpoint import Checkpoints
from train.run.evaluator import Evaluator
from train.run.folder import RunFolder, write_configuration
from train.run.resume import RecordedRun


class Told(type(jaxvrp.make("toy_of_the_tests"))):
    """The toy under a name of its own, without a toolbox: the page shows what its states say."""


jaxvrp.register("toy_that_tells", Told)


def heights_of(episode):
    """The field `position` of all states, as the page has it."""
    (chart,) = (chart for chart in episode["story"]["charts"] if chart["title"] == "position")
    return np.float32([[value for _, value in points] for _, _, points in chart["lines"]]).T


@pytest.fixture(scope="module")
def run(tmp_path_factory, config):
    """A run folder with untrained policies of two seeds in it."""
    folder = tmp_path_factory.mktemp("run")
    settings = config(env={"name": "toy_that_tells", "cut": False}, num_seeds=2, eval_episodes=6)
    learner, recorded = make_train(settings), RecordedRun(settings, "mappo")
    write_configuration(folder, recorded)
    Checkpoints(folder / "checkpoints").save(1, learner.init(jax.random.key(0)), 0.0, recorded.values)
    return folder


def test_the_episode_is_the_one_that_evaluation_plays(run, tmp_path, capsys):
    command.main(["--run", str(run), "--instance", "2", "--out", str(tmp_path / "new" / "folder")])
    written = tmp_path / "new" / "folder" / "episode_2.json"
    episode = show.read_episode(written)
    assert written.with_suffix(".html").read_text() == show.page(episode)
    assert capsys.readouterr().out.endswith(f"wrote {written} and {written.with_suffix('.html')}\n")
    trained = RunFolder(run).load("latest")
    env, config = trained.learner.env, trained.learner.config
    actor = trained.learner.actor(jax.tree.map(lambda leaf: leaf[0], trained.params), deterministic=True)
    evaluator = Evaluator(env, config.eval_episodes, config.eval_seed)
    states = jax.device_get(jax.jit(lambda: evaluator.record(actor, 2))()).states
    length = int(states.errand.length[0])
    assert episode["summary"]["length"] == length
    heights = heights_of(episode)
    np.testing.assert_array_equal(heights, states.position[: length + 1])
    # The toy moves by 0.7 of where it was, the action and the wind: so the actions are those that led there.
    pushed = heights[1:] - np.float32(0.7) * heights[:-1] - states.errand.wind[0]
    chosen = [
        [step["action"][role][i] for role, i in (("truck", 0), ("drone", 0), ("drone", 1))]
        for step in episode["steps"][:-1]
    ]
    np.testing.assert_allclose(pushed, chosen, atol=1e-5)
    assert (
        episode["subtitle"] == f"policy of update 1, most probable actions, fixed instance 2 of seed {config.eval_seed}"
    )


@pytest.mark.slow
def test_samples_go_into_the_run_folder(run):
    command.main(["--run", str(run), "--sampled"])
    assert "sampled actions" in show.read_episode(run / "episode_0.json")["subtitle"]
    assert (run / "episode_0.html").exists()


@pytest.mark.slow
def test_play_lets_a_run_play(run, tmp_path, capsys):
    """By the same program as above: the episode on the first of the instances of a seed."""
    words = ["--actor", str(run), "--seed", "7", "--out", str(tmp_path), "--no_browser"]
    play.main(["toy_that_tells", *words, "--env.cut", "false"])
    written = tmp_path / f"toy_that_tells_{run.name}_7.json"
    episode = show.read_episode(written)
    assert episode["subtitle"] == "policy of update 1, most probable actions, fixed instance 0 of seed 7"
    assert f"in {episode['summary']['length']} steps; wrote {written}" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"--actor .* plays toy_that_tells, and not toy_of_the_tests"):
        play.main(["toy_of_the_tests", *words])


@pytest.mark.slow
def test_it_shows_how_far_it_is(run, tmp_path, capsys):
    command.main(["--run", str(run), "--instance", "2", "--out", str(tmp_path)])
    assert "2/2, 00:0" in capsys.readouterr().err, "in a log one line, at the end"


@pytest.mark.slow
def test_what_the_policy_thought_is_told(run, tmp_path):
    command.main(["--run", str(run), "--instance", "1", "--out", str(tmp_path)])
    episode, trained = show.read_episode(tmp_path / "episode_1.json"), RunFolder(run).load("latest")
    assert episode["player"] == "policy"
    for step in episode["steps"][:-1]:
        for role, rows in step["probability"].items():
            digits = np.array([[int(digit) for digit in row] for row in step["mask"][role]])
            np.testing.assert_allclose(np.sum(rows, axis=1), 1, atol=1e-3)
            assert (np.array(rows)[digits == 0] == 0).all()
            np.testing.assert_array_equal(np.argmax(rows, axis=1), step["action"][role], "the most probable is played")
    env, learner = trained.learner.env, trained.learner
    instances = Evaluator(env, learner.config.eval_episodes, learner.config.eval_seed).instances()
    _, timestep = env.reset_to(jax.tree.map(lambda leaf: leaf[1], instances))
    critic = jax.tree.map(lambda leaf: leaf[0], trained.critic)
    inputs = {"team": timestep.global_observation[None, None, None]}
    carry, reset = learner.critics.initial_carry(1), np.zeros((1, 1), bool)
    values, _ = learner.critics.apply(critic["params"], inputs, carry, reset)
    for role, value in values.items():
        expected = critic["value_norm"][role].denormalize(value[0, 0])
        np.testing.assert_allclose(episode["steps"][0]["value"][role], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_baseline_on_the_same_instance(run, tmp_path, capsys):
    command.main(["--run", str(run), "--instance", "3", "--against", "random", "--out", str(tmp_path)])
    played, other = (show.read_episode(tmp_path / f"episode_3{name}.json") for name in ("", "_random"))
    assert (played["player"], other["player"]) == ("policy", "random")
    np.testing.assert_array_equal(heights_of(played)[0], heights_of(other)[0], "they begin alike")
    assert "probability" in played["steps"][0] and "probability" not in other["steps"][0]
    assert (tmp_path / "episode_3.html").read_text() == show.page(played, other)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["policy", "random", "wrote"]


@pytest.mark.parametrize(
    ("name", "player"), [("darp", "nearest neighbour"), ("tsp_drone", "nearest neighbour"), ("truck_drone", "greedy")]
)
def test_greedy_is_the_first_baseline(name, player):
    assert registry.players_of(jaxvrp.make(name)).full_name("greedy") == player


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--against", "greedi"], "--against greedi: there is no such baseline; "),
        (["--instance", "6"], "--instance is 6, but the run has 6 fixed instances; choose one from 0 to 5"),
        (["--instance", "2", "--index", "1"], "--index is of the problem in a file; name it with --instance"),
        (["--instance", "-1"], "argument --instance: '-1' is no whole number from 0, up to 4294967295"),
        (["--instance", "day.txt"], "day.txt: Told reads no instances from files; leave it out"),
        (["--instance", "9" * 5000], "is no whole number from 0, up to 4294967295"),
        (["--speed", "2"], "unrecognized arguments: --speed 2; see python -m train.replay --help"),
        (["--out", "config.yaml"], "cannot make the folder config.yaml: File exists; choose another --out"),
    ],
)
def test_a_mistake_is_one_line(words, says, run, monkeypatch):
    monkeypatch.chdir(run)
    with pytest.raises(UserError) as error:
        command.main(["--run", ".", *words])
    assert says in str(error.value)


def test_what_the_run_is_read_from_is_not_written(run, tmp_path):
    (tmp_path / "episode_1.html").hardlink_to(run / "config.yaml")
    with pytest.raises(UserError, match=r"is '.*episode_1\.html', which would take the place of '.*config\.yaml'"):
        command.main(["--run", str(run), "--out", str(tmp_path), "--instance", "1"])


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(UserError, match="is no run folder"):
        command.main(["--run", str(tmp_path)])
