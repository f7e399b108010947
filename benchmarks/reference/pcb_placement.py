"""Parts on a circuit board in plain NumPy: wires, overlap, and what a part sees around it.

Written from the specification alone, in float64, independent of the JAX environment. Millimetres, y points down, angles
counter-clockwise on screen, orientations in quarter turns. N components, A agents: the movable components, in order.
"""

from __future__ import annotations

import math

import numpy as np

from jaxvrp.envs.pcb.problem.board import Board

SECTORS = 8
REACH = 1.5  # radius of what a part sees, in its longer sides
LEGAL = 1e-5  # overlap of a legal part, in its own areas
SMALLEST = 1e-12


class Placement:
    """Where the parts of a board lie.

    Attributes:
        outline, size: `f64[2]` and `f64[N, 2]`, width and height in mm, of the parts at orientation 0.
        agents: `i64[A]`, the component of each agent.
        exists: `bool[N]`, false for padding.
        position, orientation: `f64[N, 2]` in mm and `i64[N]`. Call `measure` after a change.
        wirelength, hpwl: `f64[A]` in mm, W and H of each agent, by the last `measure`.
        board_hpwl: `f64`, over all signal nets, likewise.
    """

    def __init__(self, board: Board, *, rays: int) -> None:
        """One board, NumPy arrays without leading axes; it may hold padding. `rays` of each sector."""
        self.rays = rays
        self.outline, self.size = np.array(board.outline, np.float64), np.array(board.size, np.float64)
        self.agents, self.exists = np.flatnonzero(board.movable), np.array(board.exists)
        self.position, self.orientation = np.array(board.position, np.float64), np.array(board.orientation, np.int64)
        same_side = board.side[:, None] == board.side
        self._movable = np.array(board.movable)
        judged = self.exists[:, None] & self.exists & (self._movable[:, None] | self._movable)
        self._blocks = same_side & judged & ~np.eye(self.exists.size, dtype=bool)
        angle = (np.arange(SECTORS * rays) + 0.5) * (2 * np.pi / (SECTORS * rays)) - np.pi / SECTORS
        self._ray = np.stack([np.cos(angle), -np.sin(angle)])[:, None]
        # A ray along an axis would divide by 0.
        self._ray[np.abs(self._ray) < SMALLEST] = SMALLEST
        self._heads = np.sign(self._ray)
        self._prepare_nets(board)
        self.measure()

    def _prepare_nets(self, board: Board) -> None:
        """Signal pads by net, nets of each component, and edges from each agent's pads to those they are wired to."""
        pads = np.flatnonzero(board.signal_pin)
        pads = pads[np.argsort(board.pin_net[pads], kind="stable")]
        part, net = board.pin_component[pads].astype(np.int64), board.pin_net[pads]
        self._offset, self._pad_part = np.array(board.pin_offset[pads], np.float64), part
        self._net_starts = np.flatnonzero(np.diff(net, prepend=-1))
        touches = np.zeros((self.exists.size, board.num_nets), bool)
        touches[part, net] = True
        self._nets_of = touches[:, net[self._net_starts]][self.agents].astype(np.float64)
        self._neighbours = (touches[:, None] & touches).any(axis=2) & ~np.eye(self.exists.size, dtype=bool)
        wired = (net[:, None] == net) & (part[:, None] != part) & board.movable[part][:, None]
        start, end = np.nonzero(wired)
        order = np.lexsort((end, part[end], start, part[start]))
        self._start, self._end = start[order], end[order]
        self._pad_groups = np.flatnonzero(np.diff(self._start, prepend=-1))
        self._group_agent = np.searchsorted(self.agents, part[self._start[self._pad_groups]])
        self._pair = self._start * self.exists.size + part[self._end]
        self._edges = [np.flatnonzero(part[self._start] == agent) for agent in self.agents]

    def halves(self) -> np.ndarray:
        """Half the width and height of all components as they are turned, `f64[N, 2]`."""
        return np.where((self.orientation % 2 == 1)[:, None], self.size[:, ::-1], self.size) / 2

    def measure(self) -> None:
        """Wires and nets as the parts lie now."""
        quarter = self.orientation[self._pad_part, None]
        # A quarter turn makes (x, y) of an offset (y, -x).
        turned = np.where(quarter % 2 == 1, self._offset[:, ::-1] * (1, -1), self._offset)
        pads = self.position[self._pad_part] + np.where(quarter >= 2, -turned, turned)
        self._wire = pads[self._end] - pads[self._start]
        self._length = np.hypot(*self._wire.T)
        nearest, of_nets = np.zeros(0), np.zeros(0)
        # `reduceat` refuses to reduce nothing.
        if self._length.size:
            nearest = np.minimum.reduceat(self._length, self._pad_groups)
        if len(pads):
            extent = np.maximum.reduceat(pads, self._net_starts) - np.minimum.reduceat(pads, self._net_starts)
            of_nets = extent.sum(axis=1)
        self.wirelength = np.bincount(self._group_agent, nearest, self.agents.size)
        self.hpwl, self.board_hpwl = self._nets_of @ of_nets, float(of_nets.sum())

    def overlap(self) -> np.ndarray:
        """Area of each component that others on its side or the edge take, in its own areas, exactly, `f64[N]`.

        Not what fixed components take from each other, nor the edge from them.
        """
        half, area = self.halves(), self.size.prod(axis=1)
        low, high = self.position - half, self.position + half
        shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
        common = (np.maximum(shared, 0).prod(axis=2) * self._blocks).sum(axis=1)
        inside = np.maximum(np.minimum(high, self.outline) - np.maximum(low, 0), 0).prod(axis=1)
        taken = (common + np.maximum(area - inside, 0) * self._movable) / np.where(area > 0, area, 1.0)
        return taken * (self.exists & (area > 0))

    def has_left(self, agent: int) -> bool:
        """The centre is off the board, and no area of the body is on it."""
        part = self.agents[agent]
        centre, half = self.position[part], self.halves()[part]
        off = (centre < 0).any() or (centre > self.outline).any()
        return bool(off and (np.minimum(centre + half, self.outline) <= np.maximum(centre - half, 0)).any())

    def look(self, agent: int) -> np.ndarray:
        """What one agent sees, `f64[31]`, by the last `measure`."""
        part = self.agents[agent]
        los, ol, boardmask = self._shares(part)
        centre, wired = self.position[part], self._neighbours[part]
        to_mean = (self.position[wired] - centre).sum(axis=0) / (1 + np.count_nonzero(wired))
        vectors = self._polar(self._contact(agent)), self._polar(to_mean)
        place = (*centre / self.outline, self.orientation[part] / 4)
        return np.concatenate([los, ol, *vectors, place, boardmask])

    def _contact(self, agent: int) -> np.ndarray:
        """Mean vector from the own pads to the nearest pad of each other component on their nets, `f64[2]`."""
        edges = self._edges[agent]
        pair, wire = self._pair[edges], self._wire[edges]
        if not pair.size:
            return np.zeros(2)
        # A stable sort: among equally near pads the first counts.
        nearest = np.lexsort((self._length[edges], pair))[np.flatnonzero(np.diff(pair, prepend=-1))]
        return wire[nearest].mean(axis=0)

    def _polar(self, vector: np.ndarray) -> tuple[float, float]:
        """Length in diagonals of the board, and angle over pi with y up."""
        angle = math.atan2(0.0 - vector[1], vector[0])
        return math.hypot(*vector) / math.hypot(*self.outline), angle / math.pi

    def _shares(self, part: int) -> np.ndarray:
        """`los`, `ol` and `boardmask` of a component, `f64[3, 8]`, from areas along rays.

        A part without size has no body, and sees what its centre lies in.
        """
        half, others = self.halves(), self._blocks[part]
        enter, leave = self._crossed(part, self.position[others], half[others])
        on, off = self._crossed(part, self.outline[None] / 2, self.outline[None] / 2)
        body = np.min(half[part, :, None, None] / np.abs(self._ray), axis=(0, 1))
        limit = np.stack([np.full_like(body, max(REACH * self.size[part].max(), SMALLEST)), body])
        # Off the board is what lies before it and behind it; of a ray that misses it these two are everything.
        start = np.concatenate([enter, np.zeros_like(on), off])
        end = np.concatenate([leave, on, np.full_like(off, np.inf)])
        seen, hit = _covered(start, end, limit)
        outside = body**2 - np.maximum(np.clip(off[0], 0, body) ** 2 - np.clip(on[0], 0, body) ** 2, 0)
        areas = np.stack([seen, hit, outside, *limit**2]).reshape(5, SECTORS, self.rays).sum(axis=2)
        whole = areas[[3, 4, 4]]
        return np.roll(areas[:3] / np.where(whole > 0, whole, 1.0), -2 * self.orientation[part], axis=1)

    def _crossed(self, part: int, centre: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far from a component each ray enters and leaves K rectangles, `f64[K, 8 rays]` each.

        A ray that misses a rectangle enters it behind where it leaves it.
        """
        near, reach = (centre - self.position[part]).T[..., None], half.T[..., None] * self._heads
        return np.maximum(*((near - reach) / self._ray)), np.minimum(*((near + reach) / self._ray))


def _covered(start: np.ndarray, end: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Length of the union of intervals `[K, rays]`, in squared distance, up to each limit `[L, rays]`: `[L, rays]`."""
    order = np.argsort(start, axis=0)
    start, end = np.take_along_axis(start, order, axis=0), np.take_along_axis(end, order, axis=0)
    np.maximum(start[1:], np.maximum.accumulate(end, axis=0)[:-1], out=start[1:])
    start, end = (np.clip(ends, 0, limit[:, None]) ** 2 for ends in (start, end))
    return np.maximum(end - start, 0).sum(axis=1)
