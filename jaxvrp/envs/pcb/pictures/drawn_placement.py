"""One placement as pictures need it: rectangles, pads, wires, and what is wrong with it; NumPy, without padding."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.pcb.geometry import LEGAL_OVERLAP
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import Board, as_float32, trim


@dataclasses.dataclass(frozen=True, eq=False)
class DrawnPlacement:
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
        along_x = corner + arm[:, None] * np.array([1.0, 0.0])
        along_y = corner + arm[:, None] * np.array([0.0, 1.0])
        triangle = np.stack([corner, along_x, along_y], axis=1)
        return self.position[:, None] + turned(triangle, self.orientation[:, None])

    @property
    def faults(self) -> np.ndarray:
        """`[F, 4]`: what two parts have in common, and what is off the board, as boxes; none if it is legal."""
        first, second = np.triu_indices(len(self.boxes), 1)
        same_side = self.board.side[first] == self.board.side[second]
        counts = same_side & (self.wrong[first] | self.wrong[second])
        common = _intersections(self.boxes[first[counts]], self.boxes[second[counts]])
        pieces = np.concatenate([common, *_strips_outside(self.boxes[self.wrong], self.board.outline)])
        return pieces[(pieces[:, 2:] > pieces[:, :2]).all(axis=1)]

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


def measure_placement(
    board: Board, names: Sequence[str], position: ArrayLike | None, orientation: ArrayLike | None
) -> DrawnPlacement:
    """A placement of a board, measured as the environment does it.

    Args:
        board: one board; what is padding is left out.
        names: of its parts, or none.
        position: `[N, 2]`, centres in mm; None: those of the board.
        orientation: `[N]`, quarter turns; None: those of the board.

    Raises:
        ValueError: an array or the names do not fit the board's parts.
    """
    exists = np.asarray(board.exists)
    position = np.asarray(board.position if position is None else position, np.float64)
    orientation = np.asarray(board.orientation if orientation is None else orientation)
    _check_fit(exists.size, names, position, orientation)
    orientation = orientation.astype(np.int32)
    hpwl, overlap = _hpwl_and_overlap(as_float32(board), position.astype(np.float32), orientation)
    kept = np.flatnonzero(exists)
    return DrawnPlacement(
        board=trim(board),
        names=tuple(names[part] for part in kept.tolist()) if names else (),
        position=position[kept],
        orientation=orientation[kept],
        hpwl=float(hpwl),
        overlap=np.asarray(overlap)[kept],
    )


def _check_fit(num_parts: int, names: Sequence[str], position: np.ndarray, orientation: np.ndarray) -> None:
    if position.shape != (num_parts, 2) or orientation.shape != (num_parts,):
        raise ValueError(
            f"position has shape {position.shape} and orientation {orientation.shape}; "
            f"this board needs ({num_parts}, 2) and ({num_parts},)"
        )
    if not np.isfinite(position).all() or not np.isin(orientation, range(4)).all():
        raise ValueError("position must be finite, and orientation 0, 1, 2 or 3 quarter turns")
    if len(names) not in (0, num_parts):
        raise ValueError(f"{len(names)} names for {num_parts} parts; give one for each, or none")


@jax.jit
def _hpwl_and_overlap(board: Board, position: jax.Array, orientation: jax.Array) -> tuple[jax.Array, jax.Array]:
    measures = measure_board(board, position, orientation)
    return measures.hpwl, measures.overlap


def turned(offset: np.ndarray, quarters: np.ndarray) -> np.ndarray:
    """`[..., 2]`: offsets turned counter-clockwise on screen by quarters (`[...]`)."""
    x, y = offset[..., 0], offset[..., 1]
    by_quarters = np.stack([np.stack(pair, axis=-1) for pair in ((x, y), (y, -x), (-x, -y), (-y, x))])
    return np.choose((np.broadcast_to(quarters, x.shape) % 4)[..., None], by_quarters)


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


def _intersections(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """`[M, 4]`: what pairs of boxes have in common; right of or below itself where that is nothing."""
    return np.concatenate([np.maximum(boxes[:, :2], others[:, :2]), np.minimum(boxes[:, 2:], others[:, 2:])], axis=1)


def _strips_outside(boxes: np.ndarray, outline: np.ndarray) -> list[np.ndarray]:
    """What boxes have left and right of the board, and above and below of what remains; some without area."""
    left, top, right, bottom = boxes.T
    width, height = outline
    start, end = np.clip(left, 0, width), np.clip(right, 0, width)
    strips = [
        (left, top, np.minimum(right, 0), bottom),
        (np.maximum(left, width), top, right, bottom),
        (start, top, end, np.minimum(bottom, 0)),
        (start, np.maximum(top, height), end, bottom),
    ]
    return [np.stack(strip, axis=1) for strip in strips]
