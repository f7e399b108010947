"""Annealing and random placements against plain NumPy, known optima, and the best known published placements."""

import csv
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.pcb.baselines.annealing import (
    Poses,
    anneal,
    make_tables,
    net_widths,
    overlap_change,
    wire_change,
)
from jaxvrp.envs.pcb.baselines.random_placement import random_legal
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import as_float32, make_board, pad, stack
from jaxvrp.envs.pcb.problem.generator import generate, make_parameters
from jaxvrp.envs.pcb.problem.inspection import warnings_of
from jaxvrp.envs.pcb.problem.netlist import make_netlist
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb

LEGAL = 1e-5
GENERATED, COPIES = 48, 500
RESTARTS = 8
# Components, pins and nets of the padded boards, and what `net_widths` says of all of them: one compilation serves all.
SIZES, WIDTHS = (9, 24, 9), (2, 4)
# A fixed body of 4 x 4 with a pin in its centre (net 0) and one on its right edge (net 1). Net 0 also holds a pin 0.25
# from the short edge of a 2 x 1 part, so it cannot be shorter than 2 + 0.25; net 1 the centre of a 1 x 1 part: 0.5.
BESIDE_A_BODY = {
    "outline": [10, 9],
    "size": [[4, 4], [2, 1], [1, 1]],
    "pin_component": [0, 0, 1, 2],
    "pin_offset": [[0, 0], [2, 0], [0.75, 0], [0, 0]],
    "pin_net": [0, 1, 0, 1],
    "power_rail": [0, 0],
    "position": [[5, 4.5], [0, 0], [0, 0]],
    "fixed": [True, False, False],
}
# Neither fits beside the other.
TWO_LARGE = {
    "outline": [7, 7],
    "size": [[6, 6], [5, 6]],
    "pin_component": [0, 1],
    "pin_offset": [[0, 0], [0, 0]],
    "pin_net": [0, 0],
    "power_rail": [0],
}
# On the board only after a quarter turn; its pin is 3 from the centre, the other part's is in its corner.
LONG = {
    "outline": [10, 3],
    "size": [[2, 8], [1, 1]],
    "pin_component": [0, 1],
    "pin_offset": [[0, 3], [0.5, 0.5]],
    "pin_net": [0, 0],
    "power_rail": [0],
}
# In line, as there is no room for anything else: legally 2 x 4 long, but coinciding costs less than that for most of
# the annealing.
PULLED = {
    "outline": [12, 0.15],
    "size": [[4, 0.1], [4, 0.1]],
    "pin_component": [0, 0, 1, 1],
    "pin_offset": np.zeros((4, 2)),
    "pin_net": [0, 1, 0, 1],
    "power_rail": [0, 0],
}
BOARDS = {
    "beside a body": (BESIDE_A_BODY, 2.75),
    "two sides": (TWO_LARGE | {"side": [0, 1]}, 0.0),
    "one side": (TWO_LARGE, None),
    "long": (LONG, None),
    "pulled into each other": (PULLED, 8.0),
}

LENGTHS = {"outline", "size", "pin_offset", "position"}


def rectangles(board, position, orientation):
    """`[N, 4]`, left, top, right, bottom, in double precision."""
    size = np.where(np.asarray(orientation)[:, None] % 2 == 1, board.size[:, ::-1], board.size).astype(float)
    return np.concatenate([position - size / 2, position + size / 2], axis=1)


def common(a, b):
    return max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)


def overlap_ratios(board, position, orientation):
    """Of the parts that exist: area in common with others on their side, and off the board, as a share of their own."""
    bodies, outline = rectangles(board, position, orientation), (0, 0, *np.asarray(board.outline, float))
    parts = np.flatnonzero(board.exists)
    ratios = []
    for i in parts:
        area = np.prod(np.asarray(board.size[i], float))
        with_others = sum(common(bodies[i], bodies[j]) for j in parts if j != i and board.side[i] == board.side[j])
        ratios.append((with_others + area - common(bodies[i], outline)) / area)
    return np.array(ratios)


def at(tree, *index):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


