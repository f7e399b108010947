"""Random boards: what every one of them has."""

import jax
import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs.pcb import factory
from jaxvrp.envs.pcb.problem.board import SCHEMA, check
from jaxvrp.envs.pcb.problem.generator import Parameters, generate, make_parameters

COUNT = 1000
KEYS = jax.random.split(jax.random.key(1), COUNT)
DRAW = jax.jit(jax.vmap(generate, (0, None)))
SORTS = {
    "default": {},
    "small": {"min_parts": 2, "max_parts": 3},
    "one size": {"min_parts": 8, "max_parts": 8, "max_degree": 3},
    "pairs": {"max_parts": 4, "max_degree": 2},
    "full": {"min_utilisation": 0.45, "max_utilisation": 0.45},
}


@pytest.fixture(scope="module", params=SORTS.values(), ids=SORTS)
def drawn(request):
    """Parameters, and `COUNT` boards drawn from them, as NumPy arrays."""
    of = make_parameters(**request.param)
    return of, jax.tree.map(np.asarray, DRAW(KEYS, of))


def degrees(boards):
    """`[COUNT, K]` pins of each net."""
    nets = np.arange(boards.num_nets)
    return (boards.pin_net[:, :, None] == nets).sum(axis=1)


def test_every_board_passes_the_check_and_has_the_stated_sizes(drawn):
    of, boards = drawn
    for index in range(0, COUNT, 10):
        check(jax.tree.map(lambda leaf, at=index: leaf[at], boards))
    assert (boards.num_components, boards.num_pins, boards.num_nets) == (
        of.max_parts + 1,
        4 * of.max_parts,
        2 * of.max_parts,
    )
    for name, layout in SCHEMA.items():
        array = getattr(boards, name)
        assert array.dtype == {float: np.float32, int: np.int32, bool: np.bool_}[layout.kind], name
        assert name.startswith("target") == (not np.isfinite(array).all()), name


def test_the_ic_is_the_one_fixed_part_and_inside(drawn):
    _, boards = drawn
    assert ((boards.fixed & boards.exists).sum(axis=1) == 1).all() and boards.fixed[:, 0].all()
    size = np.where(boards.orientation[:, :1] % 2, boards.size[:, 0, ::-1], boards.size[:, 0])
    assert (boards.position[:, 0] - size / 2 >= -1e-5).all()
    assert (boards.position[:, 0] + size / 2 <= boards.outline + 1e-5).all()
    assert set(boards.orientation[:, 0].tolist()) == {0, 1, 2, 3}


def test_the_number_of_parts_covers_its_range_and_their_centres_are_on_the_board(drawn):
    of, boards = drawn
    parts = boards.movable.sum(axis=1)
    assert set(parts.tolist()) == set(range(of.min_parts, of.max_parts + 1))
    share = (boards.position / boards.outline[:, None])[boards.movable]
    assert share.min() > 0.049 and share.max() < 0.951 and np.ptp(share) > 0.85


def test_utilisation_is_in_its_range_and_spread_over_it(drawn):
    of, boards = drawn
    assert (boards.size[boards.exists] > 0).all()
    area = boards.size.astype(np.float64).prod(axis=-1).sum(axis=1)
    share = area / boards.outline.astype(np.float64).prod(axis=1)
    low, high = of.min_utilisation, of.max_utilisation
    assert share.min() > low - 1e-6 and share.max() < high + 1e-6
    assert np.ptp(share) >= 0.95 * (high - low)


def test_degrees_are_in_their_range_and_ground_is_one_net(drawn):
    of, boards = drawn
    degree = degrees(boards)
    assert set(degree[boards.power_rail >= 0].tolist()) == set(range(2, min(of.max_degree, of.max_parts + 1) + 1))
    assert not degree[boards.power_rail < 0].any()
    assert ((boards.power_rail == 1).sum(axis=1) == 1).all() and (boards.power_rail <= 1).all()
    assert ((boards.power_rail == 0).sum(axis=1) >= 1).all()


