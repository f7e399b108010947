"""What was played is read off the states, and pictures tell it; files are whole or not there."""

import itertools

import jax
import numpy as np
import pytest
from PIL import Image

from jaxvrp.envs.dispatch import pictures, played
from jaxvrp.envs.dispatch.env import DISPATCHER
from jaxvrp.envs.dispatch.notebook import draw_state
from jaxvrp.envs.dispatch.pictures import day_figure
from jaxvrp.show.stills import to_pixels
from tests.jaxvrp.envs.dispatch.small_days import COUNT, DAYS, ENVS, padded, play

HEADS = {"png": b"\x89PNG", "SVG": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture(scope="module", params=ENVS)
def days(request):
    """Environment, states and actions `[T + 1]` of random play, of four days each."""
    env = ENVS[request.param]
    rng = np.random.default_rng(7)
    (states, _), actions = play(env, padded([DAYS[request.param](rng) for _ in range(COUNT)]), jax.random.key(0), 0.0)
    states, actions = jax.device_get((states, actions))
    return env, [jax.tree.map(lambda leaf, i=i: leaf[:, i], (states, actions)) for i in range(4)]


def test_actions_are_read_off_the_states(days):
    env, episodes = days
    for states, actions in episodes:
        day = played.day_of(env, states)
        length = len(day.requests)
        np.testing.assert_array_equal(day.actions[DISPATCHER], actions[DISPATCHER][:length])
        assert set(day.actions) == set(env.roles)
        assert day.report.feasible and day.report.value == pytest.approx(float(states.totals.value[-1]), rel=1e-5)
        assert len(day.served) == float(states.totals.served[-1])


def test_tracks_are_as_long_as_the_travel(days):
    """And each vehicle is at its stop when service begins there, with its load, never faster than it can."""
    env, episodes = days
    for states, _ in episodes:
        day = played.day_of(env, states)
        travel = 0.0
        for v, track in day.tracks.items():
            pace = 60.0 * day.instance.detour[v] / day.instance.speed[v]
            minutes = pace * np.linalg.norm(np.diff(track.places, axis=0), axis=1)
            assert (minutes <= np.diff(track.times) + 1e-2).all() and (np.diff(track.times) >= 0).all()
            travel += minutes.sum()
            loads = [load for _, load in track.loads]
            assert min(loads) == loads[-1] == 0 and max(loads) <= max(
                day.instance.capacity[v], day.instance.load.max() if day.instance.is_drone[v] else 0
            )
        assert travel == pytest.approx(float(states.totals.travel[-1]), rel=1e-4)
        assert day.travel == pytest.approx(float(states.totals.travel[-1]), rel=1e-4)
        for stop in day.stops:
            place = (day.instance.pickup if stop.is_pickup else day.instance.dropoff)[stop.request]
            np.testing.assert_allclose(day.tracks[stop.vehicle].at(stop.start), place, atol=1e-3)


def test_the_figure_shows_every_request(days):
    env, episodes = days
    day = played.day_of(env, episodes[0][0])
    picture = day_figure.lay_out(day)
    crosses = [line for line in picture.map.lines if line.get_marker() == "x"]
    marks = [line for line in picture.map.lines if line.get_marker() in ("^", "v")]
    assert len(crosses) == len(day.rejected()) > 0
    assert len(marks) == len(day.served) * (2 if env.num_zones_each_way else 1) > 0
    assert picture.headline.get_text() == played.summary(day)
    assert [text.get_text() for text in picture.answers.texts] == [
        f"{len(day.served)} accepted",
        f"{len(day.rejected())} rejected",
    ]
    labels = [tick.get_text() for tick in picture.lanes.get_yticklabels()]
    assert labels == ["rejected", *(played.name_of(day, v) for v in day.vehicles)]


@pytest.mark.parametrize("suffix", HEADS)
def test_a_picture_replaces_the_older_one(days, tmp_path, suffix):
    env, episodes = days
    path = tmp_path / f"day.{suffix}"
    path.write_text("older")
    pictures.render_episode(env, episodes[1][0], path)
    assert path.read_bytes().startswith(HEADS[suffix]) and len(list(tmp_path.iterdir())) == 1


def test_an_animation_moves(days, tmp_path, monkeypatch):
    monkeypatch.setattr(day_figure, "FRAMES", 5)
    env, episodes = days
    pictures.render_episode(env, episodes[0][0], tmp_path / "day.gif")
    with Image.open(tmp_path / "day.gif") as image:
        assert image.n_frames == 5
        frames = []
        for number in range(5):
            image.seek(number)
            frames.append(np.asarray(image.convert("L"), np.int64))
    assert all((before != after).sum() > 100 for before, after in itertools.pairwise(frames))


def test_what_cannot_be_drawn_leaves_nothing(days, tmp_path):
    env, episodes = days
    states = episodes[0][0]
    with pytest.raises(ValueError, match=r"cannot draw an episode to 'day.doc'"):
        pictures.render_episode(env, states, tmp_path / "day.doc")
    with pytest.raises(ValueError, match="the states of one episode"):
        pictures.render_episode(env, jax.tree.map(lambda leaf: leaf[0], states), tmp_path / "day.png")
    assert not list(tmp_path.iterdir())


def test_panels_are_drawn_alone(days):
    env, episodes = days
    states = episodes[0][0]
    assert (
        pictures.draw_routes(env, states).get_legend() and not pictures.draw_routes(env, states, legend=False).texts[1:]
    )
    assert pictures.draw_lanes(env, states).lines and pictures.draw_answers(env, states).lines


def test_a_state_shows_itself(days):
    states = days[1][0][0]
    still = draw_state(jax.tree.map(lambda leaf: leaf[2], states))
    assert "request 2:" in still and "vehicles can take it" in still
    over = draw_state(jax.tree.map(lambda leaf: leaf[-1], states))
    assert "requests accepted" in over and "can take it" not in over
    assert to_pixels(still).shape == (700, 640, 3)
    assert jax.eval_shape(draw_state, jax.tree.map(lambda leaf: leaf[0], states)) is None
