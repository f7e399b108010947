"""An episode's problem as data: a board with its start placement, its wiring as tables, and the targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.problem.board import Board, agent_components, as_float32, pad

SHIFT = 0.66  # share of the free room that fixed parts are shifted by, at most
MARGIN = 0.05  # share of a board's side that stays free of the centres of movable parts at the start


class Targets(struct.PyTreeNode):
    """Wirelengths W and H of each agent that are to be reached, `f32[..., A]` in mm; inf for unknown."""

    wirelength: jax.Array
    hpwl: jax.Array


class Wiring(struct.PyTreeNode):
    """What a board's nets, sides and agents are, whatever lies where; see `wirelength` for the tables."""

    component: jax.Array  # i32[A], the part of each agent; 0 where there is none
    is_agent: jax.Array  # bool[A]
    signal: jax.Array  # bool[P], the pad is on a signal net
    pads: jax.Array  # i32[A, K], `part_pads` of the agents' parts
    groups: jax.Array  # i32[P, S], `pad_groups`
    nets: jax.Array  # bool[A, E], the signal nets of the agents' parts
    neighbours: jax.Array  # bool[A, N], other parts on a signal net with the agent's
    obstructs: jax.Array  # bool[N, N], pairs of parts that may not overlap, one of them movable

    def of(self, agent: jax.Array) -> Wiring:
        """The tables with only the row of one agent (`i32[]`) where they have a row for each."""
        return jax.tree.map(lambda leaf, axis: leaf if axis is None else leaf[agent], self, BY_AGENT)


_AXES: tuple[Any, ...] = (0, 0, None, 0, None, 0, 0, None)
BY_AGENT = Wiring(*_AXES)
"""The axis of the agents in each table of a `Wiring`, for `jax.vmap`; None for tables of the whole board."""


class Instance(struct.PyTreeNode):
    """A board, where its parts lie at the start, and what is to be reached."""

    board: Board  # in float32; its positions and orientations are the start
    wiring: Wiring
    targets: Targets  # of this episode
    row: jax.Array  # i32[], which of the environment's boards it is; their number for any other board
    key: jax.Array  # typed key of the orders of turns
    start_wirelength: jax.Array  # f32[A], W at the start in mm
    start_hpwl: jax.Array  # f32[A], H at the start in mm
    start_board_hpwl: jax.Array  # f32[], over all signal nets, in mm
    start_overlap: jax.Array  # f32[N], overlap ratios
    start_observation: jax.Array | None  # f32[A, 31], where all agents act at once; else None


class Sizes(NamedTuple):
    """Static sizes of an environment."""

    components: int  # N
    pins: int  # P
    nets: int  # E
    agents: int  # A
    part_pads: int  # K, the most signal pads of a movable part
    shared_pads: int  # S, the most signal pads of a part on one net


def least_sizes(boards: Board) -> Sizes:
    """The least sizes that hold a batch `[B]` of boards; not under `jit`."""
    boards = jax.tree.map(np.asarray, boards)
    component, net, signal = boards.pin_component, boards.pin_net, boards.signal_pin
    movable = np.take_along_axis(boards.movable, component, axis=-1)
    part_pads, _ = wirelength.table_widths(component, net, signal & movable)
    _, shared_pads = wirelength.table_widths(component, net, signal)
    most_agents = int(boards.movable.sum(axis=-1).max())
    counts = (boards.num_components, boards.num_pins, boards.num_nets, most_agents)
    return Sizes(*counts, part_pads=part_pads, shared_pads=shared_pads)


def fit_board(board: Board, sizes: Sizes) -> Board:
    """One board in float32, padded to these sizes; a ValueError if it is larger. Traced tables are not checked."""
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(board)):
        needed = least_sizes(jax.tree.map(lambda leaf: np.asarray(leaf)[None], board))
        if any(least > size for least, size in zip(needed[3:], sizes[3:], strict=True)):
            raise ValueError(
                f"a board of {needed.agents} movable parts, {needed.part_pads} signal pads of one part and "
                f"{needed.shared_pads} on one net does not fit into {sizes.agents}, {sizes.part_pads} and "
                f"{sizes.shared_pads}; make the environment with it, make('pcb', boards=[...])"
            )
    return pad(as_float32(board), sizes.components, sizes.pins, sizes.nets)


