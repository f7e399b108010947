"""Figures, axes, letters, legends and files of pictures.

matplotlib is imported inside the functions: the simulator does not need it. Nothing goes through pyplot, so no display
and no global state is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxvrp.io.whole_files import write_whole
from jaxvrp.pictures.palette import INK

STILLS = (".png", ".svg", ".pdf")
"""Endings of the files that `save_still` writes."""


def new_figure(width: float, height: float, dpi: float) -> Any:
    """A white figure of that size in inches, for the Agg renderer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def new_axes(figure: Any, left: float, bottom: float, width: float, height: float) -> Any:
    """Axes at a place given in inches, with a line only below."""
    across, up = figure.get_size_inches()
    axes = figure.add_axes((left / across, bottom / up, width / across, height / up))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2, colors=INK)
    axes.tick_params(axis="y", length=0)
    return axes


def centred(fontsize: float, color: Any = "white") -> dict[str, Any]:
    """Text style: small letters in the middle of a marker."""
    return {"ha": "center", "va": "center_baseline", "fontsize": fontsize, "color": color}


def outline(width: float = 2.5) -> list[Any]:
    """White around a text, so that it can be read on top of lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white")]


def legend_entry(**properties: Any) -> Any:
    """An entry of a legend: a marker or a line, and its label."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "markersize": 8, "markeredgecolor": "none", **properties})


def legend(target: Any, handles: list[Any], **place: Any) -> None:
    """A frameless legend of `handles` in an axes or a figure."""
    style = {"fontsize": 8, "frameon": False, "handletextpad": 0.3, "columnspacing": 1.2, "borderaxespad": 0.1}
    target.legend(handles=handles, **{**style, **place})


def save_still(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure in the format of its ending (one of `STILLS`); complete, or not at all."""
    write_whole(path, lambda partial: figure.savefig(partial, format=path.suffix.lower()[1:], dpi=dpi))
