"""What the pictures of all environments share: frames, labels, palettes."""

import contextlib

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from jaxvrp.io.whole_files import write_whole
from jaxvrp.show.drawing import files, paper
from jaxvrp.show.drawing.palette import shared_palette


def test_frames_are_spread_evenly():
    assert files.sample_frames(5, 90).tolist() == [0, 1, 2, 3, 4]
    chosen = files.sample_frames(201, 90)
    assert len(chosen) == 90 and chosen[[0, -1]].tolist() == [0, 200] and set(np.diff(chosen)) <= {2, 3}


def test_labels_keep_apart():
    anchors = np.array([[0.0, 0.0], [0.05, 0.0], [0.0, 0.06], [0.99, 0.0]])
    sizes = np.tile([0.2, 0.04], (4, 1))
    free = {"markers": anchors, "radius": 0.02, "crowd": np.zeros((0, 2)), "limit": 1.0}
    places = paper.place_labels(anchors, sizes, **free)
    apart = (np.abs(places[:, None] - places[None]) >= sizes[0]).any(axis=2)
    assert (apart | np.eye(4, dtype=bool)).all()
    assert (np.abs(places - anchors) < 0.25).all() and places[3, 0] + 0.1 <= 1.0


def test_of_an_animated_figure_only_the_artists_change():
    figure = paper.new_figure(2.0, 1.0, 50)
    figure.text(0.1, 0.5, "fixed")
    moving = figure.text(0.5, 0.5, "before")
    animated = files.AnimatedFigure(figure, [moving])
    before = animated.frame()
    moving.set_text("after")
    after = animated.frame()
    assert before.shape == after.shape == (50, 100, 3) and before.dtype == np.uint8
    changed = (before != after).any(axis=2)
    assert changed[:, 50:].any() and not changed[:, :50].any()
    assert (before[:, :50] < 128).any(), "what is fixed is drawn"
    moving.set_text("before")
    np.testing.assert_array_equal(animated.frame(), before)


def test_a_palette_has_the_exact_colours_and_files_keep_them(tmp_path):
    exact = ("#0072B2", "#E69F00")
    # A gradient, and colours beside the exact ones, which must not take their places.
    pixels = np.stack([*np.meshgrid(np.arange(0, 256, 4), np.arange(0, 256, 4)), np.full((64, 64), 90)], axis=-1)
    pixels = pixels.astype(np.uint8)
    named = np.round([np.multiply(255, to_rgb(name)) for name in exact]).astype(np.uint8)
    pixels[0, :2], pixels[1, :2] = named, named + 1
    palette = shared_palette(pixels, exact, 16)
    files.write_frame(tmp_path / "frame.png", pixels, palette)
    frames = [pixels, pixels[::-1].copy()]
    files.write_gif(tmp_path / "frames.gif", iter(frames), palette, 100, 500)
    with Image.open(tmp_path / "frame.png") as still, Image.open(tmp_path / "frames.gif") as moving:
        assert moving.n_frames == 2 and moving.info["duration"] == 100
        for picture in (still, moving):
            np.testing.assert_array_equal(np.asarray(picture.convert("RGB"))[0, :2], named)
        moving.seek(1)
        assert moving.info["duration"] == 500


@contextlib.contextmanager
def files_of_at_most(size):
    """Inside, the system lets no file grow beyond so many bytes."""
    resource = pytest.importorskip("resource", reason="this system has no limit of the size of files")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", ["still.png", "frame.png", "frames.gif"])
def test_a_picture_without_space_leaves_nothing_and_names_its_file(name, tmp_path):
    frame = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    palette = shared_palette(frame, ("#0072B2",), 16)
    figure = Figure()
    FigureCanvasAgg(figure)
    figure.subplots().imshow(frame)
    path = tmp_path / name
    draw = {
        "still.png": lambda: files.save_still(figure, path, 100),
        "frame.png": lambda: files.write_frame(path, frame, palette),
        "frames.gif": lambda: write_whole(
            path, lambda partial: files.write_gif(partial, iter([frame, frame[::-1].copy()]), palette, 100, 500)
        ),
    }
    with pytest.raises(OSError, match=f"File too large: '{path}'$"), files_of_at_most(1000):
        draw[name]()
    assert list(tmp_path.iterdir()) == []
    draw[name]()
    assert path.stat().st_size > 1000
