"""Pictures are written whole or not at all, and tell truly what a plan or an episode did."""

import jax
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from jaxvrp.envs.darp import make, make_instance, pad, routes_to_actions
from jaxvrp.envs.darp.pictures import render_episode, render_plan
from jaxvrp.envs.darp.pictures.draw import DPI
from jaxvrp.envs.darp.pictures.plan_figure import lay_out, summary
from jaxvrp.envs.darp.played import actions_of, from_actions, verdict
from jaxvrp.envs.darp.rules import drive
from jaxvrp.show.palette import WRONG

HEADS = {"png": b"\x89PNG", "SVG": b"<?xml", "pdf": b"%PDF"}
# Request 1 is late at both ends and rides too long, request 3 is never dropped off, request 4 not served.
ACTIONS = [3, 1, 4, 2, 0, 0, 5, 0]


@pytest.fixture(scope="module")
def instance():
    """Four requests on a line, one unit of distance takes one unit of time, three vehicles for two passengers."""
    east = [0, 2, 8, 1, 6, 3, 5, -1, -2]
    return make_instance(
        np.stack([east, np.arange(9) % 3], axis=1),
        [0, 1, -1, 2, -2, 1, -1, 1, -1],
        [99, 1, 7, *[90] * 6],
        capacity=[2, 2, 2],
        earliest=[0, 0, 0, 4, 0, 0, 0, 0, 0],
        service_time=[0, *[0.5] * 8],
        max_ride_time=6,
    )


@pytest.fixture(scope="module")
def played():
    """`play(env, instance, wanted)`: states `[T+1]`, driven by the rules alone: forbidden actions happen too."""
    begin, step = jax.jit(lambda env, instance: env.init_state(instance)), jax.jit(drive)

    def play(env, instance, wanted):
        states = [begin(env, instance)]
        for action in wanted:
            states.append(step(states[-1], np.int32(action), np.int32(0)))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *states)

    return play


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", HEADS)
def test_a_picture_replaces_the_older_one(instance, tmp_path, suffix):
    path = tmp_path / f"plan.{suffix}"
    path.write_text("an older picture")
    render_plan(instance, ACTIONS, str(path))
    assert path.read_bytes().startswith(HEADS[suffix]) and path.stat().st_size > 10_000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("actions", [[], [0, 0, 0], [1, 1, 0, 2], [2, 0, 1, 0], [1, 2, 0, 0, 0, 5, 6], [77, 3, 4]])
def test_strange_plans_can_be_drawn(instance, actions):
    plan = from_actions(pad(instance, 12, 5), actions)
    picture = lay_out(plan, dpi=60)
    picture.figure.canvas.draw()
    assert {moment for moment, _ in picture.events} >= {*range(len(plan.legs) + 1)}


def test_windows_without_end_and_one_place_can_be_drawn():
    nowhere = make_instance(np.zeros((3, 2)), [0, 1, -1], [np.inf] * 3, capacity=1)
    for actions, words in (([], "0 of 1 requests served (0%)"), ([1, 2], "1 of 1 requests served (100%)")):
        picture = lay_out(from_actions(nowhere, actions), dpi=60)
        picture.figure.canvas.draw()
        assert words in picture.headline.get_text()


@pytest.mark.slow
def test_many_requests_stay_within_the_picture():
    rng = np.random.default_rng(0)
    loads = np.repeat(rng.integers(1, 4, 96), 2) * np.tile([1, -1], 96)
    deadline = np.append(48, rng.integers(10, 40, 192))
    instance = make_instance(rng.uniform(0, 100, (193, 2)), [0, *loads], deadline, capacity=[5] * 12, vehicle_speed=25)
    routes = [
        [node for request in range(vehicle, 96, 12) for node in (2 * request + 1, 2 * request + 2)]
        for vehicle in range(12)
    ]
    canvas = lay_out(from_actions(instance, routes_to_actions(routes, 12)), dpi=DPI).figure.canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    assert max(pixels.shape) < 2200
    edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in edges)


