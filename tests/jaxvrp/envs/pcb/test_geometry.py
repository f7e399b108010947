"""Plane geometry of a board against shapely, a raster, and cases that can be worked out by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shapely import LineString, Polygon, box, union_all

from jaxvrp.envs.pcb import geometry

BOARD = np.array([20.0, 16.0])
NUM_PARTS = 6


@jax.jit
def shares(centre, size, quarters, part, obstacles, outline):
    return geometry.sector_shares(centre, size, quarters, part, obstacles, outline)


fine_shares = jax.jit(
    lambda centre, size, quarters, part, obstacles, outline: geometry.sector_shares(
        centre, size, quarters, part, obstacles, outline, rays=256
    )
)


def random_parts(seed, spread=1.0):
    """Centres, sizes, quarters of `NUM_PARTS` parts, dense enough to overlap; `spread` > 1 puts some off the board."""
    rng = np.random.default_rng(seed)
    centre = BOARD * (0.5 + spread * (rng.random((NUM_PARTS, 2)) - 0.5))
    size = rng.uniform(1.0, 7.0, (NUM_PARTS, 2))
    quarters = rng.integers(0, 4, NUM_PARTS)
    return centre.astype(np.float32), size.astype(np.float32), quarters.astype(np.int32)


def seen(centre, size, quarters, part, outline=BOARD, obstacles=None, using=shares):
    """The shares of one part as NumPy, all other parts being in its way unless told."""
    if obstacles is None:
        obstacles = np.arange(len(centre)) != part
    of = (jnp.asarray(centre, jnp.float32), jnp.asarray(size, jnp.float32), jnp.asarray(quarters, jnp.int32))
    found = using(*of, jnp.int32(part), jnp.asarray(obstacles), jnp.asarray(outline, jnp.float32))
    return geometry.SectorShares(*(np.asarray(v, np.float64) for v in found))


def rectangle(centre, size, quarters):
    """A shapely box, from the sides as turned."""
    width, height = size if quarters % 2 == 0 else size[::-1]
    x, y = centre
    return box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def sector(centre, radius, quarters, index, points=300):
    """A shapely polygon for a circular sector; counter-clockwise on a screen whose y points down."""
    angles = np.deg2rad(90 * quarters + 45 * index + np.linspace(-22.5, 22.5, points))
    arc = np.stack([centre[0] + radius * np.cos(angles), centre[1] - radius * np.sin(angles)], axis=1)
    return Polygon([tuple(centre), *arc])


def exact_shares(centre, size, quarters, part, outline=BOARD):
    centre, size = centre.astype(float), size.astype(float)
    bodies = [rectangle(*of) for of in zip(centre, size, quarters, strict=True)]
    board = box(0, 0, *outline)
    part_body = bodies.pop(part)
    found = []
    for index in range(8):
        wedge = sector(centre[part], 1.5 * size[part].max(), quarters[part], index)
        off = wedge.difference(board)
        taken, body = union_all([*(wedge.intersection(b) for b in bodies), off]), wedge.intersection(part_body)
        found.append(
            (
                taken.area / wedge.area,
                body.intersection(taken).area / body.area,
                body.difference(board).area / body.area,
            )
        )
    return geometry.SectorShares(*np.array(found).T)


def shares_by_lines(centre, size, quarters, part, rays):
    """The same from one line of shapely for each ray, with the squares of the distances along it."""
    bodies = [rectangle(*of) for of in zip(centre, size, quarters, strict=True)]
    part_body, radius = bodies.pop(part), 1.5 * size[part].max()
    (x, y), off = centre[part], box(-99, -99, 99, 99).difference(box(0, 0, *BOARD))
    taken = union_all([off, *bodies])
    shapes = (taken, taken.intersection(part_body), off.intersection(part_body), part_body)

    def squares(shape):
        lines = [line for line in getattr(shape, "geoms", [shape]) if line.length]
        ends = [np.hypot(*(np.array(line.coords)[[0, -1]] - (x, y)).T) for line in lines]
        return sum(abs(b**2 - a**2) for a, b in ends)

    sums = np.zeros((8, 4))
    for ray in range(8 * rays):
        angle = np.deg2rad(90 * quarters[part] + (ray + 0.5) / rays * 45 - 22.5)
        line = LineString([(x, y), (x + radius * np.cos(angle), y - radius * np.sin(angle))])
        sums[ray // rays] += [squares(line.intersection(shape)) for shape in shapes]
    return geometry.SectorShares(sums[:, 0] / rays / radius**2, sums[:, 1] / sums[:, 3], sums[:, 2] / sums[:, 3])


@pytest.mark.parametrize("seed", range(12))
def test_sector_shares_are_the_exact_areas_of_polygons(seed):
    parts = random_parts(seed, spread=1.0 + 0.1 * seed)
    part = seed % NUM_PARTS
    found, exact = seen(*parts, part, using=fine_shares), exact_shares(*parts, part)
    assert found.los.max() > 0.1
    for name in exact._fields:
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1.5e-3, err_msg=name)


@pytest.mark.slow
def test_eight_rays_are_within_the_stated_error_of_the_exact_shares():
    errors = []
    for seed in range(40):
        parts = random_parts(seed)
        found, exact = seen(*parts, 0), exact_shares(*parts, 0)
        errors.append(
            [np.abs(getattr(found, name) - getattr(exact, name)).mean() for name in ("los", "ol", "boardmask")]
        )
    los, ol, boardmask = np.mean(errors, axis=0)
    assert los < 0.004
    assert ol < 0.003
    assert boardmask < 0.003


def test_sector_shares_against_a_raster():
    step = 0.02
    centre, size, quarters = random_parts(5, spread=1.2)
    radius, part = 1.5 * size[2].max(), 2
    line = np.arange(-radius + step / 2, radius, step)
    x, y = np.meshgrid(line, line)
    index = np.floor((np.rad2deg(np.arctan2(-y, x)) - 90 * quarters[part] + 22.5) / 45).astype(int) % 8
    x, y = x + centre[part, 0], y + centre[part, 1]

    def covers(at):
        half = (size[at] if quarters[at] % 2 == 0 else size[at, ::-1]) / 2
        return (np.abs(x - centre[at, 0]) < half[0]) & (np.abs(y - centre[at, 1]) < half[1])

    off = (x < 0) | (x > BOARD[0]) | (y < 0) | (y > BOARD[1])
    taken = np.any([covers(at) for at in range(NUM_PARTS) if at != part], axis=0) | off
    circle = np.hypot(x - centre[part, 0], y - centre[part, 1]) < radius
    found = seen(centre, size, quarters, part, using=fine_shares)
    for k in range(8):
        wedge, body = circle & (index == k), covers(part) & (index == k)
        assert found.los[k] == pytest.approx(taken[wedge].mean(), abs=0.004)
        assert found.ol[k] == pytest.approx(taken[body].mean(), abs=0.004)
        assert found.boardmask[k] == pytest.approx(off[body].mean(), abs=0.004)


@pytest.mark.parametrize("quarters", range(4))
def test_a_part_turned_with_its_surroundings_sees_the_same(quarters):
    centre, size, turns = random_parts(3, spread=1.2)
    turned = np.asarray(geometry.turned(jnp.asarray(centre - BOARD / 2), jnp.int32(quarters)))
    outline = BOARD if quarters % 2 == 0 else BOARD[::-1]
    before = seen(centre, size, turns, 1)
    after = seen(turned + outline / 2, size, (turns + quarters) % 4, 1, outline)
    assert before.ol.max() > 0.1
    assert before.boardmask.max() > 0.1
    for name in before._fields:
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=2e-6, err_msg=name)


@pytest.mark.parametrize("quarters", range(4))
def test_sector_zero_is_to_the_right_of_a_part_and_turns_with_it(quarters):
    ahead = np.array([(3.0, 0.0), (0.0, -3.0), (-3.0, 0.0), (0.0, 3.0)])[quarters]
    centre = np.array([(50.0, 50.0), 50.0 + ahead])
    found = seen(centre, [(3.0, 1.0), (1.0, 1.0)], [quarters, 0], 0, (100.0, 100.0))
    assert found.los[0] > 0.1
    assert (found.los[1:] == 0).all()
    assert (found.ol == 0).all()


def test_on_an_empty_board_a_part_sees_exactly_nothing():
    centre, size = [(100.0, 100.0), (103.0, 101.0)], [(3.0, 5.0), (4.0, 4.0)]
    assert seen(centre, size, [1, 0], 0, (200.0, 200.0)).los.max() > 0
    # The other part is there, but on the other side of the board.
    alone = seen(centre, size, [1, 0], 0, (200.0, 200.0), obstacles=[False, False])
    assert all((values == 0).all() for values in alone)


@pytest.mark.parametrize("quarters", range(4))
def test_wholly_outside_everything_is_full(quarters):
    found = seen([(-30.0, 8.0)], [(4.0, 2.0)], [quarters], 0)
    assert all((v == 1).all() for v in found)


def test_of_two_coinciding_parts_the_body_is_full():
    found = seen([(50.0, 50.0)] * 2, [(3.0, 5.0)] * 2, [1, 3], 0, (100.0, 100.0))
    np.testing.assert_allclose(found.ol, 1, atol=1e-6)
    assert (found.boardmask == 0).all()
    assert 0 < found.los.max() < 0.5


def test_parts_on_top_of_each_other_count_once():
    single = seen([(50.0, 50.0), (52.0, 51.0)], [(4.0, 4.0)] * 2, [0, 0], 0, (100.0, 100.0))
    three = seen([(50.0, 50.0), *[(52.0, 51.0)] * 3], [(4.0, 4.0)] * 4, [0, 0, 1, 2], 0, (100.0, 100.0))
    assert single.ol.max() > 0.1
    for name in single._fields:
        np.testing.assert_allclose(getattr(three, name), getattr(single, name), atol=1e-6)


def test_a_half_covered_board_edge_by_hand():
    """The centre on the left edge: half of the circle and half of the body are off the board."""
    found = seen([(0.0, 50.0)], [(2.0, 2.0)], [0], 0, (100.0, 100.0))
    expected = [0, 0, 0.5, 1, 1, 1, 0.5, 0]
    for name in found._fields:
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-6, err_msg=name)


@jax.jit
def ratios(centre, size, quarters, valid):
    """The overlap of parts on one side of the board."""
    blocks = geometry.obstructing(jnp.zeros(len(centre), jnp.int32), valid, valid)
    half = geometry.half_extent(size, quarters.astype(jnp.int32))
    return geometry.overlap_ratio(centre, half, jnp.asarray(BOARD, jnp.float32), blocks, valid, valid)


@pytest.mark.slow("1")
@pytest.mark.parametrize("extra", [1, 40])
def test_padding_changes_nothing(extra):
    """With 40 more rows, another way of sorting takes over."""
    centre, size, quarters = random_parts(7)
    junk = np.random.default_rng(0).uniform(0, 10, (extra, 2)).astype(np.float32)
    padded = (np.concatenate([centre, junk]), np.concatenate([size, junk]), np.concatenate([quarters, junk[:, 0]]))
    obstacles = np.arange(NUM_PARTS + extra) < NUM_PARTS
    obstacles[1] = False
    valid = jnp.arange(NUM_PARTS + extra) < NUM_PARTS
    before, after = seen(centre, size, quarters, 1), seen(*padded, 1, obstacles=obstacles)
    for name in before._fields:
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-6)

    alone = ratios(centre, size, quarters, valid[:NUM_PARTS])
    together = ratios(*padded, valid)
    np.testing.assert_allclose(together[:NUM_PARTS], alone, rtol=1e-6)
    assert (together[NUM_PARTS:] == 0).all()


@pytest.mark.slow("1", "3")
@pytest.mark.parametrize("rays", [1, 3, 4, 8])
def test_along_each_ray_the_union_is_exact(rays):
    """Rays as lines of shapely; an odd number has rays along the axes, where a slab is never left."""
    centre, size, quarters = random_parts(3, spread=1.2)
    exact = shares_by_lines(centre.astype(float), size.astype(float), quarters, 1, rays)
    found = seen(centre, size, quarters, 1, using=jax.jit(functools.partial(geometry.sector_shares, rays=rays)))
    assert exact.ol.max() > 0.1
    for name in exact._fields:
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-5, err_msg=name)


def test_no_rays_are_refused():
    with pytest.raises(ValueError, match="rays=0: a sector needs at least 1 ray"):
        seen(*random_parts(0), 0, using=functools.partial(geometry.sector_shares, rays=0))


@pytest.mark.parametrize("count", [*range(1, 18), 32])
def test_the_network_sorts(count):
    """A network sorts everything if it sorts all zeros and ones; from 12 on, a sample of them."""
    rng = np.random.default_rng(count)
    bits = np.arange(2**count) if count < 12 else rng.integers(0, 2**count, 2000)
    rows = list((bits >> np.arange(count)[:, None]) & 1)
    for low, high in geometry._comparators(count):
        rows[low], rows[high] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
    assert (np.diff(rows, axis=0) >= 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_overlap_ratio_is_that_of_polygons(seed):
    centre, size, quarters = random_parts(seed, spread=1.3)
    side, valid = np.array([0, 1, 0, 0, 1, 0]), np.array([1, 1, 1, 1, 1, 0], bool)
    bodies = [rectangle(*of) for of in zip(centre.astype(float), size.astype(float), quarters, strict=True)]
    board = box(0, 0, *BOARD)
    exact = np.zeros(NUM_PARTS)
    for a in np.flatnonzero(valid):
        others = [b for b in np.flatnonzero(valid) if b != a and side[a] == side[b]]
        common = sum(bodies[a].intersection(bodies[b]).area for b in others)
        exact[a] = (common + bodies[a].difference(board).area) / bodies[a].area
    blocks = geometry.obstructing(jnp.asarray(side), jnp.asarray(valid), jnp.asarray(valid))
    half = geometry.half_extent(jnp.asarray(size), jnp.asarray(quarters))
    found = geometry.overlap_ratio(
        jnp.asarray(centre), half, jnp.asarray(BOARD), blocks, jnp.asarray(valid), jnp.asarray(valid)
    )
    assert exact.max() > 0.3
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)
    assert not geometry.is_legal(found).all()


def test_coinciding_parts_overlap_more_than_once_and_touching_parts_not_at_all():
    blocks = geometry.obstructing(jnp.zeros(3, jnp.int32), jnp.ones(3, bool), jnp.ones(3, bool))
    outline, half = jnp.array([20.0, 16.0]), jnp.array([[0.93, 0.47]] * 3)
    three = geometry.overlap_ratio(jnp.full((3, 2), 5.1), half, outline, blocks, jnp.ones(3, bool), jnp.ones(3, bool))
    np.testing.assert_allclose(three, 2, rtol=1e-6)
    row = jnp.array([[0.93, 0.47], [0.93 + 1.86, 0.47], [20.0 - 0.93, 16.0 - 0.47]])
    touching = geometry.overlap_ratio(row, half, outline, blocks, jnp.ones(3, bool), jnp.ones(3, bool))
    assert geometry.is_legal(touching).all()
    assert not geometry.is_legal(jnp.float32(2e-5))


def test_a_part_inside_the_board_is_exactly_inside():
    rng = np.random.default_rng(0)
    half = rng.uniform(0.1, 3.0, (500, 2)).astype(np.float32)
    centre = (half + 1e-3 + rng.random((500, 2)) * (BOARD - 2 * half - 2e-3)).astype(np.float32)
    assert (np.asarray(jax.jit(geometry.area_outside)(centre, half, jnp.asarray(BOARD, jnp.float32))) == 0).all()


coordinate = st.sampled_from([0.0, 1e-6, 2.0, 5.0, 10.0, -3.0, 20.0, 1e4, -1e4]) | st.floats(-30, 30, width=32)
length = st.sampled_from([0.0, 1e-6, 2.0, 4.0]) | st.floats(0, 30, width=32)


@settings(max_examples=60, deadline=None)
@given(
    centre=st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=3),
    size=st.lists(st.tuples(length, length), min_size=3, max_size=3),
    quarters=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    outline=st.sampled_from([(20.0, 16.0), (0.0, 0.0), (1e-6, 5.0)]),
)
@example(centre=[(20.0, 0.0), (0.0, 0.0), (0.0, 1e-6)], size=[(0.0, 0.0)] * 3, quarters=[0] * 3, outline=(20.0, 16.0))
def test_whatever_the_parts_all_numbers_are_finite_and_shares_are_shares(centre, size, quarters, outline):
    found = seen(centre, size, quarters, 0, outline)
    for values in found:
        assert ((values >= 0) & (values <= 1)).all()
    assert (found.ol >= found.boardmask - 1e-6).all()
    centre, size, quarters = (jnp.asarray(v) for v in (centre, size, quarters))
    half, valid = geometry.half_extent(size, quarters), jnp.ones(3, bool)
    ratio = geometry.overlap_ratio(
        centre, half, jnp.array(outline), geometry.obstructing(quarters % 2, valid, valid), valid, valid
    )
    assert (np.isfinite(ratio) & (ratio >= 0)).all()
    vector = geometry.mean_neighbour(centre, jnp.array([False, True, True]), jnp.int32(0))
    polar = np.asarray(geometry.polar(vector, jnp.float32(0.0)))
    assert np.isfinite(polar).all()
    # The angle of a vector to the left and a hair down is above -pi by less than float32 resolves.
    assert -1 <= polar[1] <= 1


def test_a_batch_of_boards_is_the_boards_one_by_one():
    boards = [random_parts(seed, spread=1.2) for seed in range(3)]
    centre, size, quarters = (jnp.stack(arrays) for arrays in zip(*boards, strict=True))
    obstacles = jnp.arange(NUM_PARTS) != 1
    batched = jax.jit(jax.vmap(geometry.sector_shares, in_axes=(0, 0, 0, None, None, None)))(
        centre, size, quarters, jnp.int32(1), obstacles, jnp.asarray(BOARD, jnp.float32)
    )
    for index, board in enumerate(boards):
        for name, value in seen(*board, 1)._asdict().items():
            np.testing.assert_allclose(getattr(batched, name)[index], value, atol=1e-6)
