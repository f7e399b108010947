"""Stills as pixels: what a state shows in a notebook, for those who ask an environment for frames.

matplotlib is imported inside the functions, as by all pictures.

Example:

    from jaxvrp.pictures.raster import to_pixels

    frame = to_pixels(state._repr_html_())                   # u8[700, 640, 3]
"""

from __future__ import annotations

import re
import textwrap
from typing import Any
from xml.etree import ElementTree

import numpy as np

from jaxvrp.pictures.figure import new_figure
from jaxvrp.pictures.palette import INK
from jaxvrp.pictures.stills import SIZE

SCALE = 2
"""Pixels of a frame for each of a still."""

CAPTION_HEIGHT = 30
"""Below the picture, in pixels of a still: room for `CAPTION_LINES` lines."""

CAPTION_LINES, CAPTION_LETTERS = 2, 66

DPI = 72 * SCALE
"""A point of matplotlib, 1/72 inch, is a pixel of a still."""


def to_pixels(still: str) -> np.ndarray:
    """`u8[2 (SIZE + CAPTION_HEIGHT), 2 SIZE, 3]`: the same size for every state of every environment.

    Args:
        still: what `Still.html` made: a figure with one SVG picture, and its caption.

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
    axes.text(6, SIZE + 4, "\n".join(words), fontsize=8.5, color=INK, va="top")
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

    opacity, filled = float(look.get("fill-opacity", 1)), look["fill"] != "none"
    edge = _colour(look["stroke"]) if "stroke" in look else "none"
    fill = to_rgba(_colour(look["fill"]), opacity) if filled else "none"
    return {"facecolor": fill, "edgecolor": edge, "linewidth": float(look.get("stroke-width", 1)), "zorder": order}


def _colour(name: str) -> str:
    return INK if name == "currentColor" else name


_DRAW = {"line": _line, "path": _mark, "rect": _box, "text": _words}
"""By the name of the element."""
