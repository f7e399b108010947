"""Pictures are written whole or not at all, and tell truly what a plan or an episode did."""

import jax
import numpy as np
import pytest
from PIL import Image

from jaxvrp import show
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.truck_and_drone.plan import operations_of
from jaxvrp.envs.truck_and_drone.shown.notebook import draw_state
from jaxvrp.envs.truck_and_drone.shown.story import rounded
from jaxvrp.envs.truck_and_drone.ways import DRONE, TRUCK
from jaxvrp.envs.tsp_drone import (
    Operation,
    generate_dataset,
    make,
    make_instance,
    operations_to_actions,
    pad,
    save,
    solution_report,
    write_agatz,
    write_operations,
)
from jaxvrp.envs.tsp_drone.pictures import main
from jaxvrp.envs.tsp_drone.shown.story import story_of_plan
from jaxvrp.episodes import from_states
from jaxvrp.show.figure import headline_of
from jaxvrp.story import held

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


def where(vehicle, time):
    """The place of a vehicle, which goes straight between those of its track."""
    times, places = zip(*vehicle.track, strict=True)
    return [float(np.interp(time, times, axis)) for axis in zip(*places, strict=True)]


def test_who_was_where_and_who_waited(instance):
    ways, story = solution_report(instance, PLAN).ways, story_of_plan(instance, PLAN)
    assert [(wait.vehicle, wait.node, wait.since, wait.until) for wait in ways.waits] == [
        (DRONE, 2, 2.0, 4.0),
        (TRUCK, 2, 4.0, 8.0),
        (DRONE, 0, 11.0, 12.0),
    ]
    services = [(service.by, service.begin) for _, service in sorted(ways.server.items())]
    assert services == [(DRONE, 1.5), (TRUCK, 4.0), (DRONE, 6.0), (DRONE, 8.5)]
    truck, drone = story.vehicles
    assert where(truck, 2.0) == [2, 0] and where(drone, 1.75) == [3.5, 0]
    assert where(truck, 6.0) == [4, 0] and where(drone, 6.0) == [8, 0]
    assert where(truck, 12.0) == where(drone, 12.0) == [0, 0]
    assert headline_of(story) == "makespan 12   |   by drone 3 of 4   |   truck waits 4   |   drone waits 3"
    assert story.verdict == "feasible" and story.span == (0.0, 12.0)
    # A bar for each of 2 + 6 legs, and for each wait.
    assert sum(len(row.bars) for row in story.charts[0].rows) == len(ways.legs) + 3 == 8 + 3
    assert drone.hosts == ((0.0, 0), (0.0, None), (4.0, 0), (4.0, None), (8.0, 0), (8.0, None), (12.0, 0))


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (0.3333, "0.333"), (999.7, "1000"), (4123.4, "4123"), (123456.7, "123457")]
)
def test_numbers_are_shown_without_an_exponent(value, shown):
    assert rounded(value, 3) == shown


def test_a_drone_on_board_is_where_the_truck_is(instance):
    story = story_of_plan(instance, [Operation(0, 1), Operation(1, 0, 2)])
    truck, drone = story.vehicles
    assert where(drone, 1.5) == where(truck, 1.5) == [1.5, 0]
    assert held(drone.hosts, 1.5) == (0.0, 0) and held(drone.hosts, 3.5)[1] is None
    assert story.verdict == "not feasible: unserved 2 (first: node 3)"


def test_a_drone_that_waits_for_the_truck_is_not_on_board():
    """Also where it is back at 2.02, which is 2.0200000000000005 by another sum."""
    instance = make_instance([[0, 0], [0.8, 0], [0.6, 0], [0.5, 0]], drone_pace=0.3, launch_time=0.1, recovery_time=0.2)
    plan = [Operation(0, 0, 1), Operation(0, 0, 2), Operation(0, 0, 1, (3,))]
    wait, drone = solution_report(instance, plan).ways.waits[-1], story_of_plan(instance, plan).vehicles[1]
    assert (wait.vehicle, wait.since, wait.until) == (DRONE, pytest.approx(2.02), pytest.approx(2.54))
    assert [held(drone.hosts, time)[1] for time in (1.4, 1.6, 2.1, 2.5, wait.until)] == [0, None, None, None, 0]


def test_episodes_are_the_plans_that_were_played(episode, instance):
    _, states = episode
    assert states.done[-1] and operations_of(states) == PLAN
    assert operations_of(jax.tree.map(lambda leaf: leaf[:5], states)) == PLAN[:1]
    with pytest.raises(ValueError, match=r"what ended has the shape \(\); it needs \[T\+1\]"):
        operations_of(jax.tree.map(lambda leaf: leaf[0], states))
    still = draw_state(jax.tree.map(lambda leaf: leaf[1], states))
    assert "truck at depot, drone away to customer 1; 1 of 4 customers served" in still.caption
    assert still.html().count("<text") == 4


@pytest.mark.slow
def test_an_animation_moves(episode, tmp_path):
    env, states = episode
    show.save(from_states(env, states), tmp_path / "episode.gif")
    with Image.open(tmp_path / "episode.gif") as image:
        assert image.n_frames > 30
        first = np.asarray(image.convert("L"), np.int32)
        image.seek(image.n_frames // 2)
        assert (first != np.asarray(image.convert("L"), np.int32)).sum() > 500


def test_a_batch_has_no_story(instance):
    with pytest.raises(ValueError, match="give one instance of the batch at a time"):
        story_of_plan(jax.tree.map(lambda leaf: np.asarray(leaf)[None], instance), PLAN)


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
        ("one.npz --index 0 --out a.png", "holds a single instance; leave the choice out"),
    ],
)
def test_a_mistake_is_one_line(files, assert_refused, arguments, words):
    assert_refused(main, arguments, words)
