"""How parts move on a board, and what is kept of an episode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.measure import AgentMeasures, measure_board, pads_of
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.instance import Instance, Targets, Wiring
from jaxvrp.envs.pcb.wirelength import Pads
from jaxvrp.notebook import NotebookStill
from jaxvrp.rows import rows_at


class Best(struct.PyTreeNode):
    """The shortest legal placement at the end of any step so far."""

    hpwl: jax.Array  # f32[] in mm; inf before there is one
    position: jax.Array  # f32[N, 2]
    orientation: jax.Array  # i32[N]


class State(NotebookStill, struct.PyTreeNode):
    """An episode under way; lengths in mm."""

    instance: Instance
    position: jax.Array  # f32[N, 2], centres
    orientation: jax.Array  # i32[N], quarter turns
    time: jax.Array  # i32[], whole steps so far
    moved_at: jax.Array  # i32[A], the step (from 1) of an agent's last turn; 0 before the first
    wirelength: jax.Array  # f32[A], W as measured right after that turn (simultaneous: after all turns)
    hpwl: jax.Array  # f32[A], H, likewise
    blocked: jax.Array  # f32[A], sum of the eight ol, likewise
    left: jax.Array  # bool[A], the part has left the board
    board_hpwl: jax.Array  # f32[], over all signal nets
    overlap: jax.Array  # f32[N], overlap ratio of every part
    lowest: Targets  # least lengths at the end of a step: W while the part was legal, H while the whole board was
    best: Best
    invalid_actions: jax.Array  # i32[]
    undone: jax.Array  # i32[A], moves that led to no finite place and were undone
    observation: jax.Array | None  # f32[A, 31] where all agents act at once; else None

    @property
    def legal(self) -> jax.Array:
        """`bool[]`, no part that can move overlaps another or the edge."""
        return (geometry.is_legal(self.overlap) | ~self.instance.board.exists).all(axis=-1)

    @property
    def placement(self) -> tuple[Board, Wiring, jax.Array, jax.Array]:
        """Board, wiring, positions and orientations: what `measure` and `observation` take."""
        return self.instance.board, self.instance.wiring, self.position, self.orientation

    def placement_of(self, agent: jax.Array) -> tuple[Board, Wiring, jax.Array, jax.Array]:
        """The same with the wiring of one agent (`i32[]`)."""
        return self.instance.board, self.instance.wiring.of(agent), self.position, self.orientation

    @property
    def pads(self) -> Pads:
        """Where all pads are."""
        return pads_of(self.instance.board, self.instance.wiring.signal, self.position, self.orientation)


def begin(instance: Instance) -> State:
    """All parts at their start."""
    board, num_agents = instance.board, instance.wiring.component.shape[0]
    unreached, no_count = jnp.full(num_agents, jnp.inf, jnp.float32), jnp.zeros(num_agents, jnp.int32)
    return State(
        instance=instance,
        position=board.position,
        orientation=board.orientation,
        time=jnp.zeros((), jnp.int32),
        moved_at=no_count,
        wirelength=instance.start_wirelength,
        hpwl=instance.start_hpwl,
        blocked=jnp.zeros(num_agents, jnp.float32),
        left=jnp.zeros(num_agents, bool),
        board_hpwl=instance.start_board_hpwl,
        overlap=instance.start_overlap,
        lowest=Targets(wirelength=unreached, hpwl=unreached),
        best=Best(jnp.full((), jnp.inf, jnp.float32), board.position, board.orientation),
        invalid_actions=jnp.zeros((), jnp.int32),
        undone=no_count,
        observation=instance.start_observation,
    )


def to_unscaled(action: jax.Array) -> jax.Array:
    """`f32[..., 3]`: (share of the longest step, direction in radians, turn) of actions in [-1, 1]."""
    return 0.5 * (action + 1) * jnp.array([1.0, 2 * jnp.pi, 1.0], jnp.float32)


def from_unscaled(action: jax.Array) -> jax.Array:
    """`f32[..., 3]`: the actions in [-1, 1] of (share in [0, 1], direction in [0, 2 pi], turn in [0, 1])."""
    return 2 * action / jnp.array([1.0, 2 * jnp.pi, 1.0], jnp.float32) - 1


def draw_turns(state: State) -> jax.Array:
    """`i32[A]`, the place of each agent in a random order, another one for every step of every instance."""
    agents = jnp.arange(state.left.shape[0], dtype=jnp.int32)
    draws = jax.random.uniform(jax.random.fold_in(state.instance.key, state.time), agents.shape, jnp.float32)
    earlier = (draws < draws[:, None]) | ((draws == draws[:, None]) & (agents < agents[:, None]))
    return earlier.sum(axis=1, dtype=jnp.int32)


def may_act(state: State, agent: jax.Array) -> jax.Array:
    """`bool[]`, there is such an agent (`i32[]`), and no part has left the board."""
    return state.instance.wiring.is_agent[agent] & ~state.left.any()


def pose_after(
    state: State, part: jax.Array, action: jax.Array, step_fraction: jax.Array | float, *, clamp: bool, rotate: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Where an action takes a part (`i32[]`): centre `f32[2]`, quarter turns `i32[]`, and `bool[]`, the move is undone.

    A move is undone if it leads to no finite place. `action`: `f32[3]` in [-1, 1]; NaN for no move. `step_fraction`:
    the longest step, as a share of the board's shorter side. `clamp`: centres stay on the board; else parts can leave
    it. `rotate`: the third number of an action is the new orientation.
    """
    outline = state.instance.board.outline
    centre, quarters = rows_at(state.position, part), rows_at(state.orientation, part)
    idle = ~jnp.isfinite(action).all()
    share, angle, turn = to_unscaled(jnp.where(idle, 0.0, action))
    goal = centre + step_fraction * share * outline.min() * geometry.heading(angle)
    goal = jnp.clip(goal, 0.0, outline) if clamp else goal
    turned = jnp.minimum(jnp.floor(4 * turn), 3).astype(jnp.int32) if rotate else quarters
    undone = ~idle & ~jnp.isfinite(goal).all()
    stays = idle | undone
    return jnp.where(stays, centre, goal), jnp.where(stays, quarters, turned), undone


