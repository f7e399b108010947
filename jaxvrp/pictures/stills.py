"""Small SVG pictures of one state, for notebooks: no script and no style sheet, so they show wherever HTML does."""

from __future__ import annotations

import html
from typing import Any

import jax
import numpy as np

from jaxvrp.pictures.palette import BLUE, ORANGE, SAND, SKY

# A notebook may be dark: nothing here is, and who waits is darker than in other pictures.
AGENT_COLOURS = (BLUE, SAND, SKY, "#6A5AE0", "#B03A7A", ORANGE)

WAITING = "#9AA0A8"
INK = "currentColor"
"""What the notebook writes with, light or dark."""

SIZE, MARGIN = 320, 20
"""Pixels: the side of the square picture, and what stays free along its edges."""


def agent_colour(agent: int) -> str:
    """The colour of the agent with this index; more agents than colours share them."""
    return AGENT_COLOURS[agent % len(AGENT_COLOURS)]


def first_state(state: Any, step: Any) -> tuple[Any, str] | None:
    """One state with NumPy leaves, and what to say about the others; None if there is nothing to draw (traced).

    Args:
        state: one, or a batch with leading axes.
        step: a leaf of it that has no axes of its own.
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
    """A picture in the making; places are in map units, y points up.

    Args:
        places: `[P, 2]`, what must be inside.
    """

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
