"""Figures, axes, letters, labels, legends and scale bars.

Every drawing function takes `fig` (it fills a figure, or a part of one) or `ax` (one panel), draws into a new one where
it is None, and returns it. matplotlib is imported inside the functions: the simulator does not need it. Nothing goes
through pyplot, so no display and no global state is touched.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from jaxvrp.show.drawing.palette import EDGE, INK

SCALE_BAR = 0.28
"""Of the width of a map, the most that its scale bar takes."""

SMALLEST_LETTERS = 6.5
"""Pixels; smaller letters are left out."""


def new_figure(width: float, height: float, dpi: float) -> Any:
    """A white figure of that size in inches, for the Agg renderer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@dataclasses.dataclass(frozen=True)
class Paper:
    """A figure on which things are placed in inches, from the lower left corner, of the size it is laid out for.

    A figure of another size stretches the places, not the letters.
    """

    figure: Any  # of matplotlib, or a part of one (`SubFigure`)
    width: float  # inches of the layout
    height: float  # inches of the layout

    def place(self, left: float, bottom: float) -> tuple[float, float]:
        """A place as parts of the figure, as legends want it."""
        return left / self.width, bottom / self.height

    def axes(self, left: float, bottom: float, width: float, height: float) -> Any:
        """Axes with a line only below."""
        axes = self.figure.add_axes((*self.place(left, bottom), *self.place(width, height)))
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(labelsize=8, length=2, colors=INK)
        axes.tick_params(axis="y", length=0)
        return axes

    def text(self, left: float, bottom: float, words: str, **style: Any) -> Any:
        """A line of text."""
        return self.figure.text(*self.place(left, bottom), words, **style)


def new_paper(width: float, height: float, dpi: float, fig: Any = None) -> Paper:
    """Paper on `fig`, or on a new figure of this size."""
    return Paper(new_figure(width, height, dpi) if fig is None else fig, width, height)


def axes_of(ax: Any, width: float, height: float, dpi: float, margins: tuple[float, float]) -> Any:
    """`ax`, or the only axes of a new figure; inches, `margins` left and below the axes for ticks and a legend."""
    if ax is not None:
        return ax
    left, below = margins
    return new_paper(left + width + 0.3, below + height + 0.35, dpi).axes(left, below, width, height)


def points_high(axes: Any) -> float:
    """The height of axes in typographic points."""
    return float(axes.get_window_extent().height / axes.figure.dpi * 72)


def legible(axes: Any, size: float) -> float:
    """The size of letters, in points: `size`, or 0 (none) if they would be too small to read."""
    return size if size * axes.figure.dpi / 72 >= SMALLEST_LETTERS else 0.0


def inches_square(axes: Any) -> float:
    """The side of the largest square in axes, in inches."""
    extent = axes.get_window_extent()
    return float(min(extent.width, extent.height) / axes.figure.dpi)


def scale_bar(axes: Any, unit: str, *, zorder: float = 1.9) -> Any:
    """The line of a bar in the lower right corner of a map, of a round length: 1, 2 or 5 times a power of ten.

    The limits of the axes are set, in `unit`, and both directions have the same scale. `zorder` is low by default,
    because the content of the map matters more.
    """
    left, right = sorted(axes.get_xlim())
    bottom, top = axes.get_ylim()
    most = SCALE_BAR * (right - left)
    power = 10.0 ** math.floor(math.log10(most))
    whole = max(step * power for step in (1, 2, 5) if step == 1 or step * power <= most)
    end, rise = right - 0.045 * (right - left), bottom + 0.045 * (top - bottom)
    half_tick = 0.008 * (top - bottom)
    x, y = [end - whole] * 3 + [end] * 3, [-half_tick, half_tick, 0, 0, half_tick, -half_tick]
    look = {"color": EDGE, "linewidth": 1.2, "solid_joinstyle": "miter", "zorder": zorder, "path_effects": outline()}
    (bar,) = axes.plot(x, [rise + each for each in y], **look)
    middle = (end - whole / 2, rise + 1.5 * half_tick)
    words = {"ha": "center", "va": "bottom", "fontsize": 7.5, "color": EDGE}
    axes.text(*middle, f"{whole:g} {unit}", **words, zorder=zorder, path_effects=outline())
    return bar


def centred(fontsize: float, color: Any = "white") -> dict[str, Any]:
    """Text style: small letters in the middle of a marker."""
    return {"ha": "center", "va": "center_baseline", "fontsize": fontsize, "color": color}


def without_math(drawn: Any) -> Any:
    """A figure, a part of one or axes, in whose texts a `$` is a `$`: names are no formulas."""
    from matplotlib.text import Text

    for text in drawn.findobj(Text):
        text.set_parse_math(False)
    return drawn


def outline(width: float = 2.5) -> list[Any]:
    """White around a text, so that it can be read on top of lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white")]


def legend_entry(**properties: Any) -> Any:
    """An entry of a legend: a marker or a line, and its label."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "markersize": 8, "markeredgecolor": "none", **properties})


def legend(target: Any, handles: list[Any], **place: Any) -> None:
    """A frameless legend of `handles` in an axes or a figure."""
    style = {"fontsize": 8, "frameon": False, "handletextpad": 0.3, "columnspacing": 1.2, "borderaxespad": 0.1}
    target.legend(handles=handles, **{**style, **place})


def place_labels(
    anchors: np.ndarray, sizes: np.ndarray, *, markers: np.ndarray, radius: float, crowd: np.ndarray, limit: float
) -> np.ndarray:
    """Centres `[P, 2]` of text boxes beside their anchors, chosen one after the other so that they cover little.

    Args:
        anchors, sizes: `[P, 2]`, the places that the texts name; width and height of the boxes, in the same unit.
        markers, radius: `[M, 2]`, places of markers that should not be covered, the anchors among them; their size.
        crowd: `[K, 2]`, further points that are better left free (paths); NaN for none.
        limit: no box should leave the square of this half side around the origin.
    """
    angles = np.arange(16) * np.pi / 8
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    placed = np.zeros((0, 4))
    for anchor, size in zip(anchors, sizes, strict=True):
        options = np.concatenate([anchor + directions * (radius * stretch + size / 2) for stretch in (1.35, 2.2, 3.2)])
        half = np.broadcast_to(size / 2, options.shape)
        hits = 10 * _overlaps(options, half, placed[:, :2], placed[:, 2:])
        hits += 6 * _overlaps(options, half, markers, np.full(2, radius))
        hits += 30 * (np.abs(options) + half > limit).any(axis=1)
        gaps = np.linalg.norm(options[:, None] - markers, axis=2).min(axis=1, initial=np.inf)
        hits += 2 * (gaps < np.linalg.norm(options - anchor, axis=1) - 1e-9)  # looks like the name of another place
        # Nearer places come first, and among equal ones the right side, where one looks for a label.
        nuisance = 0.2 * _overlaps(options, half, crowd, np.zeros(2)) + np.arange(len(options)) // len(directions)
        best = options[(hits + nuisance).argmin()]
        placed = np.concatenate([placed, np.concatenate([best, size / 2])[None]])
    return placed[:, :2]


def _overlaps(centre: np.ndarray, half: np.ndarray, others: np.ndarray, others_half: np.ndarray) -> np.ndarray:
    """`[O]`: how many of the boxes `others` `[M, 2]` each box `centre` `[O, 2]` meets."""
    gap = np.abs(centre[:, None] - others[None])
    return (gap < half[:, None] + others_half).all(axis=2).sum(axis=1)
