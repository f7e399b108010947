"""Stills as pixels: what is where, in which colour."""

import numpy as np

from jaxvrp.show.drawing import palette, stills
from jaxvrp.show.drawing.stills import SCALE


def colours(frame, box):
    """`{(r, g, b)}` within `(left, top, right, bottom)`, in pixels of the still."""
    left, top, right, bottom = (SCALE * side for side in box)
    return {tuple(pixel) for pixel in frame[top:bottom, left:right].reshape(-1, 3).tolist()}


def rgb(name):
    return tuple(int(name[start : start + 2], 16) for start in (1, 3, 5))


def test_marks_lie_where_the_still_has_them():
    corners = np.array([[0.0, 0.0], [1.0, 1.0]])
    still = stills.Still(corners)
    still.line(corners[0], corners[1], palette.BLUE)
    still.mark(corners[0], "square", stills.INK, size=8)
    still.mark(corners[1], "circle", palette.ON_TIME, size=8)
    still.mark(np.array([0.0, 1.0]), "up", palette.WAITING, filled=False)
    still.box(np.array([0.5, 0.5]), np.array([0.1, 0.1]), palette.LOST)
    still.text(np.array([1.0, 0.0]), "A & <B>")
    still.caption = "step 0: all is & < well"
    frame = still.pixels()
    assert (frame.dtype, frame.shape) == (np.uint8, (2 * 350, 2 * 320, 3))
    # y points up: the first corner is at the bottom left.
    assert colours(frame, (16, 296, 24, 304)) == {rgb(palette.INK)}
    assert rgb(palette.ON_TIME) in colours(frame, (298, 18, 302, 22))
    assert rgb(palette.WAITING) not in colours(frame, (19, 19, 21, 22))
    assert len(colours(frame, (150, 150, 170, 170))) > 2
    assert len(colours(frame, (285, 290, 315, 308))) > 2
    assert colours(frame, (30, 130, 100, 140)) == {(255, 255, 255)}
    assert len(colours(frame, (0, 322, 150, 340))) > 2


def test_triangles_point_up_and_down():
    def rows(shape):
        still = stills.Still(np.array([[-1.0, -1.0], [1.0, 1.0]]))
        still.mark(np.zeros(2), shape, "#000000", size=20)
        frame = still.pixels()[2 * 142 : 2 * 178, 2 * 140 : 2 * 180]
        return (frame < 128).all(axis=2).sum(axis=1)

    assert (np.diff(rows("up")[:70]) >= 0).all()
    assert np.array_equal(rows("up")[2:-2] > 40, rows("down")[::-1][2:-2] > 40)
