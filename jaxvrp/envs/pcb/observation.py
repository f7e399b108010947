"""What agents and critics see, as vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.measure import AgentMeasures
from jaxvrp.envs.pcb.problem.instance import Instance
from jaxvrp.envs.pcb.rules import State
from jaxvrp.spaces import EntityKind, Feature, Place

PART = "part"

SECTORS = range(8)

CONTEXT = (
    *(Feature(f"los_{k}", f"occupied share of sector {k} around the part's centre") for k in SECTORS),
    *(Feature(f"ol_{k}", f"share of its own body within sector {k} that others cover") for k in SECTORS),
    Feature("contacts_distance", "length of the mean vector to the nearest pads on its nets / diagonal"),
    Feature("contacts_angle", "angle of that vector / pi"),
    Feature("neighbours_distance", "length of the vector to the mean of its neighbours' centres / diagonal"),
    Feature("neighbours_angle", "angle of that vector / pi"),
    Feature("x", "own x / width of the board"),
    Feature("y", "own y / height of the board"),
    Feature("orientation", "own quarter turns / 4"),
    *(Feature(f"boardmask_{k}", f"share of its own body within sector {k} that is off the board") for k in SECTORS),
)

STATIC = (
    Feature("fixed", "1 if it does not move"),
    Feature("side", "side of the board"),
    Feature("width", "width (at orientation 0) / width of the board"),
    Feature("height", "height (at orientation 0) / height of the board"),
)

DYNAMIC = (
    Feature("present", "1 unless the row is padding"),
    Feature("x", "x of the centre / width of the board"),
    Feature("y", "y of the centre / height of the board"),
    Feature("orientation", "quarter turns / 4"),
    Feature("overlap", "overlap ratio"),
)

OBSERVATION_SIZE = len(CONTEXT)


def parts(count: int) -> EntityKind:
    """The kind of so many parts of a board."""
    return EntityKind(PART, count, STATIC, DYNAMIC, (Place("present", "x", "y"),))


def static_planes(instance: Instance) -> jax.Array:
    """`f32[4, N]`, the numbers of `STATIC` of each part; padding is 0."""
    board = instance.board
    size = board.size / board.outline
    planes = [board.fixed.astype(jnp.float32), board.side.astype(jnp.float32), size[:, 0], size[:, 1]]
    return jnp.where(board.exists, jnp.stack(planes), 0.0)


def dynamic_planes(state: State) -> jax.Array:
    """`f32[5, N]`, the numbers of `DYNAMIC` of each part."""
    board = state.instance.board
    place = state.position / board.outline
    turns = (state.orientation / 4).astype(jnp.float32)
    planes = [jnp.ones_like(turns), place[:, 0], place[:, 1], turns, state.overlap]
    return jnp.where(board.exists, jnp.stack(planes), 0.0)


def agent_vector(
    instance: Instance, position: jax.Array, orientation: jax.Array, agent: jax.Array, measures: AgentMeasures
) -> jax.Array:
    """`f32[31]`: los[8], ol[8], dom[2], euc_dist[2], position[2], orientation[1], boardmask[8]; 0 for no agent.

    Args:
        instance: the problem.
        position: `f32[N, 2]`, centres in mm.
        orientation: `i32[N]`, quarter turns.
        agent: `i32[]`.
        measures: of that agent, there.
    """
    board, part = instance.board, instance.wiring.component[agent]
    diagonal = jnp.sqrt(jnp.sum(board.outline**2))
    features = (
        measures.shares.los,
        measures.shares.ol,
        geometry.polar(measures.to_contacts, diagonal),
        geometry.polar(measures.to_neighbours, diagonal),
        position[part] / board.outline,
        (orientation[part] / 4).astype(jnp.float32)[None],
        measures.shares.boardmask,
    )
    return jnp.where(instance.wiring.is_agent[agent], jnp.concatenate(features), 0.0)


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
