"""Pictures of episodes are written whole or not at all, and show what was played."""

import csv
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from jaxvrp.envs.pcb import make as make_env
from jaxvrp.envs.pcb import pad, played, rules
from jaxvrp.envs.pcb.env import ROLE
from jaxvrp.envs.pcb.pictures import draw, frames, render_episode

HEADS = {"png": b"\x89PNG", "SVG": b"<?xml", "pdf": b"%PDF"}
# An IC, 6 x 4 at (10, 7), and two parts; the first on the IC; legal; legal and shorter; off the board, longer.
COURSE = [([[9, 6], [15, 12]], [0, 0]), ([[3, 4], [15, 12]], [1, 3]), ([[5, 7], [15, 7]], [1, 3])]
COURSE.append(([[5, 7], [20.5, 7]], [2, 3]))


@pytest.fixture(scope="module")
def board(make):
    return make(pin_net=[0, 1, 0, 1, 1, 2], power_rail=[1, 0, 2])


@pytest.fixture(scope="module")
def env(board):
    return make_env(boards=[pad(board, 5, 9, 4)], augment=False, boundary="terminate", rays=1)


@pytest.fixture(scope="module")
def play(env, board):
    """`play(course)`: states `[T+1]` of an episode in which the two parts are put at these places and turns."""
    begin = jax.jit(lambda key: env.init_state(env.place(board, board.position, board.orientation, key)))

    @jax.jit
    def put(state, position, turns):
        return rules.settle(rules.put_parts(state, state.instance.wiring.is_agent, position, turns))

    def played(course):
        first = begin(jax.random.key(0))
        states = [first.replace(time=first.time - 1)]
        for position, turns in course:
            state = put(states[-1], jnp.array(position, jnp.float32), jnp.array(turns, jnp.int32))
            # As if the agents had moved and measured, so that every step has figures of its own.
            shorter = state.replace(wirelength=0.9 * state.wirelength, hpwl=state.hpwl - jnp.array([1.0, 2.0]))
            states.append(shorter.replace(moved_at=jnp.full_like(state.moved_at, state.time)))
        # Nothing is drawn from keys, and NumPy has none.
        states = [state.replace(instance=state.instance.replace(key=state.time)) for state in states[1:]]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *states)

    return played


@pytest.fixture(scope="module")
def states(play):
    return play(COURSE)


@pytest.fixture(scope="module")
def episode(env, states):
    return played.from_states(env, states)


@pytest.mark.slow("pdf")
@pytest.mark.parametrize("suffix", HEADS)
def test_a_picture_replaces_the_older_one(env, states, tmp_path, suffix):
    path = tmp_path / f"played.{suffix}"
    path.write_text("an older picture")
    render_episode(env, states, str(path))
    assert path.read_bytes().startswith(HEADS[suffix]) and path.stat().st_size > 5_000
    assert list(tmp_path.iterdir()) == [path]


def test_an_episode_is_what_its_states_say(env, states, episode):
    assert episode.length == 4 and episode.names == ("", "0", "1") and episode.improvements.tolist() == [1, 2]
    for at in range(4):
        placement = episode.placement(at)
        assert (
            np.allclose(placement.position[1:], COURSE[at][0]) and placement.orientation[1:].tolist() == COURSE[at][1]
        )
        again = draw.measure_placement(episode.board, (), placement.position, placement.orientation)
        assert placement.hpwl == pytest.approx(again.hpwl) and np.allclose(placement.overlap, again.overlap, atol=1e-6)
    assert np.allclose(episode.best.position[1:], COURSE[2][0]) and episode.best.verdict == "legal"
    at_the_end = jax.tree.map(lambda leaf: leaf[3], states)
    metrics, reward = jax.jit(lambda state: (env.metrics(state), env.reward(state)))(at_the_end)
    assert metrics.keys() == episode.metrics.keys()
    for name, value in metrics.items():
        assert episode.metrics[name][3] == pytest.approx(np.asarray(value)), name
    assert episode.reward[3] == pytest.approx(np.asarray(reward[ROLE]))
    assert not episode.reward[0].any() and (episode.reward[1:] != episode.reward[0]).all()


def test_what_follows_the_end_is_cut(env, states):
    def episode(*order):
        return played.from_states(env, jax.tree.map(lambda leaf: leaf[list(order)], states))

    assert episode(0, 1, 2, 2).length == 3
    assert episode(0, 1, 0, 1).length == 2
    gone = states.left | (np.arange(4)[:, None] == 2)
    assert played.from_states(env, states.replace(left=gone)).length == 3
    with pytest.raises(ValueError, match=r"shape \(2, 4\); it needs \[T\+1\]"):
        played.from_states(env, jax.tree.map(lambda leaf: np.stack([leaf, leaf]), states))