def test_no_half_file(instance, tmp_path, monkeypatch):
    path = tmp_path / "plan.png"
    path.write_text("an older picture")

    def fail(self, path, *args, **kwargs):
        path.write_bytes(b"half")
        raise RuntimeError("disk full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        render_plan(instance, ACTIONS, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name] and path.read_text() == "an older picture"


@pytest.mark.parametrize("name", ["plan.gif", "plan.jpg", "plan"])
def test_plans_are_stills(instance, tmp_path, name):
    with pytest.raises(ValueError, match=rf"^cannot draw a plan to '{name}': use \.png, \.svg or \.pdf$"):
        render_plan(instance, ACTIONS, tmp_path / name)
    assert not list(tmp_path.iterdir())


# --- what a plan tells ----------------------------------------------------------------------------------------------


def test_who_did_what_when(instance):
    plan = from_actions(pad(instance, 12, 5), ACTIONS)
    drives = [(leg.vehicle, leg.origin, leg.node, leg.load_before, leg.load) for leg in plan.legs]
    first = [(0, 0, 3, 0, 2), (0, 3, 1, 2, 3), (0, 1, 4, 3, 1), (0, 4, 2, 1, 0), (0, 2, 0, 0, 0)]
    assert drives == [*first, (2, 0, 5, 0, 1), (2, 5, 0, 1, 0)]
    assert plan.requests.tolist() == [1, 2, 3, 4] and plan.num_vehicles == 3 and plan.used == [0, 2]
    assert plan.visited_by.tolist() == [-1, 0, 0, 0, 0, 2, *[-1] * 7]
    assert plan.moment.tolist() == [0, 2, 4, 1, 3, 6, *[0] * 7]
    assert plan.delivered.tolist() == [False, True, True, *[False] * 4]
    assert [leg.wrong for leg in plan.legs] == [False] * 6 + [True]


def test_times_are_those_of_the_report(instance):
    plan = from_actions(instance, ACTIONS)
    for leg in plan.legs:
        start, end = instance.locs[[leg.origin, leg.node]]
        assert leg.begin - leg.leave >= np.linalg.norm(end - start) - 1e-9
        assert leg.node == 0 or leg.begin == plan.report.service_start[leg.node]
    # Pickup 2 opens at 4; half a unit of service, then to pickup 1.
    assert plan.begin[[3, 1]] == pytest.approx([4.0, 4.5 + np.sqrt(2)])
    assert plan.late[1] == pytest.approx(3.5 + np.sqrt(2)) and plan.late[3] == 0.0
    assert plan.ride[1] == pytest.approx(plan.begin[2] - plan.begin[1] - 0.5)
    assert plan.too_long[1:].tolist() == [True, False, False, False]


def test_trouble_in_words(instance):
    plan = from_actions(instance, ACTIONS)
    # Of the two ends the later one counts.
    assert plan.trouble(1) == "late by 6.15, rides 6.74, limit 6"
    assert [plan.trouble(request) for request in (2, 3, 4)] == ["", "never dropped off", "not served"]
    assert verdict(plan.report, most=2) == (
        "not feasible: unserved 3 (first: drop-off 3), pairing 1 (first: pickup 3), 4 more"
    )
    assert summary(plan).split("   |   ")[1:] == ["2 of 4 requests served (50%)", "2 of 3 vehicles used"]
    assert verdict(from_actions(instance, [99, 3, 4, 0]).report, most=9).count("node 99") == 1


def test_a_second_visit_moves_nobody(instance):
    plan = from_actions(instance, [1, 1, 2, 0])
    assert [leg.load for leg in plan.legs] == [1, 1, 0, 0]
    assert plan.moment[1] == 1 and plan.legs[1].begin == pytest.approx(plan.legs[0].begin + 0.5)


def test_published_plans_are_drawn_as_feasible(published):
    for solution in published[::4]:
        plan = from_actions(solution.instance, routes_to_actions(solution.routes, solution.instance.num_agents))
        assert verdict(plan.report) == "feasible"
        assert plan.delivered[1:].all() and not plan.late.any() and not plan.too_long.any()
        assert not any(plan.trouble(request) for request in plan.requests.tolist())
        assert max(leg.load for leg in plan.legs) <= solution.instance.capacity[0]


def _texts(picture):
    """What is written, and from which moment on; -1 for always."""
    since = {id(artist): moment for moment, artist in picture.events}
    artists = [*picture.figure.texts, *(text for axes in picture.figure.axes for text in axes.texts)]
    return [(since.get(id(text), -1), text.get_text()) for text in artists]


def test_padding_is_not_shown(instance):
    plain, padded = (lay_out(from_actions(problem, ACTIONS), dpi=100) for problem in (instance, pad(instance, 40, 9)))
    assert _texts(plain) == _texts(padded) and len(plain.events) == len(padded.events)
    plain.figure.canvas.draw(), padded.figure.canvas.draw()
    assert np.array_equal(plain.figure.canvas.buffer_rgba(), padded.figure.canvas.buffer_rgba())


def test_what_went_wrong_is_written(instance):
    picture = lay_out(from_actions(instance, ACTIONS), dpi=100)
    written = _texts(picture)
    assert (picture.end, "not served") in written and (picture.end, "never dropped off") in written
    assert [moment for moment, text in written if text.startswith("late by")] == [4]
    assert any(moment == picture.end and text.startswith("not feasible: ") for moment, text in written)


def test_marks_bars_and_loads_stand_where_they_belong(instance):
    plan = from_actions(instance, ACTIONS)
    picture = lay_out(plan, dpi=60)
    for parity, marker in enumerate("v^"):
        marks = [line.get_xdata()[0] for line in picture.rows.lines if line.get_marker() == marker]
        begin = plan.begin[1:][np.arange(1, 9) % 2 == parity]
        assert sorted(marks) == sorted(begin[~np.isnan(begin)])
    bars = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in picture.rows.patches)
    assert np.allclose(bars, sorted([(0, 1), (0, 7), (4, 90), *[(0, 90)] * 5]))
    overload = [bar for bar in picture.loads.patches if bar.get_facecolor()[:3] == to_rgb(WRONG)]
    assert [(bar.get_x(), bar.get_width()) for bar in overload] == [(plan.begin[1], plan.begin[4] - plan.begin[1])]
    assert len([line for line in picture.loads.lines if line.get_marker() == "X"]) == 1


