"""The episode format: what is exported is what was played, files come back as they were, and damage is one line."""

import itertools
import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from jaxvrp import registry, show
from jaxvrp.envs.darp import actions_to_routes, solution_report
from jaxvrp.envs.darp.plan import actions_of
from jaxvrp.episodes import from_states
from jaxvrp.show.__main__ import main
from jaxvrp.show.common import as_json
from jaxvrp.show.episode_format import to_json
from tests.jaxvrp.show.stories import assert_refused
from tests.refusals import changed


def column(episode, *path):
    """One entry of every step, as an array."""

    def dig(value):
        for name in path:
            value = value[name]
        return value

    return np.array([dig(step) for step in episode["steps"]])


# --- what is exported -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["truck_drone", "darp", "dispatch", "tsp_drone"])
def test_masks_actions_and_rewards_are_those_of_the_environment(kind, request, episodes):
    env, _, actions, timesteps = request.getfixturevalue(
        {"truck_drone": "deliveries", "darp": "rides", "dispatch": "answers", "tsp_drone": "sorties"}[kind]
    )
    episode = episodes[kind]
    steps, last = episode["steps"], len(episode["steps"]) - 1
    for role in env.roles:
        for at, step in enumerate(steps):
            allowed = [[digit == "1" for digit in row] for row in step["mask"][role]]
            there = slice(len(allowed))  # padding is not told
            assert allowed == timesteps.action_mask[role][at][there].tolist()
            assert at == last or step["action"][role] == actions[role][at][there].tolist()
            np.testing.assert_allclose(step["reward"][role], timesteps.reward[role][at][there], rtol=1e-6)
        assert len(episode["actions"][role]) == env.roles[role].action.num_actions
    assert steps[last]["action"] is None
    total = np.concatenate([timesteps.reward[role] for role in env.roles], axis=1).mean(axis=1).sum()
    assert episode["summary"]["return"] == pytest.approx(total, rel=1e-5)
    assert episode["summary"]["length"] == last


def test_vehicles_drive_what_the_plan_says(rides, episodes):
    _, states, _, _ = rides
    story = episodes["darp"]["story"]
    driven = sum(
        np.linalg.norm(np.diff([place for _, place in vehicle["track"]], axis=0), axis=1).sum()
        for vehicle in story["vehicles"]
    )
    assert driven == pytest.approx(float(states.total_distance[-1]), rel=1e-5)
    routes = [route for route in actions_to_routes(actions_of(states)) if route]
    assert len(routes) == len(story["vehicles"])
    report = solution_report(jax.tree.map(lambda leaf: leaf[0], states.instance), actions_of(states))
    for route, vehicle in zip(routes, story["vehicles"], strict=True):
        turns = dict(vehicle["turns"])
        for node in route:
            step = np.flatnonzero(states.current_node[1:] == node)[0]
            assert report.service_start[node] in [pytest.approx(time, rel=1e-6) for time, _ in vehicle["track"]]
            assert step in turns and states.current_agent[step] == int(vehicle["name"].removeprefix("vehicle "))


def test_padding_is_not_told(episodes):
    story = episodes["darp"]["story"]
    assert [place["name"] for place in story["places"][1::2]] == [f"pickup {request}" for request in (1, 2, 3, 4)]
    assert [vehicle["capacity"] for vehicle in story["vehicles"]] == [3], "who stays at the depot is not told"
    last = story["vehicles"][-1]
    assert last["track"][-1][1] == story["places"][0]["position"], "the last vehicle comes home"
    assert last["turns"][-1][0] == len(episodes["darp"]["steps"]) - 1, "as part of the step that brings the last one"


