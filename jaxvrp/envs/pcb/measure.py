"""Measures of a placement: of the board, and of the agent that moves a part."""

from __future__ import annotations

from typing import NamedTuple

import jax

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.problem.board import Board, as_float32
from jaxvrp.envs.pcb.problem.instance import Wiring, obstructing
from jaxvrp.envs.pcb.wirelength import Pads
from jaxvrp.rows import rows_at


class BoardMeasures(NamedTuple):
    """Measures of a placement as a whole."""

    pads: Pads
    net_hpwl: jax.Array  # f32[E], half perimeter of each signal net in mm; 0 for other nets
    overlap: jax.Array  # f32[N], `geometry.overlap_ratio` of the parts

    @property
    def hpwl(self) -> jax.Array:
        """`f32[...]`, over all signal nets, in mm."""
        return self.net_hpwl.sum(axis=-1)


class AgentMeasures(NamedTuple):
    """Measures of an agent where its part lies."""

    shares: geometry.SectorShares  # of the eight sectors around the part
    wirelength: jax.Array  # f32[], W in mm
    hpwl: jax.Array  # f32[], H in mm
    to_contacts: jax.Array  # f32[2], mean vector in mm to the nearest pads on its nets
    to_neighbours: jax.Array  # f32[2], vector in mm to the mean of its neighbours' centres and its own


def measure_board(
    board: Board, position: jax.Array, orientation: jax.Array, wiring: Wiring | None = None
) -> BoardMeasures:
    """Measure a placement; works under `jit` and `vmap`.

    `board`: without leading axes. `position`: `f32[N, 2]`, centres in mm. `orientation`: `i32[N]`, quarter turns.
    `wiring`: the board's tables; without them the two that are needed are computed.
    """
    board = as_float32(board)
    signal = board.signal_pin if wiring is None else wiring.signal
    obstructs = obstructing(board) if wiring is None else wiring.obstructs
    pads = pads_of(board, signal, position, orientation)
    half = geometry.half_extent(board.size, orientation)
    return BoardMeasures(
        pads=pads,
        net_hpwl=wirelength.net_hpwl(pads, board.num_nets),
        overlap=geometry.overlap_ratio(position, half, board.outline, obstructs, board.exists, board.movable),
    )


def pads_of(board: Board, signal: jax.Array, position: jax.Array, orientation: jax.Array) -> Pads:
    """All pads of a board where its parts lie; `signal`: `bool[P]`, other arguments as of `measure_board`."""
    place = geometry.pad_positions(position, orientation, board.pin_component, board.pin_offset)
    return Pads(place, board.pin_component, board.pin_net, signal)


def measure_agent(
    board: Board, wiring: Wiring, position: jax.Array, orientation: jax.Array, pads: Pads, rays: int
) -> AgentMeasures:
    """The measures of one agent, whose `wiring` it is (`Wiring.of`), with so many rays of a sector.

    `pads`: where they lie, `pads_of`; other arguments as of `measure_board`.
    """
    part = wiring.component
    own_pads, obstacles = pads.at(wiring.pads), rows_at(wiring.obstructs, part)
    net_hpwl = wirelength.net_hpwl(pads, board.num_nets)
    return AgentMeasures(
        shares=geometry.sector_shares(position, board.size, orientation, part, obstacles, board.outline, rays=rays),
        wirelength=wirelength.pad_wirelengths(pads, own_pads).sum(),
        hpwl=wirelength.part_hpwl(net_hpwl, wiring.nets),
        to_contacts=wirelength.mean_contact(pads, own_pads, wiring.groups),
        to_neighbours=geometry.mean_neighbour(position, wiring.neighbours, part),
    )
