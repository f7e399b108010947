"""What the pictures of all environments share: figures and axes, colours, labels, legends.

matplotlib is imported inside the functions: the simulator does not need it. Nothing goes through pyplot, so no display
and no global state is touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

INK, GROUND = "#222222", "#F5F7F9"


def new_figure(width: float, height: float, dpi: int) -> Any:
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
