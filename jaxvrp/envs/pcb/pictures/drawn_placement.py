"""One placement as pictures need it: rectangles, pads, wires, and what is wrong with it; NumPy, without padding."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.geometry import LEGAL_OVERLAP
from jaxvrp.envs.pcb.problem.board import Board, as_float32, trim


@dataclasses.dataclass(frozen=True, eq=False)
class Placement:
    """Where the parts of a board lie, and what that is worth.

    Attributes:
        board: one board as NumPy arrays, without padding; its own positions do not matter.
        names: of the parts; empty for none.
        position: `[N, 2]`, centres in mm.
        orientation: `[N]`, quarter turns.
        hpwl: of the board in mm.
        overlap: `[N]`, overlap ratios.
    """

    board: Board
    names: tuple[str, ...]
    position: np.ndarray
    orientation: np.ndarray
    hpwl: float
    overlap: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """`bool[N]`, the parts that overlap others or stick out."""
        return self.overlap > LEGAL_OVERLAP

    @property
    def verdict(self) -> str:
        """Whether it is legal, in words."""
        if not self.wrong.any():
            return "legal"
        return f"not legal: {int(self.wrong.sum())} of {self.wrong.size} parts overlap or stick out"

    @property
    def half(self) -> np.ndarray:
        """`[N, 2]`, half extents as turned."""
        size = self.board.size
        return 0.5 * np.where(self.orientation[:, None] % 2 == 1, size[:, ::-1], size)

    @functools.cached_property
    def boxes(self) -> np.ndarray:
        """`[N, 4]`: left, top, right, bottom of the parts."""
        return np.concatenate([self.position - self.half, self.position + self.half], axis=1)

    @functools.cached_property
    def pads(self) -> np.ndarray:
        """`[P, 2]`, where the pads are."""
        part = self.board.pin_component
        return self.position[part] + turned(self.board.pin_offset, self.orientation[part])

    def notches(self, longest: float) -> np.ndarray:
        """`[N, 3, 2]`: a triangle in the corner of each part that is its upper left one at 0 quarters.

        Its sides are as long as the part allows, up to `longest` (mm).
        """
        size = self.board.size
        arm = np.minimum(0.42 * size.min(axis=1), longest)
        corner = -size / 2
        along, down = (corner + arm[:, None] * np.eye(2)[axis] for axis in (0, 1))
        triangle = np.stack([corner, along, down], axis=1)
        return self.position[:, None] + turned(triangle, self.orientation[:, None])

    @property
    def faults(self) -> np.ndarray:
        """`[F, 4]`: what two parts have in common, and what is off the board, as boxes; none if it is legal."""
        one, other = np.triu_indices(len(self.boxes), 1)
        counts = (self.wrong[one] | self.wrong[other]) & (self.board.side[one] == self.board.side[other])
        common = _common(self.boxes[one[counts]], self.boxes[other[counts]])
        return _with_area(np.concatenate([common, *_outside(self.boxes[self.wrong], self.board.outline)]))

    @property
    def wires(self) -> tuple[np.ndarray, np.ndarray]:
        """The rats-nest: `[W, 2, 2]` ends, and `[W]` nets; each signal net's shortest tree over its pads."""
        trees, nets = [np.zeros((0, 2, 2))], [np.zeros(0, np.int64)]
        for net in np.flatnonzero(self.board.power_rail == 0):
            points = self.pads[self.board.pin_net == net]
            tree = points[spanning_tree(points)]
            trees.append(tree)
            nets.append(np.full(len(tree), net))
        return np.concatenate(trees), np.concatenate(nets)


