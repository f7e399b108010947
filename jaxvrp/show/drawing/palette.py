"""Colours, named once for all pictures, and the palettes of animations.

Agents and kinds of things have Okabe and Ito's colours, and darker relatives where more are needed. Colours that can
stand beside each other in a picture are apart for readers with deuteranopia and protanopia as well, which
`tests/jaxvrp/show/test_palette.py` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"
"""Okabe and Ito's."""

INDIGO, WINE, UMBER, SAND, ULTRAMARINE = "#332288", "#882255", "#4A2C0F", "#BFA35A", "#3A3AE0"

ON_TIME, LATE, WAITING, LOST = GREEN, ORANGE, "#C4C9CF", "#D32F2F"
"""The fate of a customer, or of a machine. Waiting things are pale, with an edge (`EDGE`)."""

RIGHT, WRONG = "#008F68", LOST
"""Whether a solution keeps the rules, as the colour of words and marks."""

INK, NOTE, EDGE = "#222222", "#6B727A", "#6B727A"
"""Words, words that matter less, and the edge of what is pale."""

GROUND, FRAME, GRID, PALE, FAINT = "#F5F7F9", "#C9CDD2", "#EEF0F2", "#D5D9DD", "#E4E7EA"
"""The ground of a map, the line around it, lines across a chart, lines behind other lines, and places to stop."""

SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, INDIGO, WINE, UMBER)
"""Of vehicles, nets, curves: where only red has a meaning."""

BESIDE_STATUS = (BLUE, PURPLE, SKY, INDIGO, WINE, SAND, ULTRAMARINE, UMBER)
"""Of agents beside things whose colour is a status: green, orange, grey or red."""


LINES = ("-", "--", "-.", ":")
"""Of curves beyond the colours of the palette."""


def series_look(number: int) -> dict[str, str]:
    """Colour and line of the curve with this number: the colours of `SERIES`, then again with other lines."""
    return {"color": SERIES[number % len(SERIES)], "linestyle": LINES[number // len(SERIES) % len(LINES)]}


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