def wire(board: Board, sizes: Sizes) -> Wiring:
    """The tables of one board of these sizes; works under `jit` and `vmap`."""
    component, is_agent = agent_components(board, sizes.agents)
    pin_component, pin_net, signal = board.pin_component, board.pin_net, board.signal_pin
    nets = wirelength.part_nets(pin_component, pin_net, signal, sizes.components, sizes.nets)
    # Pads by agent, not by part: a fixed part may have more pads than the table is wide.
    on_agent = (pin_component[:, None] == component) & is_agent
    agent_of_pad = jnp.argmax(on_agent, axis=1).astype(jnp.int32)
    return Wiring(
        component=component,
        is_agent=is_agent,
        signal=signal,
        pads=wirelength.part_pads(agent_of_pad, signal & on_agent.any(axis=1), sizes.agents, sizes.part_pads),
        groups=wirelength.pad_groups(pin_component, pin_net, signal, sizes.shared_pads),
        nets=nets[component] & is_agent[:, None],
        neighbours=wirelength.shared_nets(nets)[component] & is_agent[:, None],
        obstructs=obstructing(board),
    )


def obstructing(board: Board) -> jax.Array:
    """`bool[N, N]`, pairs of parts of one board that may not overlap, see `geometry.obstructing`."""
    return geometry.obstructing(board.side, board.exists, board.movable)


def board_targets(board: Board, wiring: Wiring) -> Targets:
    """The targets that a board brings along, by agent; inf where there is none."""
    of_parts = (board.target_wirelength, board.target_hpwl)
    agents = (jnp.where(wiring.is_agent, lengths[wiring.component], jnp.inf) for lengths in of_parts)
    return Targets(*(lengths.astype(jnp.float32) for lengths in agents))


def scatter(board: Board, key: jax.Array) -> Board:
    """Every movable part at a random place: centre uniform in the middle 90 % of both sides, any quarter turn."""
    place, turn = jax.random.split(key)
    share = jax.random.uniform(place, board.position.shape, jnp.float32, MARGIN, 1 - MARGIN)
    quarters = jax.random.randint(turn, board.orientation.shape, 0, 4, jnp.int32)
    return board.replace(
        position=jnp.where(board.movable[:, None], share * board.outline, board.position),
        orientation=jnp.where(board.movable, quarters, board.orientation),
    )


def augment(board: Board, key: jax.Array) -> Board:
    """Shift and turn what is fixed.

    All fixed parts move by U(-L, L) along both axes, L = 0.66 (min(w, h) - longest fixed side) / 2, then turn by a
    random quarter about the board's centre (a half, if it is not square). Each is kept inside.
    """
    shift, turn = jax.random.split(key)
    fixed = board.fixed & board.exists
    longest = jnp.max(jnp.where(fixed[:, None], board.size, 0.0))
    reach = SHIFT * jnp.maximum(board.outline.min() - longest, 0.0) / 2
    centre = 0.5 * board.outline
    quarters = jax.random.randint(turn, (), 0, 4, jnp.int32)
    quarters = jnp.where(board.outline[0] == board.outline[1], quarters, quarters // 2 * 2)
    moved = board.position + reach * jax.random.uniform(shift, (2,), jnp.float32, -1.0, 1.0)
    orientation = (board.orientation + quarters) % 4
    half = geometry.half_extent(board.size, orientation)
    # A part longer than the board stays in its middle.
    room = jnp.maximum(centre - half, 0.0)
    apart = jnp.clip(geometry.turned(moved - centre, quarters), -room, room)
    return board.replace(
        position=jnp.where(fixed[:, None], centre + apart, board.position),
        orientation=jnp.where(fixed, orientation, board.orientation),
    )