def test_parts_have_two_pads_on_two_nets_and_the_ic_at_most_one_pin_a_net(drawn):
    _, boards = drawn
    part, net = boards.pin_component, boards.pin_net
    for component in range(1, boards.num_components):
        pads = (part == component) & (net >= 0)
        assert (pads.sum(axis=1) == 2 * boards.exists[:, component]).all()
    for index in range(COUNT):
        used = net[index] >= 0
        pairs = list(zip(part[index][used].tolist(), net[index][used].tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        assert (0, 0) in pairs


def test_pins_lie_within_their_parts_and_apart(drawn):
    _, boards = drawn
    size = np.take_along_axis(boards.size, boards.pin_component[:, :, None], axis=1)
    used = boards.pin_net >= 0
    assert (np.abs(boards.pin_offset[used]) <= size[used] / 2).all()
    for index in range(0, COUNT, 20):
        pins = np.column_stack([boards.pin_component[index], boards.pin_offset[index]])[used[index]]
        assert len(np.unique(pins, axis=0)) == len(pins)


def test_a_key_gives_its_board_alone_or_in_a_batch():
    of = make_parameters()
    batch, alone = DRAW(KEYS, of), jax.jit(generate)(KEYS[2], of)
    for name in SCHEMA:
        np.testing.assert_allclose(getattr(batch, name)[2], getattr(alone, name), rtol=1e-6, err_msg=name)
    assert not np.array_equal(batch.outline[0], batch.outline[1])


def test_utilisation_can_differ_within_a_batch():
    shares = np.array([0.1, 0.2, 0.4], np.float32)
    of = jax.vmap(lambda share: Parameters(max_parts=4, min_utilisation=share, max_utilisation=share))(shares)
    boards = jax.jit(jax.vmap(generate))(jax.random.split(jax.random.key(0), 3), of)
    found = boards.size.prod(axis=-1).sum(axis=1) / boards.outline.prod(axis=1)
    np.testing.assert_allclose(found, shares, rtol=1e-5)


WRONG = {
    "too few": ({"min_parts": 1}, "min_parts"),
    "a net of one": ({"max_degree": 1}, "max_degree"),
    "too full": ({"max_utilisation": 0.5}, "max_utilisation"),
    "empty": ({"min_utilisation": 0.0}, "min_utilisation"),
    "crossed parts": ({"min_parts": 9, "max_parts": 8}, "min_parts is 9, above max_parts, 8; lower"),
    "crossed shares": ({"min_utilisation": 0.4}, "min_utilisation is 0.4, above max_utilisation, 0.3; lower"),
    "unknown": ({"parts": 3}, "unknown board parameter 'parts'"),
}


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG)
def test_wrong_parameters_are_refused_by_name(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        make_parameters(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"num_boards": 10**9}, "num_boards is 1000000000; it must be >= 1 and <= 1000000"),
        ({"max_parts": 10**9}, "max_parts is 1000000000; it must be >= 2 and <= 10000"),
        ({"rays": 2**31 - 1}, "rays is 2147483647; it must be >= 1 and <= 1000"),
    ],
)
def test_more_than_a_machine_holds_is_refused_at_once(parameters, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        jaxvrp.make("pcb", **parameters)


@pytest.mark.slow
def test_many_boards_are_drawn_and_wired_piece_by_piece(monkeypatch):
    """So that Ctrl-C is heard; the boards are the same, and so are their tables."""
    whole = jaxvrp.make("pcb", num_boards=5, max_parts=3)
    drawn = []
    generate_all = factory._generate_all
    monkeypatch.setattr(factory, "PAIRS", 2 * 4**2)
    monkeypatch.setattr(factory, "_generate_all", lambda *given: drawn.append(len(given[0])) or generate_all(*given))
    pieces = jaxvrp.make("pcb", num_boards=5, max_parts=3)
    assert drawn == [2, 2, 1]
    for leaf, other in zip(jax.tree.leaves(whole), jax.tree.leaves(pieces), strict=True):
        np.testing.assert_array_equal(leaf, other, strict=True)
