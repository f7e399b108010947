"""How parts move on a board, and what is kept of an episode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.observation import Sight
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.instance import Instance, Targets, Wiring
from jaxvrp.notebook import NotebookStill


class Best(struct.PyTreeNode):
    """The shortest legal placement at the end of any step so far.

    Attributes:
        hpwl: `f32[]` in mm; inf before there is one.
        position: `f32[N, 2]`.
        orientation: `i32[N]`.
    """

    hpwl: jax.Array
    position: jax.Array
    orientation: jax.Array


class State(NotebookStill, struct.PyTreeNode):
    """An episode under way; lengths in mm.

    Attributes:
        instance: the problem.
        position: `f32[N, 2]`, centres.
        orientation: `i32[N]`, quarter turns.
        time: `i32[]`, whole steps so far.
        moved_at: `i32[A]`, the step (from 1) of an agent's last turn; 0 before the first.
        wirelength, hpwl: `f32[A]`, W and H as measured right after that turn (simultaneous: after all turns).
        blocked: `f32[A]`, sum of the eight ol, likewise.
        left: `bool[A]`, the part has left the board.
        board_hpwl: `f32[]`, over all signal nets.
        overlap: `f32[N]`, overlap ratio of every part.
        lowest: `Targets`, least lengths at the end of a step: W while the part was legal, H while the whole board was.
        best: `Best`.
        invalid_actions: `i32[]`.
        undone: `i32[A]`, moves that were undone, since they led to no place.
        observation: `f32[A, 31]` where all agents act at once; else None.
    """

    instance: Instance
    position: jax.Array
    orientation: jax.Array
    time: jax.Array
    moved_at: jax.Array
    wirelength: jax.Array
    hpwl: jax.Array
    blocked: jax.Array
    left: jax.Array
    board_hpwl: jax.Array
    overlap: jax.Array
    lowest: Targets
    best: Best
    invalid_actions: jax.Array
    undone: jax.Array
    observation: jax.Array | None

    @property
    def legal(self) -> jax.Array:
        """`bool[]`, no part overlaps another or the edge."""
        return (geometry.is_legal(self.overlap) | ~self.instance.board.exists).all(axis=-1)

    @property
    def half(self) -> jax.Array:
        """`f32[N, 2]`, half extents as turned."""
        return geometry.half_extent(self.instance.board.size, self.orientation)


def begin(instance: Instance) -> State:
    """All parts at their start."""
    board, agents = instance.board, instance.wiring.component.shape[0]
    nobody, never = jnp.zeros(agents, bool), jnp.zeros(agents, jnp.int32)
    return State(
        instance=instance,
        position=board.position,
        orientation=board.orientation,
        time=jnp.zeros((), jnp.int32),
        moved_at=never,
        wirelength=instance.start_wirelength,
        hpwl=instance.start_hpwl,
        blocked=jnp.zeros(agents, jnp.float32),
        left=nobody,
        board_hpwl=instance.start_board_hpwl,
        overlap=instance.start_overlap,
        lowest=Targets(*(jnp.full(agents, jnp.inf, jnp.float32) for _ in range(2))),
        best=Best(jnp.full((), jnp.inf, jnp.float32), board.position, board.orientation),
        invalid_actions=jnp.zeros((), jnp.int32),
        undone=never,
        observation=instance.start_observation,
    )


def stepped(here: jax.Array, outline: jax.Array, share: jax.Array, angle: jax.Array, *, clamp: bool) -> jax.Array:
    """`f32[2]`: where a step of `share` times the board's shorter side leads, in the direction `angle` (radians).

    With `clamp`, to the nearest point of the board.
    """
    there = here + share * outline.min() * geometry.heading(angle)
    return geometry.clamped(there, outline) if clamp else there


def put(state: State, agent: jax.Array, position: jax.Array, orientation: jax.Array) -> State:
    """With one agent's part elsewhere."""
    at = jnp.arange(state.position.shape[0]) == state.instance.wiring.component[agent]
    return state.replace(
        position=jnp.where(at[:, None], position, state.position),
        orientation=jnp.where(at, orientation, state.orientation),
    )


def put_all(state: State, position: jax.Array, orientation: jax.Array) -> State:
    """With all agents' parts at `position` (`f32[A, 2]`) and `orientation` (`i32[A]`)."""
    wiring = state.instance.wiring
    nowhere = state.position.shape[0]
    at = jnp.where(wiring.is_agent, wiring.component, nowhere)
    return state.replace(
        position=state.position.at[at].set(position, mode="drop"),
        orientation=state.orientation.at[at].set(orientation, mode="drop"),
    )


def measured(state: State, who: jax.Array, sight: Sight, undone: jax.Array, *, leaving: bool) -> State:
    """Keep what agents measured after their turns.

    Args:
        state: after their moves.
        who: `bool[A]`.
        sight: of one agent, or of all (leading axis `[A]`).
        undone: `bool[]` or `bool[A]`.
        leaving: parts can leave the board.
    """
    component = state.instance.wiring.component
    gone = geometry.has_left(state.position, state.half, state.instance.board.outline)[component]
    return state.replace(
        moved_at=jnp.where(who, state.time + 1, state.moved_at),
        wirelength=jnp.where(who, sight.wirelength, state.wirelength),
        hpwl=jnp.where(who, sight.hpwl, state.hpwl),
        blocked=jnp.where(who, sight.shares.ol.sum(axis=-1), state.blocked),
        left=state.left | (who & gone) if leaving else state.left,
        undone=state.undone + (who & undone),
    )


def settle(state: State) -> State:
    """End a step: the clock, and what the placement is worth."""
    wiring = state.instance.wiring
    pads, nets, overlap = measure_board(state.instance.board, wiring, state.position, state.orientation)
    state = state.replace(time=state.time + 1, board_hpwl=nets.sum(), overlap=overlap)
    lengths = Targets(_part_lengths(state, pads)[wiring.component], wirelength.part_hpwl(nets, wiring.nets))
    legal_parts = wiring.is_agent & geometry.is_legal(state.overlap)[wiring.component]
    lowest = state.lowest.lowered(lengths, Targets(legal_parts, wiring.is_agent & state.legal))
    better = state.legal & (state.board_hpwl < state.best.hpwl)
    now = Best(state.board_hpwl, state.position, state.orientation)
    return state.replace(
        lowest=lowest, best=jax.tree.map(lambda new, old: jnp.where(better, new, old), now, state.best)
    )


def measure_board(
    board: Board, wiring: Wiring, position: jax.Array, orientation: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Where the pads are (`f32[P, 2]`), HPWL of each net (`f32[E]`, mm), overlap ratio of each part (`f32[N]`)."""
    pads = geometry.pad_positions(position, orientation, board.pin_component, board.pin_offset)
    half = geometry.half_extent(board.size, orientation)
    return (
        pads,
        wirelength.net_hpwl(pads, board.pin_net, wiring.signal, board.num_nets),
        geometry.overlap_ratio(position, half, board.outline, wiring.obstructs, board.exists),
    )


def _part_lengths(state: State, pads: jax.Array) -> jax.Array:
    board, signal = state.instance.board, state.instance.wiring.signal
    return wirelength.part_wirelengths(pads, board.pin_component, board.pin_net, signal, board.num_components)
