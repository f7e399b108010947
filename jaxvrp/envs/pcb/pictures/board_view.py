"""A board in axes: outline, parts, pads, rats-nest, names, and faults in red; made once, and moved with the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.pcb.geometry import pad_positions, turned
from jaxvrp.envs.pcb.played import Placement
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.show.drawing import palette, paper
from jaxvrp.show.drawing.palette import RIGHT, SERIES, WRONG

# Red is kept for faults.
COLOURS = SERIES
POWER = palette.INK
TOP, BOTTOM, FIXED = "#DCE7F2", "#F4E4C4", "#DDDFE2"
TOP_EDGE, BOTTOM_EDGE, FIXED_EDGE = "#4E6E8E", "#8F6B1F", "#7A828A"
DASHES = (0, (3, 1.6))
# Colours that carry a meaning.
EXACT = ("white", palette.GROUND, palette.INK, TOP, BOTTOM, FIXED, FIXED_EDGE, *COLOURS, WRONG, RIGHT, POWER)
LETTERS, BESIDE, SMALLEST = 9.0, 7.0, 5.2  # points, of names in large parts, of those beside parts, and at least
SMALLEST_PIXELS = 8.2  # smaller letters cannot be read on a screen
NOTCH = 10.0  # points, the longest side of the mark in a corner

DIRECTIONS = np.array([(0, 0), (1, 0), (-1, 0), (0, -1), (0, 1), (1, 1), (-1, -1), (1, -1), (-1, 1)])
BESIDE_DIRECTIONS = DIRECTIONS[[3, 4, 1, 2]]
"""Where a name stands, from the middle of its part: inside, and beside it; the best first."""


class View(NamedTuple):
    """The cut-out that a board is drawn in: `box`, `[4]`, left, top, right, bottom in mm; `scale`, inches per mm."""

    box: np.ndarray
    scale: float

    @property
    def extent(self) -> np.ndarray:
        """`[2]`, width and height in inches."""
        return self.scale * (self.box[2:] - self.box[:2])

    def axes(self, sheet: paper.Paper, left: float, top: float) -> Any:
        """Axes of the view whose upper left corner is at a place in inches."""
        width, height = self.extent
        return sheet.axes(left, top - height, width, height)


def view_of(placements: Sequence[Placement], width: float, height: float) -> View:
    """A view that holds the board and all parts with a margin, as large as fits into these inches."""
    outline = placements[0].board.outline
    boxes = np.concatenate([[[0, 0, *outline]], *(placement.boxes for placement in placements)])
    margin = 0.03 * outline.max()
    box = np.concatenate([boxes[:, :2].min(axis=0) - margin, boxes[:, 2:].max(axis=0) + margin])
    return View(box, float(min((width, height) / (box[2:] - box[:2]))))


class BoardView:
    """A board in axes; `show` moves its `artists` to another placement. It has `ticks` in mm, or a scale bar."""

    def __init__(self, axes: Any, view: View, placement: Placement, *, ticks: bool = True):
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Rectangle

        self.axes, self.box, self.points_per_mm, self.board = axes, view.box, 72 * view.scale, placement.board
        axes.set(xlim=self.box[[0, 2]], ylim=self.box[[3, 1]], facecolor=palette.GROUND, aspect="equal")
        axes.spines[:].set_visible(False)
        axes.locator_params(nbins=6, steps=[1, 2, 5, 10])
        axes.tick_params(labelsize=7, length=2, width=0.6, labelbottom=ticks, labelleft=ticks, bottom=ticks, left=ticks)
        if ticks:
            axes.set_xlabel("mm", fontsize=7, labelpad=1)
        else:
            paper.scale_bar(axes, "mm", zorder=8)
        width, height = self.board.outline
        axes.add_patch(Rectangle((0, 0), width, height, facecolor="white", edgecolor=palette.INK, linewidth=1.3))
        # Power nets share one colour, and signal nets beyond the palette repeat it.
        net, is_signal = self.board.pin_net, self.board.power_rail == 0
        self.colours = np.where(is_signal, np.array(COLOURS)[(np.cumsum(is_signal) - 1) % len(COLOURS)], POWER)
        self.parts, self.hatched, self.notches, self.faults = _polygons(self.board, self.points_per_mm)
        self.wires = LineCollection([], linewidths=float(np.clip(0.09 * self.points_per_mm, 0.7, 1.4)), zorder=4)
        collections = [self.parts, self.hatched, self.notches, self.faults, self.wires]
        for collection in collections:
            axes.add_collection(collection, autolim=False)
        pad_points = float(np.clip(0.3 * self.points_per_mm, 2.4, 5.0))
        self.pad_extent = pad_points / self.points_per_mm
        look = {"s": pad_points**2, "edgecolors": "white", "linewidths": 0.1 * pad_points, "zorder": 5}
        self.pads = axes.scatter(*np.zeros((2, len(net))), c=self.colours[net], **look)
        style = {**paper.centred(LETTERS, palette.INK), "va": "center", "path_effects": paper.outline(1.6)}
        self.names = [axes.text(0, 0, name, **style, zorder=6) for name in placement.names]
        self.artists = [*collections, self.pads, *self.names]
        self.show(placement)

    def show(self, placement: Placement) -> None:
        """Move everything to where it is in a placement of the same board."""
        corners = _corners(placement.boxes)
        self.parts.set_verts(corners)
        self.hatched.set_verts(corners[self.board.fixed])
        self.notches.set_verts(_notches(placement, NOTCH / self.points_per_mm))
        self.faults.set_verts(_corners(faults_of(placement)))
        pads = pads_of(placement)
        ends, nets = wires_of(self.board, pads)
        self.wires.set_segments(list(ends))
        self.wires.set_color(self.colours[nets].tolist())
        self.pads.set_offsets(pads)
        if self.names:
            self._put_names(placement.boxes, pads)

    def _put_names(self, parts: np.ndarray, pads: np.ndarray) -> None:
        """Put names where they cover least, inside their parts or beside them; hide those that would cover another."""
        # The pads, then also the names that stand.
        taken = np.concatenate([pads - self.pad_extent / 2, pads + self.pad_extent / 2], axis=1)
        # Small parts first: they have the fewest places.
        for part in np.argsort(self.board.size.prod(axis=1), kind="stable"):
            text = self.names[part]
            text.set_visible(False)
            for box, font, inside in self._name_places(parts[part], len(text.get_text())):
                in_view = (box[:2] >= self.box[:2]).all() and (box[2:] <= self.box[2:]).all()
                others = taken if inside else np.concatenate([taken, parts])
                meets = ((others[:, :2] < box[2:]) & (others[:, 2:] > box[:2])).all(axis=1)
                if in_view and not meets.any():
                    text.set(visible=True, position=tuple((box[:2] + box[2:]) / 2), fontsize=font)
                    taken = np.concatenate([taken, box[None]])
                    break

    def _name_places(self, part: np.ndarray, letters: int) -> Iterator[tuple[np.ndarray, float, bool]]:
        """Places for the name of a part (its box, `[4]`), the best first: boxes in mm, points, whether inside."""
        least = max(SMALLEST, SMALLEST_PIXELS * 72 / self.axes.figure.dpi)
        centre, size = (part[:2] + part[2:]) / 2, part[2:] - part[:2]
        for font in (LETTERS, max(BESIDE, least), least):
            extent = font * np.array([0.66 * max(letters, 1), 1.05]) / self.points_per_mm
            spare = 0.94 * size - extent
            if (spare >= 0).all():
                yield from ((_box(centre + way * spare / 2, extent), font, True) for way in DIRECTIONS)
            if font < LETTERS:
                reach = (size + extent) / 2 + 1.2 / self.points_per_mm
                yield from ((_box(centre + way * reach, extent), font, False) for way in BESIDE_DIRECTIONS)


def pads_of(placement: Placement) -> np.ndarray:
    """`[P, 2]`, where the pads are, in mm."""
    board, position, quarters = placement.board, jnp.asarray(placement.position), jnp.asarray(placement.orientation)
    return np.asarray(pad_positions(position, quarters, board.pin_component, board.pin_offset))


def wires_of(board: Board, pads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rats-nest: `[W, 2, 2]` ends, and `[W]` nets; each signal net's shortest tree over its pads (`[P, 2]`)."""
    trees, nets = [np.zeros((0, 2, 2))], [np.zeros(0, np.int64)]
    for net in np.flatnonzero(board.power_rail == 0):
        points = pads[board.pin_net == net]
        tree = points[spanning_tree(points)]
        trees.append(tree)
        nets.append(np.full(len(tree), net))
    return np.concatenate(trees), np.concatenate(nets)