def test_truck_and_drone_go_where_the_states_say(sorties, episodes):
    env, states, _, _ = sorties
    episode, story = episodes["tsp_drone"], episodes["tsp_drone"]["story"]
    assert show.export_episode(from_states(env, states))["steps"] == episode["steps"]
    assert len(story["places"]) == 6, "padding is not told"
    driven, carried = (
        sum(np.linalg.norm(np.subtract(end, start)) for (_, start), (_, end) in itertools.pairwise(vehicle["track"]))
        for vehicle in story["vehicles"]
    )
    totals = states.totals
    assert driven == pytest.approx(float(totals.truck_distance[-1]), rel=1e-5)
    aboard = {(bar["begin"], bar["end"]) for bar in story["charts"][0]["rows"][1]["bars"] if bar["look"] == "aboard"}
    track = story["vehicles"][1]["track"]
    flown = sum(
        np.linalg.norm(np.subtract(end, start))
        for (since, start), (until, end) in itertools.pairwise(track)
        if (since, until) not in aboard
    )
    assert flown == pytest.approx(float(totals.drone_flight[-1]), rel=1e-5) and flown <= carried
    for vehicle, row in zip(("truck", "drone"), story["charts"][0]["rows"], strict=True):
        waited = sum(bar["end"] - bar["begin"] for bar in row["bars"] if bar["look"] == "waits")
        assert waited == pytest.approx(float(getattr(totals, f"waiting_{vehicle}")[-1]), abs=1e-4)
    assert story["span"][1] == pytest.approx(float(states.clock[-1]), rel=1e-6)
    assert story["clocks"][-1] == pytest.approx(story["span"][1]) and story["clocks"] == sorted(story["clocks"])
    by_drone = [place["standings"][-1]["vehicle"] for place in story["places"][1:]].count(1)
    assert by_drone == int(totals.served_by_drone[-1]) > 0


@pytest.mark.slow
def test_parts_are_where_they_were(placements):
    env, states, actions, timesteps = placements
    episode = show.export_episode(from_states(env, states, actions))
    steps = episode["steps"]
    show.check(episode)
    assert len(steps) == 7
    assert episode["agents"] == [{"name": "component_0", "role": "component", "component": 1}], "the second row is void"
    assert [part["name"] for part in episode["components"]] == ["", "0"]
    assert episode["pins"] == [
        {"component": part, "offset": offset, "net": net}
        for part, offset, net in ((0, [1.0, 0.0], 0), (0, [-1.0, 0.0], 1), (1, [0.5, 0.0], 0))
    ]
    assert episode["nets"] == [{"rail": 0}, {"rail": 1}]
    np.testing.assert_array_equal(np.float32(column(episode, "positions")), states.position[:, :2])
    np.testing.assert_array_equal(column(episode, "orientations"), states.orientation[:, :2])
    np.testing.assert_array_equal(np.float32(column(episode, "hpwl")), states.board_hpwl)
    np.testing.assert_array_equal(np.float32(column(episode, "overlap")), states.overlap[:, :2])
    given = [step["action"]["component"] for step in steps[:-1]]
    np.testing.assert_array_equal(np.float32(given), actions["component"][:, :1])
    earned = [step["reward"]["component"] for step in steps]
    np.testing.assert_allclose(earned, timesteps.reward["component"][:, :1], rtol=1e-5)
    assert episode["summary"]["return"] == pytest.approx(float(np.sum(earned)), rel=1e-5)


def test_an_environment_of_ones_own_has_episodes_and_a_page(own_kind, tmp_path, capsys):
    env, states, actions, timesteps = own_kind
    episode = show.export_episode(from_states(env, states, actions))
    assert episode["agents"] == [{"name": name, "role": name[:-2]} for name in ("mover_0", "caller_0")], (
        "one row is void"
    )
    assert episode["actions"] == {"mover": None, "caller": ["WAIT", "CALL", "SHOUT"]}
    assert len(episode["steps"]) == 4, "an instance of three steps"
    assert [step["mask"] for step in episode["steps"]] == [{"caller": [row]} for row in ("111", "101", "111", "101")]
    np.testing.assert_array_equal(np.float32(column(episode, "places")), states.position[:4])
    moves = [step["action"]["mover"][0] for step in episode["steps"][:-1]]
    np.testing.assert_array_equal(np.float32(moves), actions["mover"][:3, 0])
    np.testing.assert_allclose(column(episode, "reward", "mover")[:, 0], timesteps.reward["mover"][:4, 0], rtol=1e-5)
    show.save(from_states(env, states, actions), tmp_path / "own.json")
    assert main([str(tmp_path / "own.json")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'own.html'}\n"
    text = (tmp_path / "own.html").read_text()
    assert "VIEWS.reach = " in text and ".goal { fill: rgb(1, 2, 3); }" in text and "VIEWS.truck_drone" not in text
    del episode["steps"][2]["places"]
    with pytest.raises(ValueError, match=r"^steps\[2\]\.places is missing"):
        show.write_page(episode, tmp_path / "bad.html")
    show.save(from_states(env, states), tmp_path / "own.gif")
    assert (tmp_path / "own.gif").read_bytes().startswith(b"GIF")


def test_numbers_are_the_shortest_that_read_back():
    assert as_json(np.float32([0.1, np.inf, -2.0])) == [0.1, None, -2.0]
    assert as_json({"a": (np.int32(3), np.bool_(True), None, "x", 1.5)}) == {"a": [3, True, None, "x", 1.5]}
    assert as_json(np.zeros((0, 2), np.float32)) == []


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["truck_drone", "darp", "dispatch", "pcb", "tsp_drone"])
def test_a_file_comes_back_as_it_was(kind, episodes, tmp_path):
    path = tmp_path / "episode.json"
    show.write_episode(episodes[kind], path)
    assert show.read_episode(path) == episodes[kind]
    assert to_json(json.loads(path.read_text())) == path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["episode.json"]


