"""Files of pictures: which endings there are, and what they mean, for all pictures of this project."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxvrp.io.whole_files import write_whole

STILLS = (".png", ".svg", ".pdf")
"""Endings of pictures that do not move."""

ANIMATION = ".gif"
"""The ending of one that does."""

WITHOUT_DATE: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The same picture is the same file, byte for byte."""

FONTS: dict[Any, Any] = {"svg.hashsalt": "jaxvrp", "pdf.fonttype": 42}
"""Names inside an SVG that do not change, and letters in a PDF that publishers take (TrueType, not Type 3)."""


def save_still(figure: Any, path: str | os.PathLike, dpi: float) -> None:
    """Write a figure in the format of its ending (one of `STILLS`); complete, or not at all.

    Args:
        figure: of matplotlib.
        path: of the file; one that is there already is replaced.
        dpi: pixels per inch, of a `.png`.

    Raises:
        ValueError: another ending.
        OSError: the file cannot be written.
    """
    from matplotlib import rc_context

    path = Path(path)
    ending = _ending(path, "a picture", STILLS)
    style = {"format": ending[1:], "dpi": dpi, "metadata": WITHOUT_DATE.get(ending)}
    with rc_context(FONTS):
        write_whole(path, lambda partial: figure.savefig(partial, **style))


def write_picture(
    path: str | os.PathLike,
    what: str,
    still: Callable[[], Any],
    animation: Callable[[Path], None] | None = None,
    *,
    dpi: float,
) -> None:
    """Draw to a file, as its ending says; complete, or not at all, and nothing is drawn for an unknown ending.

    Args:
        path: of the file; one that is there already is replaced.
        what: is drawn, for the message: `"a plan"`.
        still: makes the figure.
        animation: writes the animation to a path, whatever its name; None: there is none.
        dpi: pixels per inch of a `.png`.

    Raises:
        ValueError: another ending.
        OSError: the file cannot be written.
    """
    path = Path(path)
    endings = STILLS if animation is None else (ANIMATION, *STILLS)
    if _ending(path, what, endings) != ANIMATION:
        save_still(still(), path, dpi)
    elif animation is not None:
        write_whole(path, animation)


def _ending(path: Path, what: str, endings: tuple[str, ...]) -> str:
    """The ending of a path in small letters.

    Raises:
        ValueError: none of `endings`.
    """
    ending = path.suffix.lower()
    if ending not in endings:
        use = ".png, .svg or .pdf"
        use = f"{ANIMATION} (animation), {use} (still)" if ANIMATION in endings else use
        raise ValueError(f"cannot draw {what} to '{path.name}': use {use}")
    return ending