def spanning_tree(points: np.ndarray) -> np.ndarray:
    """`i64[n - 1, 2]`: the edges of a shortest tree over points `[n, 2]` (Prim)."""
    edges = np.zeros((max(len(points) - 1, 0), 2), np.int64)
    nearest_inside, gap = np.zeros(len(points), np.int64), np.full(len(points), np.inf)
    inside, latest = np.zeros(len(points), bool), 0
    for edge in edges:
        inside[latest] = True
        distance = np.hypot(*(points - points[latest]).T)
        nearest_inside, gap = np.where(distance < gap, latest, nearest_inside), np.minimum(gap, distance)
        latest = int(np.where(inside, np.inf, gap).argmin())
        edge[:] = nearest_inside[latest], latest
    return edges


def faults_of(placement: Placement) -> np.ndarray:
    """`[F, 4]`: common areas of two parts, and areas off the board, as boxes; none if the placement is legal.

    Fixed parts are at fault neither with each other nor with the edge.
    """
    boxes, side, wrong, fixed = placement.boxes, placement.board.side, placement.wrong, placement.board.fixed
    first, second = np.triu_indices(len(boxes), 1)
    counts = (side[first] == side[second]) & (wrong[first] | wrong[second]) & ~(fixed[first] & fixed[second])
    box, other = boxes[first[counts]], boxes[second[counts]]
    common = np.concatenate([np.maximum(box[:, :2], other[:, :2]), np.minimum(box[:, 2:], other[:, 2:])], axis=1)
    # Left and right of the board, then above and below of what remains; some without area.
    left, top, right, bottom = boxes[wrong & ~fixed].T
    width, height = placement.board.outline
    start, end = np.clip(left, 0, width), np.clip(right, 0, width)
    strips = [
        (left, top, np.minimum(right, 0), bottom),
        (np.maximum(left, width), top, right, bottom),
        (start, top, end, np.minimum(bottom, 0)),
        (start, np.maximum(top, height), end, bottom),
    ]
    pieces = np.concatenate([common, *(np.stack(strip, axis=1) for strip in strips)])
    return pieces[(pieces[:, 2:] > pieces[:, :2]).all(axis=1)]