@pytest.mark.slow("gif-GIF8")
@pytest.mark.parametrize(
    ("ending", "begins"),
    [("json", b"{\n"), ("html", b"<!doctype html>"), ("svg", b"<?xml"), ("png", b"\x89PNG"), ("gif", b"GIF8")],
)
def test_one_call_saves_in_any_form(ending, begins, rides, tmp_path):
    env, states, _, _ = rides
    show.save(from_states(env, states), tmp_path / f"a.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes().startswith(begins)


def test_other_endings_are_refused(deliveries, tmp_path):
    env, states, _, _ = deliveries
    with pytest.raises(ValueError, match=r"use .gif \(animation\), .png, .svg or .pdf"):
        show.save(from_states(env, states), tmp_path / "a.mov")


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "where", "value", "says"),
    [
        ("pcb", "format", ..., 'this is no episode: it has no "format": "jaxvrp-episode"'),
        ("pcb", "version", 1, "version is 1; this program draws version 2"),
        ("pcb", "kind", "chess", "kind is 'chess'; it must be one of: pcb; one of your own: import what registers it"),
        ("pcb", "kind", "c" * 3000, f"kind is '{'c' * 35} ...; it must be one of: pcb"),
        ("pcb", "agents", [], "agents has 0 entries; it must have at least 1"),
        ("pcb", "outline", ..., "outline is missing"),
        ("pcb", "agents/0/component", 7, "agents[0].component is 7; it must be a whole number from 0 to 1"),
        ("pcb", "steps/1/orientations", [0], "steps[1].orientations has 1 entries; it must have 2"),
        ("pcb", "steps/1/hpwl", None, "steps[1].hpwl is None; it must be a finite number"),
        ("pcb", "steps/0/action", {"part": ["x"]}, "steps[0].action.part[0] is 'x'; it must be a list"),
        ("truck_drone", "steps/0/mask/drone/0", "10", "steps[0].mask.drone[0] is '10'; it must be a text of 5"),
        ("truck_drone", "steps/0/action/drone", [0], "steps[0].action.drone has 1 entries; it must have 2"),
        ("truck_drone", "steps/0/action/drone", [9, 0], "action.drone[0] is 9; it must be a whole number from 0"),
        ("darp", "agents/0", {"role": "vehicle"}, "agents[0].name is missing"),
        ("tsp_drone", "story/vehicles/0/kind", "bird", "vehicles[0].kind is 'bird'; it must be one of: truck, drone"),
    ],
)
def test_damage_is_one_line_with_the_place(kind, where, value, says, episodes, tmp_path, capsys, monkeypatch):
    names = ("darp", "dispatch", "pcb", "truck_drone", "tsp_drone")
    shipped = {name: registry._ENTRIES["environment"][name] for name in names}
    monkeypatch.setitem(registry._ENTRIES, "environment", shipped)
    episode = changed(episodes[kind], where, value)
    assert_refused(episode, says, tmp_path, capsys)
    with pytest.raises(ValueError, match=r"is |has "):
        show.write_page(episode, tmp_path / "bad.html")