# --- episodes -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_animation_moves(instance, played, tmp_path):
    env, path = make(num_nodes=14, num_agents=6), tmp_path / "episode.gif"
    render_episode(env, played(env, instance, ACTIONS[:-1]), path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name] and path.stat().st_size < 3_000_000
    with Image.open(path) as picture:
        frames = [np.asarray((picture.seek(index), picture.convert("RGB"))[1]) for index in range(picture.n_frames)]
    # Pillow merges equal frames: those of a vehicle that has not moved.
    assert 20 < len(frames) <= 4 * 7 + 1
    assert frames[0].shape[1] in range(1000, 1101) and (frames[0][:3] == 255).all()
    assert (frames[0] != frames[-1]).any(axis=2).mean() > 0.005


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_a_single_state(instance, played, tmp_path, suffix):
    env = make(num_nodes=8, num_agents=3)
    render_episode(env, played(env, instance, []), tmp_path / f"start.{suffix}")
    assert (tmp_path / f"start.{suffix}").stat().st_size > 5_000


@pytest.mark.parametrize("name", ["episode.mp4", "episode"])
def test_unknown_suffix(instance, played, tmp_path, name):
    env = make(num_nodes=8, num_agents=3)
    with pytest.raises(ValueError, match=rf"'{name}': use \.gif \(animation\), \.png, \.svg or \.pdf \(still\)$"):
        render_episode(env, played(env, instance, []), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_states_of_several_episodes(instance, played, tmp_path):
    env = make(num_nodes=8, num_agents=3)
    states = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), played(env, instance, [1]))
    with pytest.raises(ValueError, match=r"shape \(2, 2\); it needs \[T\+1\]"):
        render_episode(env, states, tmp_path / "episode.png")


@pytest.mark.parametrize(
    "wanted",
    [
        [1, 2, 0, 0, 3, 4, 0],  # the second vehicle stays at the depot
        [0, 0, 0],
        [3, 0, 5, 6, 0, 0],  # an emergency return with passengers
        [1, 3, 4, 2, 5, 6, 7, 8],  # ends away from the depot
        [1, 2],  # not finished
        [],
    ],
)
def test_actions_are_recovered(instance, played, wanted):
    for env in (make(num_nodes=8, num_agents=3), make(num_nodes=14, num_agents=6)):
        assert actions_of(played(env, instance, wanted)).tolist() == wanted


def test_what_follows_the_end_is_cut(instance, played):
    env = make(num_nodes=8, num_agents=3)
    states = played(env, instance, [1, 2, 0, 0, 0])
    longer = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[-1:], leaf[-1:]]), states)
    assert actions_of(longer).tolist() == [1, 2, 0, 0, 0]
    reset = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:2]]), states)
    unfinished = jax.tree.map(lambda leaf: np.concatenate([leaf[:3], leaf[2:3]]), states)
    assert actions_of(unfinished).tolist() == [1, 2]
    assert actions_of(reset).tolist() == [1, 2, 0, 0, 0]


def test_a_padded_vehicle_that_is_passed_over_has_a_tour(instance, played):
    gap = instance.replace(capacity=np.array([0, 2, 0, 2], np.int32))
    states = played(make(num_nodes=14, num_agents=6), gap, [1, 2, 0, 3, 4, 0])
    actions = actions_of(states)
    assert actions.tolist() == [0, 1, 2, 0, 0, 3, 4, 0]
    assert from_actions(gap, actions).report.violations["vehicles"].count == 0


def test_random_episodes_cost_what_their_states_say():
    env = make(num_nodes=10, num_agents=3)
    starts = jax.jit(jax.vmap(lambda key: env.init_state(env.generate(key))))(jax.random.split(jax.random.key(2), 8))
    mask, step = jax.jit(env.action_mask), jax.jit(drive)
    rng = np.random.default_rng(0)
    emergencies = 0
    for episode in range(8):
        states, executed = [jax.tree.map(lambda leaf, at=episode: leaf[at], starts)], []
        while not states[-1].done:
            executed.append(int(rng.choice(np.flatnonzero(mask(states[-1])["vehicle"][0]))))
            emergencies += executed[-1] == 0 and int(states[-1].current_load) > 0
            states.append(step(states[-1], np.int32(executed[-1]), np.int32(0)))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
        assert actions_of(stacked).tolist() == executed
        plan = from_actions(jax.tree.map(lambda leaf: leaf[0], stacked.instance), executed, 1e-3)
        assert plan.report.cost == pytest.approx(float(states[-1].total_distance), rel=1e-5)
        assert plan.delivered.sum() == env.metrics(states[-1])["requests_served"]
        assert len(plan.used) == states[-1].vehicles_used and not plan.late.any()
    assert emergencies > 0
