"""Names of `jaxvrp.show` for environments whose pictures are drawn by themselves."""

from jaxvrp.show import palette, stills
from jaxvrp.show.files import (
    ANIMATION,
    STILLS,
    AnimatedFigure,
    sample_frames,
    save_still,
    write_drawn,
    write_frame,
    write_gif,
)
from jaxvrp.show.palette import GROUND, INK, series_look, shared_palette, text_colour
from jaxvrp.show.paper import (
    Paper,
    axes_of,
    centred,
    inches_square,
    legend,
    legend_entry,
    new_figure,
    new_paper,
    outline,
    place_labels,
    points_high,
    scale_bar,
)

write_picture = write_drawn

__all__ = [
    "ANIMATION",
    "GROUND",
    "INK",
    "STILLS",
    "AnimatedFigure",
    "Paper",
    "axes_of",
    "centred",
    "inches_square",
    "legend",
    "legend_entry",
    "new_figure",
    "new_paper",
    "outline",
    "palette",
    "place_labels",
    "points_high",
    "sample_frames",
    "save_still",
    "scale_bar",
    "series_look",
    "shared_palette",
    "stills",
    "text_colour",
    "write_drawn",
    "write_frame",
    "write_gif",
    "write_picture",
]
