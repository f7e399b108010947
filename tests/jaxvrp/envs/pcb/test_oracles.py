"""What can be said of a placement beforehand must be so in the environment, and in the NumPy reference."""

from __future__ import annotations

import csv
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.pcb import NumpyPCB
from jaxvrp.envs.pcb import make_board, pad, read_pcb
from jaxvrp.envs.pcb.problem.board import as_float32

COMPONENTS, PINS, NETS, AGENTS = 10, 28, 10, 9
SHARES = {"los": slice(8), "ol": slice(8, 16), "boardmask": slice(23, 31)}


class Seen(NamedTuple):
    """A placement, and a step in which nobody moves: observation `[A, 31]`, state, and `metrics` after that step."""

    observation: np.ndarray
    wirelength: np.ndarray
    hpwl: np.ndarray
    overlap: np.ndarray
    reward: np.ndarray
    metrics: dict[str, np.ndarray]


def in_reference(board, position, orientation):
    reference = NumpyPCB(pad(board, COMPONENTS, PINS, NETS), num_agents=AGENTS)
    place = np.zeros((COMPONENTS, 2)), np.zeros(COMPONENTS, int)
    for rows, values in zip(place, (position, orientation), strict=True):
        rows[: board.num_components] = values
    observation = reference.reset(*place)
    reward = reference.step(np.full((AGENTS, 3), np.nan)).reward
    return Seen(observation, reference.wirelength, reference.hpwl, reference.overlap, reward, reference.metrics())


@pytest.fixture(scope="module")
def in_environment():
    """The same of the environment, which is compiled once, for boards of up to these sizes."""
    parts = np.r_[np.ones(10, int), np.arange(PINS - 10) % COMPONENTS]
    largest = make_board(
        [20, 20],
        np.ones((COMPONENTS, 2)),
        parts,
        np.zeros((PINS, 2)),
        np.zeros(PINS),
        np.zeros(NETS),
        fixed=[1] + [0] * 9,
    )
    env = jaxvrp.make("pcb", boards=largest, augment=False)

    @jax.jit
    def wait(board, position, orientation):
        state, first = env.reset_to(env.place(board, position, orientation, jax.random.key(0)))
        state, timestep = env.step(state, {"component": jnp.full((AGENTS, 3), jnp.nan, jnp.float32)})
        reward, observation = timestep.reward["component"], first.observation["component"]
        return Seen(observation, state.wirelength, state.hpwl, state.overlap, reward, timestep.metrics)

    def seen(board, position, orientation):
        start = board.replace(position=np.asarray(position, float), orientation=np.asarray(orientation, np.int32))
        start = as_float32(pad(start, COMPONENTS, PINS, NETS))
        return jax.device_get(wait(start, start.position, start.orientation))

    return seen


@pytest.fixture(params=[pytest.param("environment", marks=pytest.mark.slow), "reference"])
def look(request):
    """`look(board, position, orientation)`: a `Seen`, by either of them."""
    return in_reference if request.param == "reference" else request.getfixturevalue("in_environment")


def parts_of(sizes, outline=(40.0, 30.0), pins=()):
    """A board of movable parts; `pins`: (component, offset, net), else one lonely pin."""
    pins = pins or [(0, (0.0, 0.0), 0)]
    component, offset, net = zip(*pins, strict=True)
    return make_board(outline, sizes, component, offset, net, np.zeros(max(net) + 1))


def random_board(seed):
    rng = np.random.default_rng(seed)
    part = rng.integers(0, 5, 14)
    pins = [(p, (rng.random(2) - 0.5) * 4, net) for p, net in zip(part, rng.integers(0, 4, 14), strict=True)]
    board = parts_of(rng.uniform(1, 7, (5, 2)), (20.0, 14.0), pins)
    return board, board.outline * rng.uniform(-0.1, 1.1, (5, 2)), rng.integers(0, 4, 5)


def test_published_boards_have_the_wirelength_of_their_nets_and_the_best_known_are_legal(
    data_folder, signal_hpwl, look
):
    with (data_folder / "rl_pcb" / "best_known_zero_overlap.csv").open() as table:
        rows = list(csv.DictReader(table))
    for split, count in (("training", 6), ("evaluation", 3)):
        boards = [netlist.board for netlist in read_pcb(data_folder / "rl_pcb" / "base" / f"{split}.pcb").boards]
        assert len(boards) == count
        for index, board in enumerate(boards):
            given = look(board, board.position, board.orientation)
            wanted = signal_hpwl(board, board.position, board.orientation)
            assert given.metrics["hpwl"] == pytest.approx(wanted, abs=1e-4)
            listed = [row for row in rows if (row["split"], row["index"]) == (split, str(index))]
            position = np.array([[float(row["x_mm"]), float(row["y_mm"])] for row in listed])
            best = look(board, position, [int(row["quarter_turns"]) for row in listed])
            assert best.metrics["legal"] == best.metrics["became_legal"] == 1
            assert best.metrics["best_hpwl"] == pytest.approx(float(listed[0]["signal_hpwl_mm"]), abs=1e-4)
            assert best.metrics["best_ratio"] == pytest.approx(1, abs=1e-6)
            assert best.metrics["invalid_actions"] == np.count_nonzero(board.movable)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_board_turned_as_a_whole_looks_the_same_from_every_part(look, quarters):
    board, position, orientation = random_board(quarters)
    before, centred = look(board, position, orientation), position - board.outline / 2
    for _ in range(quarters):
        centred = np.stack([centred[:, 1], -centred[:, 0]], axis=1)
    turned = board.replace(outline=board.outline[::-1] if quarters % 2 else board.outline)
    after = look(turned, centred + turned.outline / 2, (orientation + quarters) % 4)
    for name, columns in SHARES.items():
        assert before.observation[:, columns].max() > 0.1
        np.testing.assert_allclose(
            after.observation[:, columns], before.observation[:, columns], atol=1e-5, err_msg=name
        )
    for length, angle in ((16, 17), (18, 19)):
        there, here = after.observation[:5], before.observation[:5]
        np.testing.assert_allclose(there[:, length], here[:, length], atol=1e-6)
        with_wires = here[:, length] > 0
        assert with_wires.sum() >= 3
        change = (there[:, angle] - here[:, angle] - quarters / 2)[with_wires]
        np.testing.assert_allclose((change + 1) % 2 - 1, 0, atol=1e-4)
    for name in ("wirelength", "hpwl", "overlap", "reward"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-5, atol=1e-5, err_msg=name)


