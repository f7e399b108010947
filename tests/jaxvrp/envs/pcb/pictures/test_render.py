"""Pictures of boards show what the board is."""

import numpy as np
import pytest
import shapely
from matplotlib.colors import to_hex

from jaxvrp.envs.pcb import pad, stack
from jaxvrp.envs.pcb.pictures import board_view, draw, draw_board
from jaxvrp.envs.pcb.problem.board import make_board


@pytest.fixture(scope="module")
def board(make):
    return make(pin_net=[0, 1, 0, 1, 1, 2], power_rail=[1, 0, 2])


def _random_board(parts, seed, extent=1.0):
    """Parts anywhere, some beyond the edge if `extent` is above 1; pads anywhere on them, on a quarter of nets."""
    rng = np.random.default_rng(seed)
    outline, size = np.array([24.0, 16.0]), rng.uniform(0.5, 3.0, (parts, 2))
    component = np.repeat(np.arange(parts), 2)
    return make_board(
        outline,
        size,
        component,
        rng.uniform(-0.4, 0.4, (2 * parts, 2)) * size[component],
        rng.integers(0, max(parts // 4, 2), 2 * parts),
        np.arange(max(parts // 4, 2)) % 4 == 3,
        position=outline * (0.5 + extent * rng.uniform(-0.5, 0.5, (parts, 2))),
        orientation=rng.integers(0, 4, parts),
        fixed=np.arange(parts) == 0,
        side=rng.integers(0, 2, parts),
    )


def _view(placement):
    figure = draw.board_figure(placement, "", 60)
    figure.canvas.draw()
    return figure.axes[0]


# --- one board ------------------------------------------------------------------------------------------------------


def test_parts_pads_and_notches_lie_where_they_belong(board, boxes, shown):
    shown = shown(_view(draw.measure_placement(board, ("IC", "A", "B"), None, None)))
    # Turned by a quarter or three, a part of 2 x 1 is 1 x 2.
    assert np.allclose(boxes(shown["parts"]), [[7, 5, 13, 9], [2.5, 3, 3.5, 5], [14.25, 10.5, 15.75, 13.5]])
    assert np.allclose(boxes(shown["fixed"]), [[7, 5, 13, 9]])
    pads = [[7.5, 8], [12.5, 8], [3, 4.5], [3, 3.5], [15, 11], [15, 13]]
    assert np.allclose(shown["pads"].get_offsets(), pads)
    # Counter-clockwise, the upper left corner goes to the lower left, and three times to the upper right.
    corners = [path.vertices[0] for path in shown["notches"].get_paths()]
    assert np.allclose(corners, [[7, 5], [2.5, 5], [15.75, 10.5]])
    colours = [to_hex(colour).upper() for colour in shown["pads"].get_facecolors()]
    assert colours == [board_view.POWER, board_view.COLOURS[0]] * 2 + [board_view.COLOURS[0], board_view.POWER]
    assert not shown["faults"].get_paths()


def test_y_points_down_and_the_sides_differ(board, shown):
    axes = _view(draw.measure_placement(board.replace(side=np.array([0, 1, 0], np.int32)), (), None, None))
    assert axes.yaxis_inverted() and not axes.xaxis_inverted()
    faces = [to_hex(colour).upper() for colour in shown(axes)["parts"].get_facecolors()]
    assert faces == [board_view.FIXED, board_view.BOTTOM, board_view.TOP]


def test_wires_are_shortest_trees_of_signal_nets():
    from scipy.sparse.csgraph import minimum_spanning_tree  # here, since it takes a second
    from scipy.spatial.distance import cdist

    for seed in range(5):
        placement = draw.measure_placement(_random_board(20, seed), (), None, None)
        all_pads = board_view.pads_of(placement)
        ends, nets = board_view.wires_of(placement.board, all_pads)
        assert set(nets) <= set(np.flatnonzero(placement.board.power_rail == 0))
        for net in np.flatnonzero(placement.board.power_rail == 0):
            pads = all_pads[placement.board.pin_net == net]
            length = np.linalg.norm(np.diff(ends[nets == net], axis=1), axis=-1).sum()
            assert len(ends[nets == net]) == max(len(pads) - 1, 0)
            assert length == pytest.approx(minimum_spanning_tree(cdist(pads, pads)).sum())
    assert board_view.spanning_tree(np.zeros((3, 2))).tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize("extent", [0.6, 1.0, 1.6])
def test_red_is_what_overlaps_or_is_off_the_board(extent, boxes, shown):
    for seed in range(8):
        placement = draw.measure_placement(_random_board(8, seed, extent), (), None, None)
        shapes = [shapely.box(*box) for box in placement.boxes]
        edge, side = shapely.box(0, 0, *placement.board.outline), placement.board.side
        fixed = placement.board.fixed
        wrong = [
            shape.intersection(other)
            for at, shape in enumerate(shapes)
            for to, other in enumerate(shapes)
            if at < to and side[at] == side[to] and not (fixed[at] and fixed[to])
        ] + [shape.difference(edge) for shape, stays in zip(shapes, fixed, strict=True) if not stays]
        drawn = boxes(shown(_view(placement))["faults"]) if seed == 0 else board_view.faults_of(placement)
        union, truth = (shapely.union_all(parts) for parts in ([shapely.box(*box) for box in drawn], wrong))
        assert union.symmetric_difference(truth).area < 1e-3
        assert (len(drawn) > 0) == placement.wrong.any() == (truth.area > 1e-3)
        # No two pieces of one part off the board cover each other: the shading is even.
        assert sum(shapely.box(*box).area for box in drawn) == pytest.approx(sum(s.area for s in wrong), abs=1e-3)


def test_what_only_touches_is_not_red(board):
    placement = draw.measure_placement(board, (), [[10, 7], [6, 7], [1.5, 12]], [0, 0, 2])
    assert placement.verdict == "legal" and not len(board_view.faults_of(placement))
    placement = draw.measure_placement(board, (), [[10, 7], [6.1, 7], [1.4, 12]], [0, 0, 2])
    assert placement.verdict == "not legal: 3 of 3 parts overlap or stick out"
    assert np.allclose(board_view.faults_of(placement), [[7, 6.5, 7.1, 7.5], [-0.1, 11.25, 0, 12.75]])


@pytest.mark.parametrize("parts", [3, 45, 110])
def test_no_text_covers_another_or_leaves_the_picture(parts):
    board = _random_board(parts, parts, 1.2)
    names = [f"C{1000 * at % 9973}" for at in range(parts)]
    figure = draw.board_figure(
        draw.measure_placement(board, names, None, None), "a_rather_long_name_of_a_board" * 3, 120
    )
    figure.canvas.draw()
    texts = [text for text in (*figure.axes[0].texts, *figure.texts) if text.get_visible()]
    extents = [text.get_window_extent() for text in texts]
    assert len(texts) > min(0.7 * parts, 30)
    boxes = [shapely.box(*extent.extents) for extent in extents]
    assert not any(a.intersects(b) for at, a in enumerate(boxes) for b in boxes[:at])
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    assert all((edge == 255).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))
    assert max(pixels.shape) < 1600
    assert all(text.get_fontsize() >= board_view.SMALLEST - 1e-9 for text in texts if text.get_text() in names)


def test_padding_is_not_shown(board):
    names = ("IC", "A", "B")
    plain = draw.board_figure(draw.measure_placement(board, names, None, None), "", 60)
    padded = draw.board_figure(draw.measure_placement(pad(board, 6, 9, 5), (*names, "x", "y", "z"), None, None), "", 60)
    plain.canvas.draw(), padded.canvas.draw()
    assert np.array_equal(plain.canvas.buffer_rgba(), padded.canvas.buffer_rgba())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"position": np.zeros((2, 2))}, r"position has shape \(2, 2\).*needs \(3, 2\)"),
        ({"orientation": [0, 1, 4]}, "0, 1, 2 or 3 quarter turns"),
        ({"position": np.full((3, 2), np.nan)}, "must be finite"),
        ({"names": ["one"]}, "1 names for 3 parts"),
    ],
)
def test_what_does_not_fit_a_board(board, given, words):
    with pytest.raises(ValueError, match=words):
        draw_board(board, **given)
    with pytest.raises(ValueError, match=r"batch of boards, of shape \(2,\)"):
        draw_board(stack([board, board]))
