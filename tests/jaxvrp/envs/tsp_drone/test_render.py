"""Pictures are written whole or not at all, and tell truly what a plan or an episode did."""

import jax
import numpy as np
import pytest
from PIL import Image

from jaxvrp.envs.truck_and_drone import plan_figure
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.truck_and_drone.notebook import draw_state
from jaxvrp.envs.truck_and_drone.plan_figure import lay_out, summary
from jaxvrp.envs.truck_and_drone.played import DRONE, TRUCK, operations_of, verdict
from jaxvrp.envs.tsp_drone import (
    Operation,
    generate_dataset,
    make,
    make_instance,
    operations_to_actions,
    pad,
    played,
    save,
    write_agatz,
    write_operations,
)
from jaxvrp.envs.tsp_drone.pictures import render_episode, render_plan
from jaxvrp.envs.tsp_drone.pictures.__main__ import main

HEADS = {"png": b"\x89PNG", "SVG": b"<?xml", "pdf": b"%PDF"}
# The truck waits 4 for the loop, the drone 1 for the truck at the end.
PLAN = [Operation(0, 2, 1), Operation(2, 2, 3), Operation(2, 0, 4)]


@pytest.fixture(scope="module")
def instance():
    """Depot and four customers on a line, 0, 3, 4, 8 and 5; the drone is twice as fast."""
    return make_instance(np.stack([[0, 3, 4, 8, 5], [0, 0, 0, 0, 0]], axis=1))


@pytest.fixture(scope="module")
def episode(instance):
    """Environment, and states `[T + 1]` of the plan, with a node of padding."""
    env = make(num_nodes=6)
    state = env.init_state(pad(instance, 6))
    states, step = [state], jax.jit(env.step)
    actions = operations_to_actions(PLAN)
    for turn in range(len(actions["drone"])):
        states.append(step(states[-1], {role: chosen[turn] for role, chosen in actions.items()})[0])
    return env, jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def test_who_was_where_and_who_waited(instance):
    plan = played.from_operations(instance, PLAN)
    assert plan.report.cost == 4 + 4 + 4
    assert [(wait.who, wait.node, wait.since, wait.until) for wait in plan.waits] == [
        (DRONE, 2, 2.0, 4.0),
        (TRUCK, 2, 4.0, 8.0),
        (DRONE, 0, 11.0, 12.0),
    ]
    assert plan.served_by == (None, DRONE, TRUCK, DRONE, DRONE)
    assert plan.served_at[1:].tolist() == [1.5, 4.0, 6.0, 8.5]
    assert plan.place(TRUCK, 2.0).tolist() == [2, 0] and plan.place(DRONE, 1.75).tolist() == [3.5, 0]
    assert plan.place(TRUCK, 6.0).tolist() == [4, 0] and plan.place(DRONE, 6.0).tolist() == [8, 0]
    assert plan.place(TRUCK, 12.0).tolist() == plan.place(DRONE, 12.0).tolist() == [0, 0]
    assert summary(plan) == "makespan 12   |   3 sorties   |   truck waits 4, drone 3"
    assert verdict(plan.report) == "feasible"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (0.3333, "0.333"), (999.7, "1000"), (4123.4, "4123"), (123456.7, "123457")]
)
def test_numbers_are_shown_without_an_exponent(value, shown):
    assert plan_figure.rounded(value, 3) == shown


def test_a_drone_on_board_is_where_the_truck_is(instance):
    plan = played.from_operations(instance, [Operation(0, 1), Operation(1, 0, 2)])
    assert plan.place(DRONE, 1.5).tolist() == plan.place(TRUCK, 1.5).tolist() == [1.5, 0]
    assert verdict(plan.report) == "not feasible: unserved 2 (first: node 3)"


def test_the_figure_shows_every_leg_and_wait(instance):
    plan = played.from_operations(instance, PLAN)
    picture = lay_out(plan)
    numbers = {text.get_text() for text in picture.map.texts}
    assert numbers == {"1", "2", "3", "4", "2 units"}
    # A line for each of 2 + 6 legs, a mark for each of 5 nodes, a scale bar.
    assert len(plan.legs) == 8 and len(picture.map.lines) == 8 + 5 + 1
    assert len(picture.chart.collections) == 8 + 3


def test_episodes_are_the_plans_that_were_played(episode, instance):
    _, states = episode
    assert states.done[-1] and operations_of(states) == PLAN
    assert operations_of(jax.tree.map(lambda leaf: leaf[:5], states)) == PLAN[:1]
    with pytest.raises(ValueError, match=r"states.step has shape \(\); it needs \[T\+1\]"):
        operations_of(jax.tree.map(lambda leaf: leaf[0], states))
    still = draw_state(jax.tree.map(lambda leaf: leaf[1], states))
    assert "truck at depot, drone away to customer 1; 1 of 4 customers served" in still and still.count("<text") == 4


@pytest.mark.parametrize("suffix", HEADS)
def test_a_picture_replaces_the_older_one(instance, tmp_path, suffix):
    path = tmp_path / f"plan.{suffix}"
    path.write_text("an older picture")
    render_plan(instance, PLAN, path)
    assert path.read_bytes().startswith(HEADS[suffix])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.slow
def test_an_animation_moves(episode, tmp_path):
    env, states = episode
    render_episode(env, states, tmp_path / "episode.gif")
    with Image.open(tmp_path / "episode.gif") as image:
        assert image.n_frames > 30
        first = np.asarray(image.convert("L"), np.int32)
        image.seek(image.n_frames // 2)
        assert (first != np.asarray(image.convert("L"), np.int32)).sum() > 500


def test_what_cannot_be_drawn_leaves_nothing(instance, tmp_path):
    with pytest.raises(ValueError, match=r"cannot draw a plan to 'plan.mov': use .gif"):
        render_plan(instance, PLAN, tmp_path / "plan.mov")
    with pytest.raises(ValueError, match="give one instance of the batch at a time"):
        render_plan(jax.tree.map(lambda leaf: np.asarray(leaf)[None], instance), PLAN, tmp_path / "plan.png")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def files(instance, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_agatz("one.txt", instance)
    write_operations("plan.txt", PLAN)
    save("three.npz", generate_dataset(make(num_nodes=4), 0, 3))
    save("one.npz", as_float32(instance))
    return tmp_path


@pytest.mark.slow("three.npz --index 2")
@pytest.mark.parametrize("arguments", ["one.txt --plan plan.txt", "three.npz --index 2"])
def test_the_command_draws(files, capsys, arguments):
    assert main([*arguments.split(), "--out", "drawn.png"]) == 0
    assert (files / "drawn.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("one.txt", "required: --out"),
        ("one.txt --out a.bmp", "--out is 'a.bmp'; it must end in"),
        ("none.txt --out a.png", "No such file"),
        ("plan.txt --out a.png", "plan.txt, line 4: expected"),
        ("one.txt --plan one.txt --out a.png", "for the number of operations"),
        ("three.npz --out a.png", "holds 3 instances; choose one with --index 0 to 2"),
        ("one.npz --index 0 --out a.png", "holds a single instance; leave it out"),
    ],
)
def test_a_mistake_is_one_line(files, assert_refused, arguments, words):
    assert_refused(main, arguments, words)
