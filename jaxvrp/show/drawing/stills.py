"""Small SVG pictures of one state, for notebooks, and the same pictures as pixels.

They have no script and no style sheet, so they show wherever HTML does. Example of pixels:

    frame = to_pixels(state._repr_html_())                   # u8[700, 640, 3]
"""

from __future__ import annotations

import html
import re
import textwrap
from typing import Any
from xml.etree import ElementTree

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


def agent_colour(agent: int) -> str:
    """The colour of the agent with this index; more agents than colours share them."""
    return AGENT_COLOURS[agent % len(AGENT_COLOURS)]


def first_state(state: Any, step: Any) -> tuple[Any, str] | None:
    """The first state of a batch with NumPy leaves, and a note about the others; None for traced or empty ones.

    `step` is a leaf of `state` that has no axes of its own.
    """
    leaves = jax.tree.leaves(state)
    if not all(isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves):
        return None
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) or 0 in step.shape:
        return None
    first = (0,) * step.ndim
    note = f" (the first of {' x '.join(map(str, step.shape))} states)" if step.ndim else ""
    return jax.tree.map(lambda leaf: np.asarray(leaf[first]), state), note


class Still:
    """A picture in the making; places are in map units, y points up. `places`, `[P, 2]`, must be inside."""

    def __init__(self, places: np.ndarray):
        low, high = places.min(axis=0), places.max(axis=0)
        self._middle = (low + high) / 2
        self._scale = (SIZE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
        self._parts: list[str] = []

    def _pixels(self, place: Any) -> tuple[float, float]:
        x, y = (place - self._middle) * self._scale
        return round(float(SIZE / 2 + x), 1), round(float(SIZE / 2 - y), 1)

    def line(self, a: Any, b: Any, colour: str) -> None:
        """A dotted line."""
        (x1, y1), (x2, y2) = self._pixels(a), self._pixels(b)
        self._parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-dasharray="2 3" opacity="0.8"/>'
        )

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
        self._parts.append(f'<path transform="translate({x} {y})" d="{path}" {look}/>')

    def box(self, centre: Any, half: Any, colour: str, *, filled: bool = True) -> None:
        """A rectangle of these half extents, in map units."""
        (left, top), (right, bottom) = self._pixels(centre + half * (-1, 1)), self._pixels(centre + half * (1, -1))
        size = f'width="{right - left:.1f}" height="{bottom - top:.1f}"'
        look = f'fill="{colour}" fill-opacity="{0.35 if filled else 0}" stroke="{colour}"'
        self._parts.append(f'<rect x="{left}" y="{top}" {size} {look}/>')

    def text(self, place: Any, words: Any, colour: str = INK, *, up: float = 0.0, right: float = 0.0) -> None:
        """A small text; `up` and `right` in pixels."""
        x, y = self._pixels(place)
        look = f'fill="{colour}" font-size="9.5" font-family="sans-serif" text-anchor="middle"'
        self._parts.append(f'<text x="{x + right}" y="{y + 3.4 - up}" {look}>{html.escape(str(words))}</text>')

    def html(self, caption: str) -> str:
        """The picture with a line below."""
        frame = f'<rect x="0.5" y="0.5" width="{SIZE - 1}" height="{SIZE - 1}" rx="8" fill="none" stroke="{WAITING}"/>'
        head = f'<svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img">'
        drawing = f"{head}{frame}{''.join(self._parts)}</svg>"
        return f'<figure style="margin: 0">{drawing}<figcaption>{html.escape(caption)}</figcaption></figure>'


# --- pixels ---------------------------------------------------------------------------------------------------------


def to_pixels(still: str) -> np.ndarray:
    """`u8[2 (SIZE + CAPTION_HEIGHT), 2 SIZE, 3]` from `Still.html`: the same size for every state of every environment.

    Raises:
        ValueError: an element that `Still` does not draw.
    """
    figure = new_figure(SIZE / 72, (SIZE + CAPTION_HEIGHT) / 72, DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, SIZE), ylim=(SIZE + CAPTION_HEIGHT, 0))
    axes.set_axis_off()
    # `Still` escapes what it writes, so that its HTML is XML as well.
    tree = ElementTree.fromstring(still)
    for order, element in enumerate(tree.iterfind("svg/*")):
        if element.tag not in _DRAW:
            raise ValueError(f"a still has a <{element.tag}>; frames can be made of {', '.join(_DRAW)}")
        _DRAW[element.tag](axes, element.attrib, element.text, order)
    words = textwrap.wrap("".join(tree.find("figcaption").itertext()), CAPTION_LETTERS)[:CAPTION_LINES]  # type: ignore[union-attr]
    axes.text(6, SIZE + 4, "\n".join(words), fontsize=8.5, color=palette.INK, va="top")
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()


def _line(axes: Any, look: dict[str, str], text: str | None, order: int) -> None:
    x, y = (float(look["x1"]), float(look["x2"])), (float(look["y1"]), float(look["y2"]))
    axes.plot(x, y, color=_colour(look["stroke"]), linewidth=1, linestyle=(0, (2, 3)), alpha=0.8, zorder=order)


def _mark(axes: Any, look: dict[str, str], text: str | None, order: int) -> None:
    """The shapes of `Still.mark`, which have half their width as the first number of their path."""
    from matplotlib.patches import Circle, Polygon

    x, y = map(float, re.findall(r"-?[\d.]+", look["transform"]))
    path = look["d"]
    half = max(abs(float(number)) for number in re.findall(r"-?[\d.]+", path)[:2])
    if "a" in path:
        axes.add_patch(Circle((x, y), half, **_style(look, order)))
    else:
        corners = {
            "h": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
            f"M0 -{half:g}": [(0, -1), (1, 1), (-1, 1)],
            f"M0 {half:g}": [(0, 1), (1, -1), (-1, -1)],
        }
        shape = next(corner for start, corner in corners.items() if start in path)
        axes.add_patch(Polygon(np.array(shape) * half + (x, y), closed=True, **_style(look, order)))


def _box(axes: Any, look: dict[str, str], text: str | None, order: int) -> None:
    from matplotlib.patches import Rectangle

    x, y, width, height = (float(look[name]) for name in ("x", "y", "width", "height"))
    axes.add_patch(Rectangle((x, y), width, height, **_style(look, order)))


def _words(axes: Any, look: dict[str, str], text: str | None, order: int) -> None:
    place, size = (float(look["x"]), float(look["y"])), float(look["font-size"])
    axes.text(*place, text, color=_colour(look["fill"]), fontsize=size, ha="center", va="baseline", zorder=order)


def _style(look: dict[str, str], order: int) -> dict[str, Any]:
    """Of a patch, from the attributes of SVG."""
    from matplotlib.colors import to_rgba

    edge = _colour(look["stroke"]) if "stroke" in look else "none"
    fill = "none" if look["fill"] == "none" else to_rgba(_colour(look["fill"]), float(look.get("fill-opacity", 1)))
    return {"facecolor": fill, "edgecolor": edge, "linewidth": float(look.get("stroke-width", 1)), "zorder": order}


def _colour(name: str) -> str:
    return palette.INK if name == INK else name


_DRAW = {"line": _line, "path": _mark, "rect": _box, "text": _words}
"""By the name of the element."""