@pytest.fixture(scope="module")
def run():
    """`run(boards)`: placements of a batch of five padded boards."""
    task = jax.jit(jax.vmap(functools.partial(anneal, widths=WIDTHS, num_moves=8000, num_restarts=RESTARTS)))
    return lambda boards: task(boards, jax.random.split(jax.random.key(0), 5))


@pytest.fixture(scope="module")
def annealed(run):
    """By name: the board, padded, and its placements; all from one call on a batch."""
    batch = stack([pad(make_board(**board), *SIZES) for board, _ in BOARDS.values()])
    found = run(batch)
    assert found.position.shape == (len(BOARDS), RESTARTS, SIZES[0], 2) and found.position.dtype == jnp.float32
    return {name: (at(batch, row), at(found, row)) for row, name in enumerate(BOARDS)}


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.slow("beside a body", "two sides")
def test_what_annealing_returns_is_what_it_says(annealed, name, signal_hpwl):
    board, found = annealed[name]
    for row in range(RESTARTS):
        position, turns = found.position[row], found.orientation[row]
        legal = (overlap_ratios(board, position, turns) <= LEGAL).all()
        assert found.legal[row] == legal == (name != "one side")
        assert found.hpwl[row] == pytest.approx(signal_hpwl(board, position, turns) if legal else np.inf, abs=1e-5)
        assert np.isin(turns, range(4)).all() and np.isfinite(position).all()


@pytest.mark.parametrize("scale", [1024.0, 1 / 1024])
def test_the_same_boards_in_other_lengths_have_the_same_placements(run, annealed, scale):
    """To the last bit: these scales change no rounding."""
    boards = [
        board | {name: np.multiply(board[name], scale) for name in LENGTHS & board.keys()}
        for board, _ in BOARDS.values()
    ]
    found = run(stack([pad(make_board(**board), *SIZES) for board in boards]))
    for row, (_, before) in enumerate(annealed.values()):
        np.testing.assert_array_equal(found.position[row], before.position * scale)
        np.testing.assert_array_equal(found.orientation[row], before.orientation)
        np.testing.assert_array_equal(found.hpwl[row], before.hpwl * scale)


def test_fixed_parts_and_padding_stay(annealed):
    for board, found in annealed.values():
        still = ~board.movable
        np.testing.assert_array_equal(found.position[:, still], np.stack([board.position[still]] * RESTARTS))
        np.testing.assert_array_equal(found.orientation[:, still], np.stack([board.orientation[still]] * RESTARTS))


@pytest.mark.parametrize("name", ["beside a body", "two sides", "pulled into each other"])
def test_a_known_optimum_is_reached(annealed, name):
    _, found = annealed[name]
    assert found.hpwl.min() == pytest.approx(BOARDS[name][1], abs=0.05)
    assert found.hpwl.min() >= BOARDS[name][1] - 1e-4


def test_parts_on_two_sides_may_coincide_and_on_one_may_not(annealed):
    board, found = annealed["two sides"]
    bodies = rectangles(board, found.position[0], found.orientation[0])
    assert common(*bodies[:2]) > 29
    assert np.isinf(annealed["one side"][1].hpwl).all()


def test_a_part_that_fits_only_after_a_turn_is_turned(annealed):
    _, found = annealed["long"]
    assert found.legal.all() and (found.orientation[:, 0] % 2 == 1).all()


