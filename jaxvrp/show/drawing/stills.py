"""Small pictures of one state: SVG for notebooks, and the same as pixels.

The SVG has no script and no style sheet, so it shows wherever HTML does. Example of pixels:

    frame = jaxvrp.registry.toolbox_of(state).still(state).pixels()        # u8[700, 640, 3]
"""

from __future__ import annotations

import functools
import html
import textwrap
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxvrp.show.drawing import palette
from jaxvrp.show.drawing.palette import BLUE, ORANGE, SAND, SKY
from jaxvrp.show.drawing.paper import new_figure

# A notebook may be dark: so no colour here is dark, and waiting things are darker than in other pictures.
AGENT_COLOURS = (BLUE, SAND, SKY, "#6A5AE0", "#B03A7A", ORANGE)

WAITING = "#9AA0A8"
INK = "currentColor"
"""The colour of the notebook's letters, light or dark."""

SIZE, MARGIN = 320, 20
"""Pixels: the side of the square picture, and what stays free along its edges."""

SCALE = 2
"""Pixels of a frame for each of a still."""

CAPTION_HEIGHT = 30
"""Below the picture, in pixels of a still: room for `CAPTION_LINES` lines."""

CAPTION_LINES, CAPTION_LETTERS = 2, 66

DPI = 72 * SCALE
"""A point of matplotlib, 1/72 inch, is a pixel of a still."""

CORNERS = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "up": [(0, -1), (1, 1), (-1, 1)],
    "down": [(0, 1), (1, -1), (-1, -1)],
}
"""Of symbols, y pointing down."""


def agent_colour(agent: int) -> str:
    """The colour of the agent with this index; more agents than colours share them."""
    return AGENT_COLOURS[agent % len(AGENT_COLOURS)]


