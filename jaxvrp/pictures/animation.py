"""Frames of an animation: figures of which some artists change, and files of frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.io.whole_files import write_whole


def sample_frames(length: int, limit: int) -> np.ndarray:
    """At most `limit` state indices, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, length - 1, min(length, limit)).round().astype(np.int64))


class AnimatedFigure:
    """A figure of which some artists change from frame to frame; the others are drawn once.

    Args:
        figure: from `new_figure`.
        artists: those that change, in the order in which they are drawn.
    """

    def __init__(self, figure: Any, artists: Sequence[Any]):
        self.figure, self.artists = figure, list(artists)
        for artist in self.artists:
            artist.set_animated(True)
        # Animated artists are left out here: this is what never changes.
        figure.canvas.draw()
        self._background = figure.canvas.copy_from_bbox(figure.bbox)

    def frame(self) -> np.ndarray:
        """`u8[height, width, 3]`, with the artists as they are now."""
        self.figure.canvas.restore_region(self._background)
        for artist in self.artists:
            self.figure.draw_artist(artist)
        return np.asarray(self.figure.canvas.buffer_rgba())[..., :3].copy()


def write_frame(path: Path, frame: np.ndarray, palette: Any) -> None:
    """Write one frame (`u8[height, width, 3]`) as a small `.png`; complete, or not at all."""
    from PIL import Image

    image = Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
    write_whole(path, lambda partial: image.save(partial, "PNG"))


def write_gif(path: Path, frames: Iterator[np.ndarray], palette: Any, pause: int, last_pause: int) -> None:
    """Write frames (`u8[height, width, 3]`, one at least) as an animation, whatever the name of `path`; ms."""
    from PIL import Image

    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [pause] * (len(images) - 1) + [last_pause]
    images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
