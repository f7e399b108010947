"""train.play: an episode of an environment by whom one likes, as a page; mistakes are one line before it plays."""

import numpy as np
import pytest

import jaxvrp
from jaxvrp import show
from jaxvrp.io.command_line import UserError
from train import play
from train.run.evaluator import Evaluator

TINY = ["darp", "--env.num_nodes", "4", "--env.num_agents", "1"]


def places(episode):
    return np.array([place["position"] for place in episode["story"]["places"]])


@pytest.fixture(scope="module")
def greedy(tmp_path_factory):
    """The folder that one call has written, and what it printed."""
    folder = tmp_path_factory.mktemp("greedy") / "new"
    play.main([*TINY, "--seed", "3", "--out", str(folder), "--no_browser"])
    return folder


@pytest.mark.slow
def test_the_page_and_the_episode(greedy):
    episode = show.read_episode(greedy / "darp_greedy_3.json")
    assert (greedy / "darp_greedy_3.html").read_text() == show.page(episode)
    assert episode["subtitle"] == "nearest neighbour, instance of seed 3"
    instance = Evaluator(jaxvrp.make("darp", num_nodes=4, num_agents=1), 1, 3).instances()
    np.testing.assert_allclose(places(episode), instance.locs[0], rtol=1e-5)
    assert episode["summary"]["return"] < 0


@pytest.mark.slow
def test_the_same_seed_is_the_same_instance(greedy, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    play.main([*TINY, "--seed", "3", "--actor", "random", "--out", str(tmp_path)])
    files = tmp_path / "darp_random_3.json", greedy / "darp_greedy_3.json"
    by_random, by_greedy = map(show.read_episode, files)
    np.testing.assert_array_equal(places(by_random), places(by_greedy))
    assert by_random["subtitle"] == "random, instance of seed 3"
    assert opened == [(tmp_path / "darp_random_3.html").as_uri()]


def test_without_a_screen_no_browser_takes_the_terminal(monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("webbrowser.open", lambda address: pytest.fail("a browser was called"))
    assert not play._open(tmp_path / "page.html")


def test_whoever_plays_without_training_has_a_name():
    assert list(play.players(jaxvrp.make("darp"))) == [
        "greedy",
        "nearest neighbour",
        "random",
        "search",
        "short search",
    ]
    assert list(play.players(jaxvrp.make("truck_drone"))) == ["greedy", "random", "planner"]
    assert list(play.players(jaxvrp.make("pcb"))) == ["random"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["dapr"], "unknown environment 'dapr'; did you mean 'darp'"),
        (["darp", "--env.num_node", "4"], "unknown parameter of 'darp': 'num_node'; did you mean 'num_nodes'"),
        (
            ["darp", "--actor", "gredy"],
            "--actor gredy: no player of darp, no run folder, no policy is called so; did you",
        ),
        (["darp", "--actor", "vrpd_tw"], "--actor vrpd_tw plays vrpd_tw, and not darp"),
        (["darp", "--seed", "-1"], "argument --seed: '-1' is no whole number from 0"),
        (["pcb", "--actor", "greedy"], "--actor greedy: no player of pcb"),
        (["darp", "--sampled"], "--sampled, --checkpoint and --trust are of a run, and 'greedy' is none; leave them"),
        (["darp", "--trust"], "--sampled, --checkpoint and --trust are of a run, and 'greedy' is none; leave them"),
        (["darp", "--env.name", "pcb"], "--env.name: the command names the environment otherwise; leave it out"),
        ([*TINY, "--out", "ride.html"], "--out ride.html: give a folder; page and episode have names of their own"),
        ([*TINY, "--out", "taken"], "cannot make the folder taken: File exists; choose another --out"),
    ],
)
def test_a_mistake_is_one_line(words, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr(play, "play", lambda *_: pytest.fail("it has played"))
    with pytest.raises(UserError) as error:
        play.main(words)
    assert says in str(error.value)


def test_a_folder_that_is_not_there_is_said_before_anything_is_played(monkeypatch, tmp_path, capsys):
    def played(*_):
        said = f"--out {tmp_path / 'new'}: there is no such folder yet; making it\n"
        assert capsys.readouterr().err.startswith(said)
        raise UserError("it has played")

    monkeypatch.setattr(play, "play", played)
    with pytest.raises(UserError, match="it has played"):
        play.main([*TINY, "--out", str(tmp_path / "new")])


def test_what_evaluation_changes_can_be_typed():
    assert play._made("pcb", {}).max_steps == 600
    assert play._made("pcb", {"max_steps": 7}).max_steps == 7
