"""What the pictures of all environments share: figures, files, labels, palettes, animations, stills for notebooks."""

from jaxvrp.pictures.animation import AnimatedFigure, sample_frames, write_frame, write_gif
from jaxvrp.pictures.figure import (
    Sheet,
    axes_of,
    centred,
    inches_square,
    legend,
    legend_entry,
    new_figure,
    new_sheet,
    outline,
    points_high,
    scale_bar,
)
from jaxvrp.pictures.files import ANIMATION, STILLS, save_still, write_picture
from jaxvrp.pictures.labels import place_labels
from jaxvrp.pictures.palette import GROUND, INK, series_look, shared_palette, text_colour

__all__ = [
    "ANIMATION",
    "AnimatedFigure",
    "GROUND",
    "INK",
    "STILLS",
    "Sheet",
    "axes_of",
    "centred",
    "inches_square",
    "legend_entry",
    "legend",
    "new_figure",
    "new_sheet",
    "outline",
    "place_labels",
    "points_high",
    "sample_frames",
    "save_still",
    "scale_bar",
    "series_look",
    "shared_palette",
    "text_colour",
    "write_frame",
    "write_gif",
    "write_picture",
]
