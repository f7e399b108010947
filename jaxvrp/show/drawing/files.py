"""Files of pictures: stills by their endings, and animations of figures of which some artists change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.io.whole_files import write_whole

STILLS = (".png", ".svg", ".pdf")
"""Endings of pictures that do not move."""

ANIMATION = ".gif"
"""The ending of animations."""

WITHOUT_DATE: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The same picture is the same file, byte for byte."""

FONTS: dict[Any, Any] = {"svg.hashsalt": "jaxvrp", "pdf.fonttype": 42}
"""Names inside an SVG that do not change, and letters in a PDF that publishers take (TrueType, not Type 3)."""


def save_still(figure: Any, path: str | os.PathLike, dpi: float) -> None:
    """Write a figure of matplotlib in the format of its ending (one of `STILLS`); complete, or not at all.

    Raises:
        ValueError: another ending.
        OSError: the file cannot be written.
    """
    from matplotlib import rc_context

    path = Path(path)
    ending = _ending(path, "a picture", STILLS)
    style = {"format": ending[1:], "dpi": dpi, "metadata": WITHOUT_DATE.get(ending)}
    with rc_context(FONTS):
        write_whole(path, lambda partial: figure.savefig(partial, **style))


def write_drawn(
    path: str | os.PathLike,
    subject: str,
    still: Callable[[], Any],
    animation: Callable[[Path], None] | None = None,
    *,
    dpi: float,
) -> None:
    """Draw to a file, as its ending says; complete, or not at all, and nothing is drawn for an unknown ending.

    Args:
        path, dpi: as for `save_still`.
        subject: of the drawing, for the message: `"a plan"`.
        still: makes the figure.
        animation: writes the animation to a path, whatever its name; None: there is none.

    Raises:
        ValueError: another ending.
        OSError: the file cannot be written.
    """
    path = Path(path)
    endings = STILLS if animation is None else (ANIMATION, *STILLS)
    if _ending(path, subject, endings) != ANIMATION:
        save_still(still(), path, dpi)
    elif animation is not None:
        write_whole(path, animation)


def _ending(path: Path, subject: str, endings: tuple[str, ...]) -> str:
    """The ending of a path in small letters, if it is one of `endings`."""
    ending = path.suffix.lower()
    if ending not in endings:
        use = ".png, .svg or .pdf"
        use = f"{ANIMATION} (animation), {use} (still)" if ANIMATION in endings else use
        raise ValueError(f"cannot draw {subject} to '{path.name}': use {use}")
    return ending


def sample_frames(length: int, limit: int) -> np.ndarray:
    """At most `limit` state indices, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, length - 1, min(length, limit)).round().astype(np.int64))


class AnimatedFigure:
    """A figure of which some artists change from frame to frame, drawn in their order; the others are drawn once."""

    def __init__(self, figure: Any, artists: Sequence[Any]):
        self.figure, self.artists = figure, list(artists)
        for artist in self.artists:
            artist.set_animated(True)
        # Animated artists are left out here: this is the part that never changes.
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
    image = _with_palette(frame, palette)
    write_whole(path, lambda partial: image.save(partial, "PNG"))


def write_gif(path: Path, frames: Iterator[np.ndarray], palette: Any, pause: int, last_pause: int) -> None:
    """Write frames (`u8[height, width, 3]`, one at least) as an animation, whatever the name of `path`; ms."""
    images = [_with_palette(frame, palette) for frame in frames]
    durations = [pause] * (len(images) - 1) + [last_pause]
    images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)


def _with_palette(frame: np.ndarray, palette: Any) -> Any:
    from PIL import Image

    return Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