def measured(
    board: Board, names: Sequence[str], position: ArrayLike | None, orientation: ArrayLike | None
) -> Placement:
    """A placement, measured as the environment does it; by default the one that the board brings along.

    Raises:
        ValueError: an array or the names do not fit the board's parts.
    """
    exists = np.asarray(board.exists)
    position = np.asarray(board.position if position is None else position, np.float64)
    orientation = np.asarray(board.orientation if orientation is None else orientation)
    if position.shape != (exists.size, 2) or orientation.shape != (exists.size,):
        raise ValueError(
            f"position has shape {position.shape} and orientation {orientation.shape}; "
            f"this board needs ({exists.size}, 2) and ({exists.size},)"
        )
    if not np.isfinite(position).all() or not np.isin(orientation, range(4)).all():
        raise ValueError("position must be finite, and orientation 0, 1, 2 or 3 quarter turns")
    if len(names) not in (0, exists.size):
        raise ValueError(f"{len(names)} names for {exists.size} parts; give one for each, or none")
    kept = np.flatnonzero(exists)
    orientation = orientation.astype(np.int32)
    hpwl, overlap = _measure(as_float32(board).replace(position=position.astype(np.float32), orientation=orientation))
    return Placement(
        trim(board),
        tuple(names[at] for at in kept.tolist()) if names else (),
        position[kept],
        orientation[kept],
        float(hpwl),
        np.asarray(overlap)[kept],
    )


@jax.jit
def _measure(board: Board) -> tuple[jax.Array, jax.Array]:
    """HPWL (`f32[]`, mm) and overlap ratios (`f32[N]`)."""
    pads = geometry.pad_positions(board.position, board.orientation, board.pin_component, board.pin_offset)
    half = geometry.half_extent(board.size, board.orientation)
    obstructs = geometry.obstructing(board.side, board.exists)
    return (
        wirelength.net_hpwl(pads, board.pin_net, board.signal_pin, board.num_nets).sum(),
        geometry.overlap_ratio(board.position, half, board.outline, obstructs, board.exists),
    )


def turned(offset: np.ndarray, quarters: np.ndarray) -> np.ndarray:
    """`[..., 2]`: offsets turned counter-clockwise on screen by quarters (`[...]`)."""
    x, y = offset[..., 0], offset[..., 1]
    ways = np.stack([np.stack(way, axis=-1) for way in ((x, y), (y, -x), (-x, -y), (-y, x))])
    return np.choose((np.broadcast_to(quarters, x.shape) % 4)[..., None], ways)


def spanning_tree(points: np.ndarray) -> np.ndarray:
    """`i64[n - 1, 2]`: the edges of a shortest tree over points `[n, 2]` (Prim)."""
    edges = np.zeros((max(len(points) - 1, 0), 2), np.int64)
    nearest, gap = np.zeros(len(points), np.int64), np.full(len(points), np.inf)
    inside, last = np.zeros(len(points), bool), 0
    for edge in edges:
        inside[last] = True
        reach = np.hypot(*(points - points[last]).T)
        nearest, gap = np.where(reach < gap, last, nearest), np.minimum(gap, reach)
        last = int(np.where(inside, np.inf, gap).argmin())
        edge[:] = nearest[last], last
    return edges


def _common(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.concatenate([np.maximum(one[:, :2], other[:, :2]), np.minimum(one[:, 2:], other[:, 2:])], axis=1)


def _outside(boxes: np.ndarray, outline: np.ndarray) -> list[np.ndarray]:
    """What boxes have left and right of the board, and above and below of what remains; some without area."""
    (left, top, right, bottom), (width, height) = boxes.T, outline
    start, end = np.clip(left, 0, width), np.clip(right, 0, width)
    strips = [
        (left, top, np.minimum(right, 0), bottom),
        (np.maximum(left, width), top, right, bottom),
        (start, top, end, np.minimum(bottom, 0)),
        (start, np.maximum(top, height), end, bottom),
    ]
    return [np.stack(strip, axis=1) for strip in strips]


def _with_area(boxes: np.ndarray) -> np.ndarray:
    return boxes[(boxes[:, 2:] > boxes[:, :2]).all(axis=1)]
