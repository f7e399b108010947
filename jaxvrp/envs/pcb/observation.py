"""What an agent measures where its part lies: the shares of its sectors, its wirelengths, its neighbours."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.problem.instance import Instance

OBSERVATION_SIZE = 31


class Sight(NamedTuple):
    """Measures of one agent.

    Attributes:
        shares: of its eight sectors.
        wirelength, hpwl: `f32[]`, W and H in mm.
        contact: `f32[2]`, mean vector in mm to the nearest pads on its nets.
        centre: `f32[2]`, vector in mm to the mean of its neighbours' centres and its own.
    """

    shares: geometry.SectorShares
    wirelength: jax.Array
    hpwl: jax.Array
    contact: jax.Array
    centre: jax.Array


def look(instance: Instance, position: jax.Array, orientation: jax.Array, agent: jax.Array, *, rays: int) -> Sight:
    """What `agent` (`i32[]`) measures with the parts at `position` (`f32[N, 2]`) and `orientation` (`i32[N]`)."""
    board, wiring = instance.board, instance.wiring
    part, own_pads = wiring.component[agent], wiring.pads[agent]
    pads = geometry.pad_positions(position, orientation, board.pin_component, board.pin_offset)
    nets = wirelength.net_hpwl(pads, board.pin_net, wiring.signal, board.num_nets)
    lengths = wirelength.pad_wirelengths(pads, board.pin_component, board.pin_net, wiring.signal, own_pads)
    obstacles = wiring.obstructs[part]
    return Sight(
        shares=geometry.sector_shares(position, board.size, orientation, part, obstacles, board.outline, rays=rays),
        wirelength=lengths.sum(),
        hpwl=wirelength.part_hpwl(nets, wiring.nets[agent]),
        contact=wirelength.mean_contact(pads, board.pin_component, board.pin_net, own_pads, wiring.groups),
        centre=geometry.mean_neighbour(position, wiring.neighbours[agent], part),
    )


def observe(
    instance: Instance, position: jax.Array, orientation: jax.Array, agent: jax.Array, sight: Sight
) -> jax.Array:
    """`f32[31]`: los[8], ol[8], dom[2], euc_dist[2], position[2], orientation[1], boardmask[8]; 0 for no agent."""
    board, part = instance.board, instance.wiring.component[agent]
    diagonal = jnp.sqrt(jnp.sum(board.outline**2))
    seen = (
        sight.shares.los,
        sight.shares.ol,
        geometry.polar(sight.contact, diagonal),
        geometry.polar(sight.centre, diagonal),
        position[part] / board.outline,
        (orientation[part] / 4).astype(jnp.float32)[None],
        sight.shares.boardmask,
    )
    return jnp.where(instance.wiring.is_agent[agent], jnp.concatenate(seen), 0.0)
