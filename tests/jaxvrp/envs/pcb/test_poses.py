"""Turns, headings, pads and the edge of the board, by hand."""

import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.pcb import geometry


def test_turned_offsets_are_those_of_the_file_format():
    """(x, y), (y, -x), (-x, -y), (-y, x); and any integer counts modulo 4."""
    expected = np.array([(3.0, 1.0), (1.0, -3.0), (-3.0, -1.0), (-1.0, 3.0)])
    for turn in range(-4, 8):
        np.testing.assert_array_equal(geometry.turned(jnp.array([3.0, 1.0]), jnp.int32(turn)), expected[turn % 4])
    half = geometry.half_extent(jnp.array([[4.0, 2.0]] * 4), jnp.arange(4))
    np.testing.assert_array_equal(half, [(2, 1), (1, 2), (2, 1), (1, 2)])


def test_pads_are_placed_by_the_parts_they_are_on():
    centre, quarters = jnp.array([(10.0, 10.0), (3.0, 4.0)]), jnp.array([0, 1])
    pads = geometry.pad_positions(
        centre, quarters, jnp.array([1, 0, 1]), jnp.array([(1.0, 0.0), (1.0, 2.0), (0.0, 1.0)])
    )
    np.testing.assert_array_equal(pads, [(3, 3), (11, 12), (4, 4)])


def test_headings_and_polar_form_undo_each_other_with_y_up():
    angle = jnp.linspace(-3.1, 3.1, 25)
    length, share = np.asarray(geometry.polar(3.0 * geometry.heading(angle), jnp.float32(6.0))).T
    np.testing.assert_allclose(length, 0.5, rtol=1e-6)
    np.testing.assert_allclose(share, angle / np.pi, atol=1e-6)
    np.testing.assert_allclose(geometry.heading(jnp.float32(np.pi / 2)), (0, -1), atol=1e-7)
    np.testing.assert_array_equal(
        geometry.polar(jnp.array([(0.0, 0.0), (-2.0, 0.0)]), jnp.float32(2.0)), [(0, 0), (1, 1)]
    )


def test_a_part_has_left_when_centre_and_body_are_off_the_board():
    outline, half = jnp.array([20.0, 16.0]), jnp.array([2.0, 1.0])
    cases = [((-1.9, 8), False), ((-2.0, 8), True), ((10, 16.9), False), ((10, 17.1), True), ((21, 17), True)]
    cases += [((10.0, 8.0), False), ((22.5, 8), True), ((19.9, 15.9), False)]
    for centre, gone in cases:
        assert bool(geometry.has_left(jnp.array(centre, jnp.float32), half, outline)) == gone, centre
    # Without a body, the centre alone decides: on the edge is on the board.
    assert not geometry.has_left(jnp.array([0.0, 5.0]), jnp.zeros(2), outline)
    assert geometry.has_left(jnp.array([-0.1, 5.0]), jnp.zeros(2), outline)


def test_mean_neighbour_counts_the_part_itself():
    centre = jnp.array([(0.0, 0.0), (6.0, 3.0), (0.0, 6.0), (100.0, 100.0)])
    mean = geometry.mean_neighbour(centre, jnp.array([False, True, True, False]), jnp.int32(0))
    np.testing.assert_allclose(mean, (2, 3), rtol=1e-6)
    np.testing.assert_array_equal(geometry.mean_neighbour(centre, jnp.zeros(4, bool), jnp.int32(1)), (0, 0))