FREE_REWARD = np.tan(np.pi * 0.2 / 2.1)  # no wire is longer or shorter, nothing in the way: c = 2 / (4 + 2 + 4)


@pytest.mark.parametrize("quarters", range(4))
def test_a_part_alone_in_the_middle_sees_nothing(look, quarters):
    seen = look(parts_of([(3.0, 5.0)]), [(20.0, 15.0)], [quarters])
    shares = np.concatenate([seen.observation[0, columns] for columns in SHARES.values()])
    assert (shares == 0).all()
    np.testing.assert_allclose(seen.observation[0, 16:23], (0, 0, 0, 0, 0.5, 0.5, quarters / 4), atol=1e-7)
    assert seen.metrics["legal"] == 1
    assert seen.metrics["overlap"] == 0
    assert seen.reward[0] == pytest.approx(FREE_REWARD, rel=1e-5)
    assert not seen.observation[1:].any()
    assert not seen.reward[1:].any()


def test_a_part_wholly_outside_sees_all_of_it_full(look):
    seen = look(parts_of([(4.0, 2.0), (1.0, 1.0)]), [(-30.0, 8.0), (20.0, 15.0)], [1, 0])
    for columns in SHARES.values():
        np.testing.assert_allclose(seen.observation[0, columns], 1, atol=1e-6)
    assert seen.overlap[0] == pytest.approx(1)
    assert seen.metrics["legal"] == seen.metrics["became_legal"] == seen.metrics["best_hpwl"] == 0


def test_of_two_coinciding_parts_the_bodies_are_full(look):
    seen = look(parts_of([(3.0, 5.0)] * 2), [(20.0, 15.0)] * 2, [1, 3])
    np.testing.assert_allclose(seen.observation[:2, SHARES["ol"]], 1, atol=1e-6)
    assert (seen.observation[:2, SHARES["boardmask"]] == 0).all()
    np.testing.assert_allclose(seen.overlap[:2], 1, rtol=1e-6)
    assert seen.metrics["legal"] == 0
    np.testing.assert_allclose(seen.reward[:2], 0, atol=1e-6)


def test_parts_on_both_sides_do_not_see_each_other(look):
    board = parts_of([(3.0, 5.0)] * 2).replace(side=np.array([0, 1], np.int32))
    seen = look(board, [(20.0, 15.0)] * 2, [1, 3])
    assert all((seen.observation[:2, columns] == 0).all() for columns in SHARES.values())
    assert seen.metrics["legal"] == 1


def test_wires_by_hand(look):
    """Two pads 3 to the right of and 4 above the other part's: length 5, half perimeter 7, at atan2(4, 3)."""
    pins = [(0, (1.0, 0.0), 0), (1, (0.0, -1.0), 0), (0, (0.0, 0.0), 1)]
    seen = look(parts_of([(2.0, 2.0)] * 2, pins=pins), [(20.0, 16.0), (24.0, 13.0)], [0, 0])
    angle = np.arctan2(4, 3) / np.pi
    np.testing.assert_allclose(seen.wirelength[:2], 5, rtol=1e-6)
    np.testing.assert_allclose(seen.hpwl[:2], 7, rtol=1e-6)
    np.testing.assert_allclose(seen.observation[0, 16:18], (5 / 50, angle), rtol=1e-5)
    np.testing.assert_allclose(seen.observation[1, 16:18], (5 / 50, angle - 1), rtol=1e-5)
    np.testing.assert_allclose(seen.observation[0, 18:20], (2.5 / 50, np.arctan2(3, 4) / np.pi), rtol=1e-5)


@pytest.mark.parametrize("boundary", ["clamp", "terminate"])
@pytest.mark.slow("terminate")
def test_with_one_agent_both_modes_are_equal(boundary):
    board = parts_of([(3.0, 5.0), (6.0, 6.0)], pins=[(0, (1.0, 0.0), 0), (1, (0.0, 0.0), 0)])
    board = board.replace(fixed=np.array([False, True]))
    rng, played = np.random.default_rng(0), []
    actions = rng.uniform(-1, 1, (40, 1, 3))
    for mode in ("sequential", "simultaneous"):
        reference = NumpyPCB(board, mode=mode, boundary=boundary, step_fraction=0.3)
        reference.reset([(39.0, 15.0), (20.0, 15.0)], [0, 0])
        played.append([reference.step(action) for action in actions])
    for turns, other in zip(*played, strict=True):
        for name in turns._fields:
            np.testing.assert_array_equal(getattr(turns, name), getattr(other, name), err_msg=name)
    assert any(turns.terminated.any() for turns in played[0]) == (boundary == "terminate")