def put_part(state: State, agent: jax.Array, position: jax.Array, orientation: jax.Array) -> State:
    """The state with one agent's part at `position` (`f32[2]`) and `orientation` (`i32[]`)."""
    is_part = jnp.arange(state.position.shape[0]) == state.instance.wiring.component[agent]
    position = jnp.where(is_part[:, None], position, state.position)
    return state.replace(position=position, orientation=jnp.where(is_part, orientation, state.orientation))


def put_parts(state: State, moves: jax.Array, position: jax.Array, orientation: jax.Array) -> State:
    """The state with the parts of all agents that move (`bool[A]`) at `position` (`f32[A, 2]`).

    `orientation`: `i32[A]`, quarter turns.
    """
    is_part = _parts_of(state, moves)
    any_moves = is_part.any(axis=-1)

    def put(of_agents: jax.Array, of_parts: jax.Array) -> jax.Array:
        return jnp.where(any_moves, jnp.where(is_part, of_agents, 0).sum(axis=-1, dtype=of_agents.dtype), of_parts)

    place = [put(position[:, axis], state.position[:, axis]) for axis in range(2)]
    return state.replace(position=jnp.stack(place, axis=-1), orientation=put(orientation, state.orientation))


def _parts_of(state: State, moves: jax.Array) -> jax.Array:
    """`bool[N, A]`, whether a part is that of an agent that moves (`bool[A]`)."""
    part = jnp.arange(state.position.shape[0], dtype=jnp.int32)
    return moves & (state.instance.wiring.component == part[:, None])


def first_departure(
    state: State, may: jax.Array, turn: jax.Array, position: jax.Array, orientation: jax.Array
) -> jax.Array:
    """`i32[]`, the turn in which the first of the agents that `may` move (`bool[A]`) leaves the board; A for none.

    `turn`: `i32[A]`, the place of each in the order. `position`, `orientation`: as of `put_parts`.
    """
    board = state.instance.board
    half = geometry.half_extent(board.size[state.instance.wiring.component], orientation)
    leaves = may & geometry.has_left(position, half, board.outline)
    return jnp.min(jnp.where(leaves, turn, turn.shape[0]))


def seen_in_turn(
    state: State, moved: State, moves: jax.Array, turn: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Where all parts lie, how, and where all pads are, after the turn of each agent.

    `f32[A, N, 2]`, `i32[A, N]` and `f32[A, P, 2]`.

    `moved`: the state after all turns; `moves`, `turn`: `bool[A]` and `i32[A]`, as of `first_departure`.
    """
    turn_of_part = jnp.min(jnp.where(_parts_of(state, moves), turn, turn.shape[0]), axis=-1)
    has_moved = turn_of_part <= turn[:, None]
    position = jnp.where(has_moved[..., None], moved.position, state.position)
    # Pads as their parts: what is computed anew for every turn has to be written out.
    pad_has_moved = rows_at(turn_of_part, state.instance.board.pin_component) <= turn[:, None]
    pads = jnp.where(pad_has_moved[..., None], moved.pads.place, state.pads.place)
    return position, jnp.where(has_moved, moved.orientation, state.orientation), pads


def record_turns(state: State, acted: jax.Array, measures: AgentMeasures, undone: jax.Array, *, clamp: bool) -> State:
    """The state after moves of the agents that `acted` (`bool[A]`); measures and `undone` are of one or all (`[A]`)."""
    board, component = state.instance.board, state.instance.wiring.component
    half = geometry.half_extent(board.size, state.orientation)
    gone = geometry.has_left(state.position, half, board.outline)[component]
    return state.replace(
        moved_at=jnp.where(acted, state.time + 1, state.moved_at),
        wirelength=jnp.where(acted, measures.wirelength, state.wirelength),
        hpwl=jnp.where(acted, measures.hpwl, state.hpwl),
        blocked=jnp.where(acted, measures.shares.ol.sum(axis=-1), state.blocked),
        left=state.left if clamp else state.left | (acted & gone),
        undone=state.undone + (acted & undone),
    )


def settle(state: State) -> State:
    """End a step: advance the clock, measure the placement, keep the best so far."""
    board, wiring = state.instance.board, state.instance.wiring
    measures = measure_board(board, state.position, state.orientation, wiring)
    state = state.replace(time=state.time + 1, board_hpwl=measures.hpwl, overlap=measures.overlap)
    part_lengths = wirelength.part_wirelengths(measures.pads, board.num_components)
    lengths = Targets(part_lengths[wiring.component], wirelength.part_hpwl(measures.net_hpwl, wiring.nets))
    legal_parts = wiring.is_agent & geometry.is_legal(state.overlap)[wiring.component]
    counted = Targets(legal_parts, wiring.is_agent & state.legal)
    lengths = jax.tree.map(lambda length, counts: jnp.where(counts, length, jnp.inf), lengths, counted)
    lowest = jax.tree.map(jnp.minimum, state.lowest, lengths)
    better = state.legal & (state.board_hpwl < state.best.hpwl)
    present = Best(state.board_hpwl, state.position, state.orientation)
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), present, state.best)
    return state.replace(lowest=lowest, best=best)
