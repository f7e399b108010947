"""Colours, named once for all pictures, and the palettes of animations.

Agents and kinds of things have Okabe and Ito's colours, which colour-blind readers can tell apart, and darker relatives
of them where more are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"
"""Okabe and Ito's."""

BROWN, INDIGO, OLIVE, WINE, SLATE = "#7A4A1E", "#332288", "#8A7F00", "#882255", "#7F8C9B"

ON_TIME, LATE, WAITING, LOST = GREEN, ORANGE, "#9AA0A8", "#D32F2F"
"""What became of somebody who was to be served, or of a machine."""

RIGHT, WRONG = "#00734F", "#C62828"
"""Whether a solution keeps the rules, as the colour of words and marks."""

INK, NOTE = "#222222", "#6B727A"
"""Words, and words that matter less."""

GROUND, FRAME, GRID, PALE = "#F5F7F9", "#C9CDD2", "#EEF0F2", "#D5D9DD"
"""The ground of a map, the line around it, lines across a chart, and what stands behind other lines."""


def text_colour(colour: str) -> tuple[float, float, float]:
    """A darker shade of a line colour: thin letters need more contrast than lines."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    dark = min(1.0, 0.34 / (0.3 * red + 0.59 * green + 0.11 * blue + 1e-6))
    return red * dark, green * dark, blue * dark


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
