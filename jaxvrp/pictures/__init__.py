"""What the pictures of all environments share: figures, labels, palettes, animations, stills for notebooks."""

from jaxvrp.pictures.animation import AnimatedFigure, sample_frames, write_frame, write_gif
from jaxvrp.pictures.figure import STILLS, centred, legend, legend_entry, new_axes, new_figure, outline, save_still
from jaxvrp.pictures.labels import place_labels
from jaxvrp.pictures.palette import GROUND, INK, shared_palette, text_colour

__all__ = [
    "AnimatedFigure",
    "GROUND",
    "INK",
    "STILLS",
    "centred",
    "legend_entry",
    "legend",
    "new_axes",
    "new_figure",
    "outline",
    "place_labels",
    "sample_frames",
    "save_still",
    "shared_palette",
    "text_colour",
    "write_frame",
    "write_gif",
]
