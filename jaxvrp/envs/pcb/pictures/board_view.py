"""A board in axes: outline, parts, pads, rats-nest, names, what is wrong; made once, and moved with the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.pcb.pictures.drawn_placement import DrawnPlacement
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.pictures.palette import RIGHT, SERIES, WRONG

# Red is kept for what is wrong.
COLOURS = SERIES
POWER = pictures.INK
TOP, BOTTOM, FIXED = "#DCE7F2", "#F4E4C4", "#DDDFE2"
TOP_EDGE, BOTTOM_EDGE, FIXED_EDGE = "#4E6E8E", "#8F6B1F", "#7A828A"
DASHES = (0, (3, 1.6))
EXACT = ("white", pictures.GROUND, pictures.INK, TOP, BOTTOM, FIXED, FIXED_EDGE, *COLOURS, WRONG, RIGHT, POWER)
"""Colours that carry a meaning."""

LETTERS, BESIDE, SMALLEST = 9.0, 7.0, 5.2
"""Points: the letters of names in large parts, those beside parts, and the smallest."""

SMALLEST_PIXELS = 8.2
"""Smaller letters cannot be read on a screen."""

NOTCH = 10.0
"""Points: the longest side of the mark in a corner."""

DIRECTIONS = np.array([(0, 0), (1, 0), (-1, 0), (0, -1), (0, 1), (1, 1), (-1, -1), (1, -1), (-1, 1)])
BESIDE_DIRECTIONS = DIRECTIONS[[3, 4, 1, 2]]
"""Where a name stands, from the middle of its part: inside, and beside it; the best first."""


class NamePlace(NamedTuple):
    """A place where a name may stand.

    Attributes:
        box: `[4]`, left, top, right, bottom of the letters in mm.
        font: size of the letters in points.
        angle: of the line, degrees.
        inside: the part, not beside it.
    """

    box: np.ndarray
    font: float
    angle: int
    inside: bool


def view_of(placements: Sequence[DrawnPlacement]) -> np.ndarray:
    """`[4]`: left, top, right, bottom in mm of what holds the board and all parts, with a margin."""
    outline = placements[0].board.outline
    boxes = np.concatenate([[[0, 0, *outline]], *(placement.boxes for placement in placements)])
    margin = 0.03 * outline.max()
    return np.concatenate([boxes[:, :2].min(axis=0) - margin, boxes[:, 2:].max(axis=0) + margin])


def axes_at(sheet: pictures.Sheet, left: float, top: float, view: np.ndarray, scale: float) -> Any:
    """Axes of a view whose upper left corner is at a place in inches; `scale` is inches per mm."""
    width, height = scale * (view[2:] - view[:2])
    return sheet.axes(left, top - height, width, height)


def scale_to(view: np.ndarray, width: float, height: float) -> float:
    """Inches per mm with which the view fits into a box."""
    return float(min(width / (view[2] - view[0]), height / (view[3] - view[1])))


class BoardView:
    """A board in axes, of which `show` draws one placement.

    Args:
        axes: of matplotlib.
        view: from `view_of`.
        scale: inches per mm.
        placement: any one; its board and names count.
        ticks: whether the sides have ticks in mm; else there is a scale bar.

    Attributes:
        artists: those that `show` changes, in the order in which they are drawn.
    """

    def __init__(
        self,
        axes: Any,
        view: np.ndarray,
        scale: float,
        placement: DrawnPlacement,
        ticks: bool = True,
    ):
        from matplotlib.collections import LineCollection

        self.axes, self.view, self.points_per_mm, self.board = axes, view, 72 * scale, placement.board
        _set_axes(axes, view, ticks)
        self.axes.add_patch(outline_patch(self.board))
        self.colours = np.array(net_colours(self.board))
        self.parts, self.hatched, self.notches, self.faults = _polygons(self.board, self.points_per_mm)
        self.wires = LineCollection([], linewidths=float(np.clip(0.09 * self.points_per_mm, 0.7, 1.4)), zorder=4)
        collections = [self.parts, self.hatched, self.notches, self.faults, self.wires]
        for collection in collections:
            self.axes.add_collection(collection, autolim=False)
        pad_points = float(np.clip(0.3 * self.points_per_mm, 2.4, 5.0))
        edge = {"edgecolors": "white", "linewidths": 0.1 * pad_points}
        net = self.board.pin_net
        nowhere = np.zeros((2, len(net)))
        self.pads = self.axes.scatter(*nowhere, s=pad_points**2, c=self.colours[net], **edge, zorder=5)
        self.pad_extent = pad_points / self.points_per_mm
        style = {**pictures.centred(LETTERS, pictures.INK), "va": "center", "path_effects": pictures.outline(1.6)}
        self.names = [self.axes.text(0, 0, name, **style, zorder=6) for name in placement.names]
        self.artists = [*collections, self.pads, *self.names]

    def show(self, placement: DrawnPlacement) -> None:
        """Move everything to where it is in a placement of the same board."""
        corners = _corners(placement.boxes)
        self.parts.set_verts(corners)
        self.hatched.set_verts(corners[self.board.fixed])
        self.notches.set_verts(placement.notches(NOTCH / self.points_per_mm))
        self.faults.set_verts(_corners(placement.faults))
        ends, nets = placement.wires
        self.wires.set_segments(list(ends))
        self.wires.set_color(self.colours[nets].tolist())
        self.pads.set_offsets(placement.pads)
        if self.names:
            self._put_names(placement)

    def _put_names(self, placement: DrawnPlacement) -> None:
        """Where they cover least, inside their parts or beside them; one that would cover another is left out."""
        taken, parts = np.zeros((0, 4)), placement.boxes
        pads = np.concatenate([placement.pads - self.pad_extent / 2, placement.pads + self.pad_extent / 2], axis=1)
        # Small parts first: they have the fewest places.
        for part in np.argsort(placement.board.size.prod(axis=1), kind="stable"):
            text = self.names[part]
            obstacles_inside = np.concatenate([taken, pads])
            obstacles_beside = np.concatenate([obstacles_inside, parts])
            text.set_visible(False)
            for place in self._name_places(parts[part], len(text.get_text())):
                obstacles = obstacles_inside if place.inside else obstacles_beside
                if self._in_view(place.box) and not _meets(place.box, obstacles).any():
                    middle = (place.box[:2] + place.box[2:]) / 2
                    text.set(visible=True, position=tuple(middle), fontsize=place.font, rotation=place.angle)
                    taken = np.concatenate([taken, place.box[None]])
                    break

    def _in_view(self, box: np.ndarray) -> bool:
        return bool((box[:2] >= self.view[:2]).all() and (box[2:] <= self.view[2:]).all())

    def _name_places(self, part: np.ndarray, letters: int) -> Iterator[NamePlace]:
        """Where the name of a part (its box, `[4]`) may stand, the best first: inside, if letters can be large there,
        beside it, inside in small letters, beside it in small ones.
        """
        extent = np.array([0.66 * max(letters, 1), 1.05]) / self.points_per_mm
        least = max(SMALLEST, SMALLEST_PIXELS * 72 / self.axes.figure.dpi)
        inside = [place for place in _places_inside(part, extent, letters) if place.font >= least]
        yield from (place for place in inside if place.font >= BESIDE)
        yield from self._places_beside(part, extent, max(BESIDE, least))
        yield from (place for place in inside if place.font < BESIDE)
        yield from self._places_beside(part, extent, least)

    def _places_beside(self, part: np.ndarray, extent: np.ndarray, font: float) -> Iterator[NamePlace]:
        """Above, below, right and left of a part."""
        centre, reach = (part[:2] + part[2:]) / 2, part[2:] - part[:2] + font * extent
        for direction in BESIDE_DIRECTIONS:
            place = centre + direction * (reach / 2 + 1.2 / self.points_per_mm)
            yield NamePlace(_box(place, font * extent), font, 0, inside=False)


def _places_inside(part: np.ndarray, extent: np.ndarray, letters: int) -> Iterator[NamePlace]:
    """Places in a part for a name that takes `extent` (mm) in letters of one point; large letters first."""
    centre, room = (part[:2] + part[2:]) / 2, 0.94 * (part[2:] - part[:2])
    # A short name is never laid on its side.
    upright = letters > 2 and room[1] > room[0] and (room / extent).min() < BESIDE
    angle, extent = (90, extent[::-1]) if upright else (0, extent)
    most = min(LETTERS, float((room / extent).min()))
    for font in (most, 0.8 * most, 0.65 * most):
        spare = (room - font * extent) / 2
        for direction in DIRECTIONS:
            yield NamePlace(_box(centre + direction * spare, font * extent), font, angle, inside=True)


def outline_patch(board: Board, fill: bool = True) -> Any:
    """The rectangle of a board, white or see-through."""
    from matplotlib.patches import Rectangle

    return Rectangle((0, 0), *board.outline, facecolor="white", fill=fill, edgecolor=pictures.INK, linewidth=1.3)


def net_colours(board: Board) -> list[str]:
    """Of the pads and wires of every net; power nets share one, and signal nets beyond the palette repeat it."""
    rank = np.cumsum(board.power_rail == 0) - 1
    return [
        POWER if rail else COLOURS[number % len(COLOURS)] for number, rail in zip(rank, board.power_rail, strict=True)
    ]


def legend_entries(board: Board) -> list[Any]:
    """Legend entries for what a picture of this board can hold."""
    square = {"marker": "s", "markersize": 9}
    entries = []
    if (~board.fixed & (board.side == 0)).any():
        entries.append(
            pictures.legend_entry(**square, color=TOP, markeredgecolor=TOP_EDGE, label="part (notch: how it is turned)")
        )
    if (board.side == 1).any():
        entries.append(
            pictures.legend_entry(**square, color=BOTTOM, markeredgecolor=BOTTOM_EDGE, label="part on the other side")
        )
    if board.fixed.any():
        entries.append(_hatched_key("////", FIXED, FIXED_EDGE, "fixed part"))
    entries.append(
        pictures.legend_entry(
            marker="o", color=COLOURS[0], markersize=5, linestyle="-", label="pads and wires of a signal net"
        )
    )
    if (board.power_rail > 0).any():
        entries.append(pictures.legend_entry(marker="o", color=POWER, markersize=5, label="pad of a power net"))
    entries.append(_hatched_key("xxx", (*_rgb(WRONG), 0.5), WRONG, "overlap, off the board"))
    return entries


def _hatched_key(hatch: str, face: Any, edge: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.8, label=label)


def _set_axes(axes: Any, view: np.ndarray, ticks: bool) -> None:
    axes.set(xlim=view[[0, 2]], ylim=view[[3, 1]], facecolor=pictures.GROUND, aspect="equal")
    axes.spines[:].set_visible(False)
    axes.locator_params(nbins=6, steps=[1, 2, 5, 10])
    axes.tick_params(labelsize=7, length=2, width=0.6, labelbottom=ticks, labelleft=ticks, bottom=ticks, left=ticks)
    if ticks:
        axes.set_xlabel("mm", fontsize=7, labelpad=1)
    else:
        pictures.scale_bar(axes, "mm", zorder=8)


def _polygons(board: Board, points_per_mm: float) -> tuple[Any, Any, Any, Any]:
    """Collections without places yet: all parts, the hatching of the fixed ones, notches, what is wrong."""
    from matplotlib.collections import PolyCollection

    is_back, width = board.side == 1, float(np.clip(0.05 * points_per_mm, 0.6, 1.1))
    faces = np.where(board.fixed, FIXED, np.where(is_back, BOTTOM, TOP))
    edges = np.where(is_back, BOTTOM_EDGE, np.where(board.fixed, FIXED_EDGE, TOP_EDGE))
    dashes = [DASHES if back else "-" for back in is_back]
    wrong: dict[str, Any] = {"facecolors": (*_rgb(WRONG), 0.5), "edgecolors": WRONG, "linewidths": 0.9, "hatch": "xxx"}
    return (
        PolyCollection([], facecolors=faces, edgecolors=edges, linestyles=dashes, linewidths=width, zorder=2),
        PolyCollection([], facecolors="none", edgecolors="#A3A9B0", linewidths=0, hatch="////", zorder=2.1),
        PolyCollection([], facecolors=edges, linewidths=0, zorder=2.2),
        PolyCollection([], **wrong, zorder=3),
    )


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _corners(boxes: np.ndarray) -> np.ndarray:
    """`[N, 4, 2]` of boxes `[N, 4]`."""
    return boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]


def _box(centre: np.ndarray, extent: np.ndarray) -> np.ndarray:
    """`[4]`: left, top, right, bottom."""
    return np.concatenate([centre - extent / 2, centre + extent / 2])


def _meets(box: np.ndarray, others: np.ndarray) -> Any:
    """`bool[M]`: which boxes `[M, 4]` a box `[4]` has area in common with."""
    return ((others[:, :2] < box[2:]) & (others[:, 2:] > box[:2])).all(axis=1)
