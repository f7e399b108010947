"""What agents and critics see, as vectors."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.measure import AgentMeasures, measure_agent, pads_of
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.instance import BY_AGENT, Wiring
from jaxvrp.envs.pcb.rules import State
from jaxvrp.rows import rows_at

OBSERVATION_SIZE = 31


def measure_agents(
    board: Board, wiring: Wiring, position: jax.Array, orientation: jax.Array, rays: int
) -> tuple[AgentMeasures, jax.Array]:
    """What all agents measure (leading axis `[A]`), and their observations `f32[A, 31]`; arguments as of `see`."""
    return jax.vmap(functools.partial(see, rays=rays), (None, BY_AGENT, None, None))(
        board, wiring, position, orientation
    )


def observe(state: State, agent: jax.Array, rays: int) -> jax.Array:
    """`f32[31]`, the observation of one agent (`i32[]`)."""
    return see(*state.placement_of(agent), rays)[1]


# Jitted, so that a program that asks several times traces it once.
@functools.partial(jax.jit, static_argnames="rays")
def see(
    board: Board, wiring: Wiring, position: jax.Array, orientation: jax.Array, rays: int
) -> tuple[AgentMeasures, jax.Array]:
    """The measures of one agent and its observation; arguments as of `measure_agent`.

    The observation, `f32[31]`, is los[8], ol[8], dom[2], euc_dist[2], position[2], orientation[1], boardmask[8]; zeros
    for no agent.
    """
    pads = pads_of(board, wiring.signal, position, orientation)
    measures = measure_agent(board, wiring, position, orientation, pads, rays)
    part = wiring.component
    diagonal = jnp.sqrt(jnp.sum(board.outline**2))
    features = (
        measures.shares.los,
        measures.shares.ol,
        geometry.polar(measures.to_contacts, diagonal),
        geometry.polar(measures.to_neighbours, diagonal),
        rows_at(position, part) / board.outline,
        (rows_at(orientation, part) / 4).astype(jnp.float32)[None],
        measures.shares.boardmask,
    )
    return measures, jnp.where(wiring.is_agent, jnp.concatenate(features), 0.0)


def board_vector(state: State) -> jax.Array:
    """`f32[9 N]`, a row for each part; see `Pcb`; 0 for padding."""
    board = state.instance.board
    columns = [
        jnp.stack([board.exists, board.fixed & board.exists, board.side], axis=1).astype(jnp.float32),
        state.position / board.outline,
        (state.orientation / 4).astype(jnp.float32)[:, None],
        board.size / board.outline,
        state.overlap[:, None],
    ]
    return jnp.where(board.exists[:, None], jnp.concatenate(columns, axis=1), 0.0).ravel()
