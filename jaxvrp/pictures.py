"""What the pictures of all environments share: figures and axes, colours, labels, legends, files, command lines.

matplotlib is imported inside the functions: the simulator does not need it. Nothing goes through pyplot, so no display
and no global state is touched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.storage import write_whole

INK, GROUND = "#222222", "#F5F7F9"

STILLS = (".png", ".svg", ".pdf")
"""Endings of the files that `save_still` writes."""


def new_figure(width: float, height: float, dpi: float) -> Any:
    """A white figure of that size in inches, for the Agg renderer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def new_axes(figure: Any, left: float, bottom: float, width: float, height: float) -> Any:
    """Axes at a place given in inches, with a line only below."""
    across, up = figure.get_size_inches()
    axes = figure.add_axes((left / across, bottom / up, width / across, height / up))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2, colors=INK)
    axes.tick_params(axis="y", length=0)
    return axes


def text_colour(colour: str) -> tuple[float, float, float]:
    """A darker shade of a line colour: thin letters need more contrast than lines."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    dark = min(1.0, 0.34 / (0.3 * red + 0.59 * green + 0.11 * blue + 1e-6))
    return red * dark, green * dark, blue * dark


def centred(fontsize: float, color: Any = "white") -> dict[str, Any]:
    """Text style: small letters in the middle of a marker."""
    return {"ha": "center", "va": "center_baseline", "fontsize": fontsize, "color": color}


def outline(width: float = 2.5) -> list[Any]:
    """White around a text, so that it can be read on top of lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white")]


def key(**properties: Any) -> Any:
    """A legend entry."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "markersize": 8, "markeredgecolor": "none", **properties})


def legend(target: Any, handles: list[Any], **place: Any) -> None:
    """A frameless legend of `handles` in an axes or a figure."""
    style = {"fontsize": 8, "frameon": False, "handletextpad": 0.3, "columnspacing": 1.2, "borderaxespad": 0.1}
    target.legend(handles=handles, **{**style, **place})


def sample_frames(length: int, limit: int) -> np.ndarray:
    """At most `limit` state indices, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, length - 1, min(length, limit)).round().astype(np.int64))


def place_labels(
    anchors: np.ndarray, sizes: np.ndarray, *, markers: np.ndarray, radius: float, crowd: np.ndarray, limit: float
) -> np.ndarray:
    """Centres of text boxes beside their anchors, chosen one after the other so that they cover little.

    Args:
        anchors: `[P, 2]`, what the texts are about.
        sizes: `[P, 2]`, width and height of the boxes, in the unit of the anchors.
        markers: `[M, 2]`, places of markers that should not be covered, the anchors among them.
        radius: of the markers.
        crowd: `[K, 2]`, further points that are better left free (paths); NaN is nowhere.
        limit: no box should leave the square of this half side around the origin.

    Returns:
        `[P, 2]`.
    """
    angles = np.arange(16) * np.pi / 8
    ways = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    placed = np.zeros((0, 4))
    for anchor, size in zip(anchors, sizes, strict=True):
        options = np.concatenate([anchor + ways * (radius * stretch + size / 2) for stretch in (1.35, 2.2, 3.2)])
        half = np.broadcast_to(size / 2, options.shape)
        hits = 10 * _overlaps(options, half, placed[:, :2], placed[:, 2:])
        hits += 6 * _overlaps(options, half, markers, np.full(2, radius))
        hits += 30 * (np.abs(options) + half > limit).any(axis=1)
        # Nearer places come first, and among equal ones the right side, where one looks for a label.
        nuisance = 0.2 * _overlaps(options, half, crowd, np.zeros(2)) + np.arange(len(options)) // len(ways)
        best = options[(hits + nuisance).argmin()]
        placed = np.concatenate([placed, np.concatenate([best, size / 2])[None]])
    return placed[:, :2]


def _overlaps(centre: np.ndarray, half: np.ndarray, others: np.ndarray, others_half: np.ndarray) -> np.ndarray:
    """`[O]`: how many of the boxes `others` `[M, 2]` each box `centre` `[O, 2]` meets."""
    gap = np.abs(centre[:, None] - others[None])
    return (gap < half[:, None] + others_half).all(axis=2).sum(axis=1)


# --- files ----------------------------------------------------------------------------------------------------------


def save_still(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure in the format of its ending (one of `STILLS`); complete, or not at all."""
    write_whole(path, lambda partial: figure.savefig(partial, format=path.suffix.lower()[1:], dpi=dpi))


class Stage:
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


def shared_palette(pixels: np.ndarray, exact: Sequence[str], colours: int) -> Any:
    """A palette image for pictures like `pixels` (`u8[h, w, 3]`), in which the colours `exact` are just these."""
    from matplotlib.colors import to_rgb
    from PIL import Image

    named = np.round([np.multiply(255, to_rgb(name)) for name in exact]).astype(np.uint8)
    found = Image.fromarray(pixels).quantize(colours, dither=Image.Dither.NONE).getpalette()
    common = np.array(found).reshape(-1, 3)
    # Pillow looks colours up coarsely: beside an almost equal entry the exact one would not be found.
    apart = np.abs(common[:, None] - named.astype(np.int64)).max(axis=2).min(axis=1) > 8
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate([named, common[apart]])[:256].astype(np.uint8).tobytes())
    return palette


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


def count_states(step: ArrayLike, ended: ArrayLike) -> int:
    """States up to the first that has ended, or to the last before `step` stands still or falls back (a reset).

    Args:
        step: `[T+1]`, the clocks of the states.
        ended: `bool[T+1]`.
    """
    return int((np.append(np.diff(step) <= 0, True) | np.asarray(ended)).argmax()) + 1


# --- command lines --------------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """A parser of arguments whose mistakes are errors of one line, for `run_command`."""

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise ValueError(f"{message}; see python -m {self.prog} --help")


def check_out(path: Path, endings: Sequence[str] = STILLS) -> None:
    """Find out early whether a picture (`--out`) can be written.

    Raises:
        ValueError: another ending, or no such folder; one line.
    """
    if path.suffix.lower() not in endings:
        raise ValueError(f"--out is '{path}'; it must end in {', '.join(endings[:-1])} or {endings[-1]}")
    if not path.parent.is_dir():
        raise ValueError(f"--out is '{path}', but there is no folder '{path.parent}'; make it first")


def run_command(command: Callable[[], None]) -> int:
    """The exit status: 0, or 2 after one line on stderr for a user's mistake (`ValueError`, `OSError`)."""
    try:
        command()
    except OSError as error:
        return _refused(f"cannot read or write '{error.filename}': {error.strerror}; give another path")
    except ValueError as error:
        return _refused(str(error))
    return 0


def _refused(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