def test_the_sheet_shows_before_best_and_metrics(episode, boxes, shown):
    figure = draw.episode_figure(episode, 60)
    before, best, hpwl, overlap, cost, reward = figure.axes
    assert np.allclose(boxes(shown(before)["parts"])[1], [8, 5.5, 10, 6.5])
    assert np.allclose(boxes(shown(best)["parts"])[1], [4.5, 6, 5.5, 8])
    assert np.allclose(boxes(shown(before)["faults"]), [[8, 5.5, 10, 6.5]])
    assert not shown(best)["faults"].get_paths()
    written = [text.get_text() for text in figure.texts]
    assert "shortest legal placement (step 2)" in written and written[-1].endswith("|  legal")
    lines = [np.stack(line.get_data(), axis=1) for line in hpwl.lines]
    assert np.allclose(lines[0], np.stack([range(4), episode.metrics["hpwl"]], axis=1))
    assert np.allclose(lines[2], lines[0][[1, 2]])
    assert np.allclose(overlap.lines[0].get_ydata(), episode.metrics["overlap"])
    assert np.allclose(cost.lines[0].get_ydata(), episode.metrics["weighted_cost"][:, episode.agents].mean(axis=1))
    assert reward.lines[0].get_xdata().tolist() == [1, 2, 3]


def test_the_sheet_says_if_nothing_was_legal(env, play, shown):
    episode = played.from_states(env, play([COURSE[0]] * 4))
    figure = draw.episode_figure(episode, 60)
    assert "no legal placement; at the end (step 3)" in [text.get_text() for text in figure.texts]
    assert not len(episode.improvements) and len(figure.axes[2].lines) == 1 and figure.axes[2].get_legend() is None
    assert len(shown(figure.axes[1])["faults"].get_paths()) == 1


@pytest.mark.slow
def test_animation_moves(env, states, tmp_path):
    path = tmp_path / "episode.gif"
    render_episode(env, states, path)
    with Image.open(path) as picture:
        frames = [np.asarray((picture.seek(index), picture.convert("RGB"))[1]) for index in range(picture.n_frames)]
    assert len(frames) == 4 and (frames[0][:3] == 255).all() and frames[0].shape[1] in range(800, 1150)
    assert all((frame != other).any(axis=2).mean() > 0.002 for frame, other in itertools.pairwise(frames))
    assert len(np.unique(frames[-1].reshape(-1, 3), axis=0)) < 100 and path.stat().st_size < 200_000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_frames_show_their_state(episode, boxes):
    scene = frames.EpisodeScene(episode, range(4))
    for at in (0, 2, 1):
        scene.frame(at)
        assert np.allclose(boxes(scene.board.parts)[1:], episode.placement(at).boxes[1:])
        assert bool(scene.board.faults.get_paths()) == (at == 0)
        assert scene.growing[0].get_xdata().tolist() == list(range(at + 1))
        assert {tuple(dot.get_xdata()) for dot in scene.dots} == {(at,)}
    assert scene.headline.get_text().startswith("step   1 of 3  |  HPWL")
    assert scene.frame(0).shape == scene.frame(3).shape


def test_a_single_state(env, play, tmp_path):
    for suffix in ("png", "gif"):
        render_episode(env, play(COURSE[:1]), tmp_path / f"start.{suffix}")
        assert (tmp_path / f"start.{suffix}").stat().st_size > 5_000


@pytest.mark.parametrize("name", ["episode.mp4", "episode"])
def test_unknown_suffix(env, states, tmp_path, name):
    with pytest.raises(ValueError, match=rf"'{name}': use \.gif \(animation\), \.png, \.svg or \.pdf \(still\)$"):
        render_episode(env, states, tmp_path / name)
    assert not list(tmp_path.iterdir())


# --- every step -------------------------------------------------------------------------------------------------------


def test_debug_records_every_step(env, states, episode, tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    frames.record_steps(env, states, folder)
    names = [f"step_{at:04d}.png" for at in range(4)]
    assert sorted(file.name for file in folder.iterdir()) == ["agents.csv", *names]
    pixels = [np.asarray(Image.open(folder / name).convert("RGB")) for name in names]
    assert all((frame != other).any() for frame, other in itertools.pairwise(pixels))
    with (folder / "agents.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wanted = "step id name reward W We HPWL HPWLe raw_W raw_HPWL Wi HPWLi ol weighted_cost"
    assert list(rows[0]) == wanted.split()
    assert [(row["step"], row["id"], row["name"]) for row in rows] == [
        (str(step), str(agent), f"component_{agent}") for step in range(4) for agent in range(2)
    ]
    for at, row in enumerate(rows):
        for name in frames.METRICS:
            assert float(row[name]) == pytest.approx(float(episode.metrics[name][at // 2, at % 2]), rel=1e-6)
        assert float(row["reward"]) == pytest.approx(float(episode.reward[at // 2, at % 2]), rel=1e-6)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ValueError, match="is not empty; give another one"):
        frames.record_steps(env, states, folder)