class Still:
    """A picture in the making, and a `caption` below; places are in map units, y points up.

    `places`, `[P, 2]`, must be inside. Every part is kept as an element of SVG, and as what draws the same in axes of
    matplotlib.
    """

    def __init__(self, places: np.ndarray):
        low, high = places.min(axis=0), places.max(axis=0)
        self._middle = (low + high) / 2
        self._scale = (SIZE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
        self._parts: list[tuple[str, Callable[[Any], Any]]] = []
        self.caption = ""

    def _pixels(self, place: Any) -> tuple[float, float]:
        x, y = (place - self._middle) * self._scale
        return round(float(SIZE / 2 + x), 1), round(float(SIZE / 2 - y), 1)

    def line(self, a: Any, b: Any, colour: str) -> None:
        """A dotted line."""
        (x1, y1), (x2, y2) = self._pixels(a), self._pixels(b)
        svg = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-dasharray="2 3" opacity="0.8"/>'
        look = {"color": _on_paper(colour), "linewidth": 1, "linestyle": (0, (2, 3)), "alpha": 0.8}
        self._parts.append((svg, lambda axes: axes.plot((x1, x2), (y1, y2), **look)[0]))

    def mark(self, place: Any, shape: str, colour: str, *, filled: bool = True, size: float = 6.0) -> None:
        """A symbol: `circle`, `square`, or a triangle `up` or `down`; `size` is half its width, in pixels."""
        x, y = self._pixels(place)
        path = {
            "circle": f"M{-size} 0a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0z",
            "square": f"M{-size} {-size}h{2 * size}v{2 * size}h{-2 * size}z",
            "up": f"M0 {-size}L{size} {size}H{-size}z",
            "down": f"M0 {size}L{size} {-size}H{-size}z",
        }[shape]
        look = f'fill="{colour}"' if filled else f'fill="none" stroke="{colour}" stroke-width="1.6"'

        def draw(axes: Any) -> Any:
            from matplotlib.patches import Circle, Polygon

            ink = _on_paper(colour)
            face, edge = (ink, "none") if filled else ("none", ink)
            style: dict[str, Any] = {"facecolor": face, "edgecolor": edge, "linewidth": 1.6}
            if shape == "circle":
                return axes.add_patch(Circle((x, y), size, **style))
            return axes.add_patch(Polygon(np.array(CORNERS[shape]) * size + (x, y), **style))

        self._parts.append((f'<path transform="translate({x} {y})" d="{path}" {look}/>', draw))

    def box(self, centre: Any, half: Any, colour: str, *, filled: bool = True) -> None:
        """A rectangle of these half extents, in map units."""
        (left, top), (right, bottom) = self._pixels(centre + half * (-1, 1)), self._pixels(centre + half * (1, -1))
        width, height, opacity = round(right - left, 1), round(bottom - top, 1), 0.35 if filled else 0
        look = f'fill="{colour}" fill-opacity="{opacity}" stroke="{colour}"'
        svg = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" {look}/>'
        self._parts.append((svg, lambda axes: _rectangle(axes, (left, top), width, height, _on_paper(colour), opacity)))

    def text(self, place: Any, words: Any, colour: str = INK, *, up: float = 0.0, right: float = 0.0) -> None:
        """A small text; `up` and `right` in pixels."""
        x, y = self._pixels(place)
        x, y = x + right, y + 3.4 - up
        look = f'fill="{colour}" font-size="9.5" font-family="sans-serif" text-anchor="middle"'
        style = {"color": _on_paper(colour), "fontsize": 9.5, "ha": "center"}
        svg = f'<text x="{x}" y="{y}" {look}>{html.escape(str(words))}</text>'
        self._parts.append((svg, lambda axes: axes.text(x, y, str(words), **style)))

    def html(self) -> str:
        """The picture in SVG with the caption below."""
        frame = f'<rect x="0.5" y="0.5" width="{SIZE - 1}" height="{SIZE - 1}" rx="8" fill="none" stroke="{WAITING}"/>'
        head = f'<svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img">'
        drawing = f"{head}{frame}{''.join(svg for svg, _ in self._parts)}</svg>"
        return f'<figure style="margin: 0">{drawing}<figcaption>{html.escape(self.caption)}</figcaption></figure>'

    def pixels(self) -> np.ndarray:
        """`u8[2 (SIZE + CAPTION_HEIGHT), 2 SIZE, 3]`: the same size for every state of every environment."""
        figure = new_figure(SIZE / 72, (SIZE + CAPTION_HEIGHT) / 72, DPI)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, SIZE), ylim=(SIZE + CAPTION_HEIGHT, 0))
        axes.set_axis_off()
        _rectangle(axes, (0.5, 0.5), SIZE - 1, SIZE - 1, WAITING, 0).set_zorder(0)
        for order, (_, draw) in enumerate(self._parts, start=1):
            draw(axes).set_zorder(order)
        words = textwrap.wrap(self.caption, CAPTION_LETTERS)[:CAPTION_LINES]
        axes.text(6, SIZE + 4, "\n".join(words), fontsize=8.5, color=palette.INK, va="top")
        figure.canvas.draw()
        return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()


def _rectangle(axes: Any, corner: tuple[float, float], width: float, height: float, colour: str, opacity: float) -> Any:
    from matplotlib.patches import Rectangle

    patch = Rectangle(corner, width, height, facecolor=(colour, opacity), edgecolor=colour, linewidth=1)
    return axes.add_patch(patch)


def _on_paper(colour: str) -> str:
    return palette.INK if colour == INK else colour


def of_first(draw: Callable[..., Still]) -> Callable[..., Still | None]:
    """A function that draws a state, or the first of a batch; it gives None for traced, abstract or empty ones.

    `draw` gets one state, with NumPy leaves; one of them has no axes.
    """

    @functools.wraps(draw)
    def drawn(state: Any, *further: Any) -> Still | None:
        leaves = jax.tree.leaves(state)
        if not all(isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves):
            return None
        batch = min((leaf.shape for leaf in leaves), key=len)
        if 0 in batch or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return None
        first = jax.device_get(jax.tree.map(lambda leaf: leaf[(0,) * len(batch)], state))
        still = draw(first, *further)
        if batch:
            still.caption += f" (the first of {' x '.join(map(str, batch))} states)"
        return still

    return drawn