def _notches(placement: Placement, longest: float) -> np.ndarray:
    """`[N, 3, 2]`: a triangle, up to `longest` mm, in the corner of each part that is its upper left one unturned."""
    size, quarters = placement.board.size, jnp.asarray(placement.orientation[:, None])
    arm = np.minimum(0.42 * size.min(axis=1), longest)[:, None]
    triangle = np.stack([-size / 2, -size / 2 + arm * (1, 0), -size / 2 + arm * (0, 1)], axis=1)
    return placement.position[:, None] + np.asarray(turned(jnp.asarray(triangle), quarters))


def legend_entries(board: Board) -> list[Any]:
    """Legend entries for what a picture of this board can hold."""
    from matplotlib.patches import Patch

    def key(marker: str, size: float, colour: str, label: str, **look: Any) -> Any:
        return paper.legend_entry(marker=marker, markersize=size, color=colour, label=label, **look)

    fixed: dict[str, Any] = {"facecolor": FIXED, "edgecolor": FIXED_EDGE, "hatch": "////", "linewidth": 0.8}
    fault: dict[str, Any] = {"facecolor": (WRONG, 0.5), "edgecolor": WRONG, "hatch": "xxx", "linewidth": 0.8}
    movable_above, below = (~board.fixed & (board.side == 0)).any(), (board.side == 1).any()
    entries = [
        (movable_above, key("s", 9, TOP, "part (notch: how it is turned)", markeredgecolor=TOP_EDGE)),
        (below, key("s", 9, BOTTOM, "part on the other side", markeredgecolor=BOTTOM_EDGE)),
        (board.fixed.any(), Patch(**fixed, label="fixed part")),
        (True, key("o", 5, COLOURS[0], "pads and wires of a signal net", linestyle="-")),
        ((board.power_rail > 0).any(), key("o", 5, POWER, "pad of a power net")),
        (True, Patch(**fault, label="overlap, off the board")),
    ]
    return [entry for is_shown, entry in entries if is_shown]


def _polygons(board: Board, points_per_mm: float) -> tuple[Any, Any, Any, Any]:
    """Collections without places yet: all parts, the hatching of fixed parts, notches, faults."""
    from matplotlib.collections import PolyCollection

    is_back, width = board.side == 1, float(np.clip(0.05 * points_per_mm, 0.6, 1.1))
    faces = np.where(board.fixed, FIXED, np.where(is_back, BOTTOM, TOP))
    edges = np.where(is_back, BOTTOM_EDGE, np.where(board.fixed, FIXED_EDGE, TOP_EDGE))
    dashes = [DASHES if back else "-" for back in is_back]
    return (
        PolyCollection([], facecolors=faces, edgecolors=edges, linestyles=dashes, linewidths=width, zorder=2),
        PolyCollection([], facecolors="none", edgecolors="#A3A9B0", linewidths=0, hatch="////", zorder=2.1),
        PolyCollection([], facecolors=edges, linewidths=0, zorder=2.2),
        PolyCollection([], facecolors=[(WRONG, 0.5)], edgecolors=WRONG, linewidths=0.9, hatch="xxx", zorder=3),
    )


def _corners(boxes: np.ndarray) -> np.ndarray:
    """`[N, 4, 2]` of boxes `[N, 4]`."""
    return boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]


def _box(centre: np.ndarray, extent: np.ndarray) -> np.ndarray:
    """`[4]`: left, top, right, bottom."""
    return np.concatenate([centre - extent / 2, centre + extent / 2])