@pytest.mark.parametrize(
    ("content", "words", "says"),
    [
        (b"{", [], "is no JSON (Expecting property name"),
        (b"[" * 100_000, [], "is no JSON (more than 32 lists and objects within each other); write it with"),
        (b"\xff\xfe", [], "is in UTF-16; save it as UTF-8"),
        (b"[1]", [], "this is no episode"),
        (b"{}", ["-o", "in.json"], "-o is 'in.json', which would take the place of 'in.json'; choose another -o"),
        (b"{}", ["-o", "./in.json"], "-o is 'in.json', which would take the place of 'in.json'; choose another -o"),
        (
            b"{}",
            ["-o", "a.html", "--out=b.html"],
            "-o/--out is given twice; leave one of them out; see python -m jaxvrp.",
        ),
        (b"{}", ["--colour"], "unrecognized arguments: --colour; see python -m jaxvrp.show --help"),
    ],
)
def test_what_is_no_episode_is_one_line(content, words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_bytes(content)
    assert main(["in.json", *words]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_files_that_cannot_be_read_or_written(board, tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "cannot read or write" in capsys.readouterr().err
    show.write_episode(board, tmp_path / "board.json")
    assert main([str(tmp_path / "board.json"), "-o", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "No such file or directory; give another path" in capsys.readouterr().err


def test_the_command_needs_no_learner_and_no_matplotlib(board, tmp_path):
    """A kind that is not known makes it look at the toolboxes of all that are."""
    show.write_episode(board, tmp_path / "board.json")
    (tmp_path / "chess.json").write_text(json.dumps({**board, "kind": "chess"}))
    code = (
        "import sys; from jaxvrp.show.__main__ import main; statuses = [main([path]) for path in sys.argv[1:]];"
        "assert not {'train', 'optax', 'distrax', 'matplotlib', 'PIL'} & set(sys.modules); sys.exit(statuses != [0, 2])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "board.json"), str(tmp_path / "chess.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"wrote {tmp_path / 'board.html'}\n"
    assert done.stderr.startswith(f"error: {tmp_path / 'chess.json'}: kind is 'chess'; it must be one of: pcb; ")
    assert done.stderr.count("\n") == 1


def test_answers_and_ways_of_a_day(answers, episodes):
    _, states, actions, _ = answers
    episode = episodes["dispatch"]
    story, steps = episode["story"], episode["steps"]
    assert [vehicle["name"] for vehicle in story["vehicles"]] == ["vehicle 0", "vehicle 1"], "padding is not told"
    assert len(steps) == 13 and len(story["events"]) == 12
    chosen = actions["dispatcher"][:12, 0]
    assert [event["vehicle"] for event in story["events"]] == [int(v) - 1 if v else None for v in chosen]
    left = {f"request {request}" for request in np.flatnonzero(chosen == 0)}
    assert {entry["name"] for entry in episode["shortfalls"]["entries"]} == left
    for at, step in enumerate(steps[:12]):
        able = [digit == "1" for digit in step["mask"]["dispatcher"][0][1:3]]
        assert able == states.offers.feasible[at, :2].tolist()
        assert [dict(vehicle["notes"])[story["clocks"][at]][:3] == "yes" for vehicle in story["vehicles"]] == able
        explained = [action for _, group in step["why"]["dispatcher"][0] for action in group]
        assert sorted(explained) == [1 + v for v in range(3) if v == 2 or not able[v]]
    travel = 0.0
    for vehicle in story["vehicles"]:
        travel += 2.0 * np.linalg.norm(np.diff([place for _, place in vehicle["track"]], axis=0), axis=1).sum()
    assert travel == pytest.approx(episode["summary"]["travel"], rel=1e-3)
    for place in story["places"]:
        last = place["standings"][-1] if place["standings"] else {"vehicle": None}
        if last["vehicle"] is not None:
            times, places = zip(*story["vehicles"][last["vehicle"]]["track"], strict=True)
            there = [np.interp(last["time"], times, axis) for axis in np.transpose(places)]
            np.testing.assert_allclose(there, place["position"], atol=2e-3)