def test_moves_that_are_none_are_refused():
    board = make_board(**BESIDE_A_BODY)
    for wrong in ({"num_moves": 0}, {"num_restarts": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is 0; give at least 1"):
            anneal(board, jax.random.key(0), widths=net_widths(board), **wrong)


@pytest.fixture(scope="module")
def random_boards():
    """Generated boards of two sides, in a batch, some with padding."""
    of = make_parameters(min_parts=3, max_parts=9)
    boards = jax.jit(jax.vmap(generate, (0, None)))(jax.random.split(jax.random.key(3), GENERATED), of)
    side = np.arange(boards.num_components) % 5 == 4
    return at(boards.replace(side=np.broadcast_to(side, boards.side.shape).astype(np.int32)))


def test_the_changes_of_many_moves_add_up_to_the_change_of_all(random_boards, signal_hpwl):
    moves, copies = 300, 3
    board = at(random_boards, 7)
    rng = np.random.default_rng(0)
    parts = board.num_components

    def draw(*shape):
        x, y = (rng.uniform(-1, length + 1, (*shape, copies)).astype(np.float32) for length in board.outline)
        return Poses(x, y, rng.integers(0, 4, (*shape, copies)).astype(np.int32))

    start, to = draw(parts), draw(moves)
    moved = rng.choice(np.flatnonzero(board.movable), moves)

    @jax.jit
    def follow(poses, moved, to):
        tables = make_tables(as_float32(board), net_widths(board))

        def step(carry, move):
            poses, total = carry
            part, pose = move
            change = (wire_change(tables, poses, part, pose), overlap_change(tables, poses, part, pose))
            total = tuple(a + b for a, b in zip(total, change, strict=True))
            return (poses.with_part(part, pose), total), None

        return jax.lax.scan(step, (poses, (jnp.zeros(copies), jnp.zeros(copies))), (moved, to))[0]

    end, (wire, overlap) = follow(start, moved, to)

    def exact(poses, copy):
        place, turns = np.stack([poses.x[:, copy], poses.y[:, copy]], axis=1).astype(float), np.asarray(poses.quarters)
        bodies = rectangles(board, place, turns[:, copy])
        pairs = itertools.combinations(np.flatnonzero(board.exists), 2)
        shared = sum(common(bodies[i], bodies[j]) for i, j in pairs if board.side[i] == board.side[j])
        return np.array([signal_hpwl(board, place, turns[:, copy]), shared])

    for copy in range(copies):
        difference = exact(end, copy) - exact(start, copy)
        assert np.abs(difference).min() > 0.1
        np.testing.assert_allclose([wire[copy], overlap[copy]], difference, atol=2e-3)


@pytest.fixture(scope="module")
def drawn(random_boards):
    """A batch of boards, the generated ones first, then `BESIDE_A_BODY`, then `TWO_LARGE`; and random placements."""
    sizes = random_boards.num_components, random_boards.num_pins, random_boards.num_nets
    hand = [pad(make_board(**board), *sizes) for board in (BESIDE_A_BODY, TWO_LARGE)]
    boards = jax.tree.map(
        lambda many, *single: np.concatenate([many, *(np.repeat(v[None], COPIES, axis=0) for v in single)]),
        random_boards,
        *hand,
    )
    keys = jax.random.split(jax.random.key(0), boards.exists.shape[0])
    draw = functools.partial(random_legal, tries=16, restarts=4)
    return boards, at(jax.jit(jax.vmap(draw))(boards, keys))


def test_random_placements_are_legal(drawn):
    boards, (position, turns, legal) = drawn
    assert legal[:GENERATED].all()
    for row in range(GENERATED + 10):
        board = at(boards, row)
        assert (overlap_ratios(board, position[row], turns[row]) <= LEGAL).all()
        np.testing.assert_array_equal(position[row][~board.movable], board.position[~board.movable].astype(np.float32))
        np.testing.assert_array_equal(turns[row][~board.movable], board.orientation[~board.movable])


def test_random_placements_spread_over_the_board(drawn):
    _, (position, turns, legal) = drawn
    rows = slice(GENERATED, GENERATED + COPIES)
    assert legal[rows].all()
    small = position[rows, 2]
    # The board about the body is symmetric: every quarter of it gets as many, and each edge is come close to.
    quarter = (small[:, 0] > 5) * 2 + (small[:, 1] > 4.5)
    assert np.bincount(quarter).min() > COPIES / 5 and np.bincount(turns[rows, 2]).min() > COPIES / 5
    assert (small.min(axis=0) < 0.6).all() and (small.max(axis=0) > [9.4, 8.4]).all()


def test_where_no_random_placement_is_legal_it_is_said(drawn):
    _, (position, _, legal) = drawn
    assert not legal[GENERATED + COPIES :].any() and np.isfinite(position).all()


def test_a_board_is_measured_as_in_plain_python(random_boards, signal_hpwl):
    board = at(random_boards, int(np.argmin(random_boards.exists.sum(axis=1))))
    rng = np.random.default_rng(1)
    position = rng.uniform(0, 10, (board.num_components, 2)).astype(np.float32)
    turns = rng.integers(0, 4, board.num_components).astype(np.int32)
    measures = jax.jit(measure_board)(board, position, turns)
    np.testing.assert_allclose(
        measures.overlap[board.exists], overlap_ratios(board, position, turns), rtol=1e-4, atol=1e-5
    )
    assert measures.hpwl == pytest.approx(signal_hpwl(board, position, turns), rel=1e-5)


FIXED_BADLY = {
    # A connector half over the right edge with its pad 1 beyond it, and a plate under it, also fixed.
    "outline": [10, 8],
    "size": [[4, 4], [3, 3], [2, 1]],
    "pin_component": [0, 2],
    "pin_offset": [[1, 0], [0.5, 0]],
    "pin_net": [0, 0],
    "power_rail": [0],
    "position": [[10, 4], [9, 4], [5, 1]],
    "fixed": [True, True, False],
}


def test_only_what_can_move_is_judged():
    """The pad of the connector is at (11, 4), and that of the part half a unit from its edges, on the board."""
    board = make_board(**FIXED_BADLY)
    found = jax.jit(functools.partial(anneal, widths=net_widths(board), num_moves=4000, num_restarts=RESTARTS))(
        board, jax.random.key(0)
    )
    assert found.legal.all() and found.hpwl.min() == pytest.approx(2.5 + 1.5, abs=1e-2)
    measures = jax.jit(measure_board)(board, board.position.astype(np.float32), board.orientation)
    assert measures.overlap.tolist() == [0, 0, 0]
    over = measure_board(board, jnp.asarray([[10, 4], [9, 4], [8.5, 4]], jnp.float32), board.orientation).overlap
    np.testing.assert_allclose(over, [1.5 / 16, 2 / 9, 1.5 / 2 + 2 / 2], rtol=1e-5)


def test_warnings_name_what_is_not_judged_and_what_never_fits():
    netlist = make_netlist(make_board(**FIXED_BADLY | {"size": [[4, 4], [3, 3], [11, 1]]}), "odd", ("J1", "B", "U1"))
    over, on, large = warnings_of(netlist)
    assert over.startswith("each of the parts 'J1', 'B' is fixed over the edge of the board; it counts only where")
    assert on.startswith("each of the parts 'J1', 'B' is fixed on another fixed part")
    assert large == "part 'U1' is larger than the board; no placement is legal, correct its size"
    assert list(warnings_of(make_netlist(make_board(**BESIDE_A_BODY)))) == []


@pytest.mark.slow
def test_the_published_boards_come_near_their_best_known_placements(data_folder, run, signal_hpwl):
    folder = data_folder / "rl_pcb"
    netlists = read_pcb(folder / "base" / "evaluation.pcb").boards
    boards = stack([netlist.board for netlist in (*netlists, *netlists[:2])])
    assert net_widths(boards) == WIDTHS and boards.num_pins == SIZES[1]
    with (folder / "best_known_zero_overlap.csv").open() as table:
        rows = [row for row in csv.DictReader(table) if row["split"] == "evaluation"]
    best = [next(float(r["signal_hpwl_mm"]) for r in rows if r["index"] == str(index)) for index in range(3)]
    found = run(boards)
    assert found.legal.mean() > 0.9
    for index, known in enumerate(best):
        board, lengths = at(boards, index), np.asarray(found.hpwl[index])
        row = lengths.argmin()
        placement = found.position[index, row], np.asarray(found.orientation[index, row])
        assert 0.98 * known <= lengths[row] <= 1.15 * known
        assert lengths[row] == pytest.approx(signal_hpwl(board, *placement), abs=1e-4)
        assert (overlap_ratios(board, *placement) <= LEGAL).all()
