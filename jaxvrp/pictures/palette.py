"""Colours that mean the same in all pictures, and the palettes of animations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

INK, GROUND = "#222222", "#F5F7F9"


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
