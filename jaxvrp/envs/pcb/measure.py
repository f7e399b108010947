"""Measures of a placement: of the board, and of the agent that moves a part."""

from __future__ import annotations

from typing import NamedTuple

import jax

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.problem.board import Board, as_float32
from jaxvrp.envs.pcb.problem.instance import Wiring, obstructing


class BoardMeasures(NamedTuple):
    """Measures of a placement as a whole."""

    pads: jax.Array  # f32[P, 2], where the pads are, in mm
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
    pads = geometry.pad_positions(position, orientation, board.pin_component, board.pin_offset)
    half = geometry.half_extent(board.size, orientation)
    return BoardMeasures(
        pads=pads,
        net_hpwl=wirelength.net_hpwl(pads, board.pin_net, signal, board.num_nets),
        overlap=geometry.overlap_ratio(position, half, board.outline, obstructs, board.exists, board.movable),
    )


def measure_agent(
    board: Board, wiring: Wiring, position: jax.Array, orientation: jax.Array, agent: jax.Array, rays: int
) -> AgentMeasures:
    """The measures of one agent (`i32[]`), with so many rays of a sector; other arguments as of `measure_board`."""
    component, net = board.pin_component, board.pin_net
    part, own_pads = wiring.component[agent], wiring.pads[agent]
    pads = geometry.pad_positions(position, orientation, component, board.pin_offset)
    net_hpwl = wirelength.net_hpwl(pads, net, wiring.signal, board.num_nets)
    obstacles = wiring.obstructs[part]
    return AgentMeasures(
        shares=geometry.sector_shares(position, board.size, orientation, part, obstacles, board.outline, rays=rays),
        wirelength=wirelength.pad_wirelengths(pads, component, net, wiring.signal, own_pads).sum(),
        hpwl=wirelength.part_hpwl(net_hpwl, wiring.nets[agent]),
        to_contacts=wirelength.mean_contact(pads, component, net, own_pads, wiring.groups),
        to_neighbours=geometry.mean_neighbour(position, wiring.neighbours[agent], part),
    )
