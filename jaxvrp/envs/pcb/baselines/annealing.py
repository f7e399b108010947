"""Simulated annealing of placements on exact geometry: the baseline of the placement environment.

Minimises the half perimeters of the signal nets in many restarts at once. A move changes one part and costs what the
overlaps and nets of that part cost. The restarts of a board draw the same part for a move, and each its own move of it.
`N` parts, `R` restarts; lengths in mm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.baselines.annealing_moves import Move, Poses, Tables, as_poses, change, fits, make_tables, propose
from jaxvrp.envs.pcb.baselines.random_placement import uniform_poses
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import Board, as_float32

BLOCK = 128
"""Moves for which the random numbers are drawn at once; after each such block the placements are measured anew."""

# From the first move to the last, geometrically; lengths in units of the mean size of the movable parts, so that boards
# of any scale are annealed alike.
TEMPERATURE = (0.4, 0.005)
"""A longer wire is accepted with probability exp(-mm / temperature)."""

WEIGHT = (1.0, 30.0)
"""Of the overlap: wire per common area."""

REACH = (3.0, 0.03)
"""Largest shift of a part along an axis."""

# Parts on many nets are pulled into each other with more force than a good last weight holds back: for this share of
# the moves, the last ones, it is so many times as much.
SETTLING = 0.1
SETTLING_WEIGHT = 100.0

JUMP, CONTACT, TURN = 0.1, 0.2, 0.5
"""Shares of the moves that put a part anywhere on the board, and beside another part; the rest are shifts. Share of the
moves of any kind that also turn the part."""


class BestPlacements(struct.PyTreeNode):
    """The best placement of each restart.

    Attributes:
        position: `f32[R, N, 2]`, centres.
        orientation: `i32[R, N]`, quarter turns.
        hpwl: `f32[R]`, half perimeters of the signal nets, summed; inf where no legal placement was found.
        legal: `bool[R]`, whether it is legal; where not, the placement is the last one.
    """

    position: jax.Array
    orientation: jax.Array
    hpwl: jax.Array
    legal: jax.Array


def net_widths(board: Board) -> tuple[int, int]:
    """The most signal nets of a movable part, and the most pads of a signal net, for `anneal`; NumPy.

    Args:
        board: with leading axes a batch, and the most of any.
    """
    signal = np.asarray(board.signal_pin).reshape(-1, board.num_pins)
    row, pin = np.nonzero(signal)
    component = np.asarray(board.pin_component).reshape(signal.shape)[row, pin]
    net = np.asarray(board.pin_net).reshape(signal.shape)[row, pin]
    movable = np.asarray(board.movable).reshape(len(signal), -1)[row, component]
    _, pads_of_net = np.unique(np.stack([row, net]), axis=1, return_counts=True)
    part_and_net = np.unique(np.stack([row, component, net])[:, movable], axis=1)
    _, nets_of_part = np.unique(part_and_net[:2], axis=1, return_counts=True)
    return int(nets_of_part.max(initial=1)), int(pads_of_net.max(initial=1))


def anneal(
    board: Board,
    key: jax.Array,
    *,
    widths: tuple[int, int],
    num_moves: int = 400_000,
    num_restarts: int = 32,
) -> BestPlacements:
    """Anneal random placements; works under `jit` (`widths`, `num_moves`, `num_restarts` static) and `vmap`.

    Fixed parts stay, no part leaves the board, and overlap costs more and more. Once a block of moves, every restart
    compares its placement with its best legal one.

    Args:
        board: without leading axes.
        key: a typed key.
        widths: from `net_widths`; smaller ones mislead the search, but not what is returned about its placements.
        num_moves: of each restart, rounded up to a multiple of `BLOCK`.
        num_restarts: R.

    Raises:
        ValueError: `num_moves` or `num_restarts` is less than 1.
    """
    for name, value in (("num_moves", num_moves), ("num_restarts", num_restarts)):
        if value < 1:
            raise ValueError(f"{name} is {value}; give at least 1")
    board, num_blocks = as_float32(board), math.ceil(num_moves / BLOCK)
    start_key, move_key = jax.random.split(key)
    annealing = begin(board, start_key, num_restarts)
    block = jnp.arange(num_blocks, dtype=jnp.int32)
    keys, shares = jax.vmap(lambda block: jax.random.fold_in(move_key, block))(block), block / max(num_blocks - 1, 1)
    return advance(board, annealing, keys, shares, widths=widths).best


class Annealing(struct.PyTreeNode):
    """Where an annealing stands: the present placements, and the best so far."""

    poses: Poses
    best: BestPlacements


def begin(board: Board, key: jax.Array, num_restarts: int) -> Annealing:
    """Random placements of a board as `as_float32` makes it."""
    draws = jax.random.uniform(key, (num_restarts, board.num_components, 3), jnp.float32)
    position, orientation = uniform_poses(board, draws)
    no_hpwl = jnp.full(num_restarts, jnp.inf, jnp.float32)
    start = BestPlacements(position, orientation, hpwl=no_hpwl, legal=jnp.zeros(num_restarts, bool))
    return Annealing(as_poses(position, orientation), start)


def advance(
    board: Board, annealing: Annealing, keys: jax.Array, shares: jax.Array, *, widths: tuple[int, int]
) -> Annealing:
    """Blocks of moves.

    Args:
        board: as `as_float32` makes it.
        annealing: where it stands.
        keys: typed keys `[blocks]`.
        shares: `f32[blocks]`, of all moves, those that are made before each block: how cool it is.
        widths: as for `anneal`.
    """
    tables = make_tables(board, widths)

    def play_block(annealing: Annealing, drawn: tuple[jax.Array, jax.Array]) -> tuple[Annealing, None]:
        key, share = drawn
        cooled = _cooled(tables.unit, share)
        moves = _draw_moves(key, board, cooled, annealing.best.hpwl.shape[0])
        poses, _ = jax.lax.scan(lambda poses, move: (_step(tables, cooled, poses, move), None), annealing.poses, moves)
        return Annealing(poses, _better(board, annealing.best, poses)), None

    return jax.lax.scan(play_block, annealing, (keys, shares))[0]


class _Cooled(NamedTuple):
    """The schedule at one time: `f32[]` each, in mm, wire (mm) per mm², mm."""

    temperature: jax.Array
    weight: jax.Array
    reach: jax.Array


def _cooled(unit: jax.Array, share: jax.Array) -> _Cooled:
    """The schedule after a `share` of the moves."""

    def between(ends: tuple[float, float]) -> jax.Array:
        first, last = ends
        return first * (last / first) ** share

    return _Cooled(
        temperature=unit * between(TEMPERATURE),
        weight=between(WEIGHT) / unit * jnp.where(share > 1 - SETTLING, SETTLING_WEIGHT, 1.0),
        reach=unit * between(REACH),
    )


def _step(tables: Tables, cooled: _Cooled, poses: Poses, move: Move) -> Poses:
    """Propose the move and accept it, or not, in each restart."""
    proposed, present = propose(tables, poses, move), poses.of_part(move.part)
    wire, overlap = change(tables, poses, move.part, proposed)
    accepted = (wire + cooled.weight * overlap < move.margin) & fits(tables, move.part, proposed.quarters)
    pose = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, present)
    return poses.with_part(move.part, pose)


def _draw_moves(key: jax.Array, board: Board, cooled: _Cooled, num_restarts: int) -> Move:
    """A block of moves: `Move` with a leading axis."""
    # One draw for everything: the random generator is the greater part of what has to be compiled.
    draws = jax.random.uniform(key, (BLOCK * (5 * num_restarts + 2),), jnp.float32)
    part_draw, other_draw = draws[: 2 * BLOCK].reshape(2, BLOCK)
    kind, turn, x, y, accept = draws[2 * BLOCK :].reshape(5, BLOCK, num_restarts)
    # How far `kind` is into its share says on which of four sides the parts touch.
    side = jnp.floor(4 * (kind - JUMP) / CONTACT).astype(jnp.int32)
    above_or_below, sign = (side & 1) == 1, 1.0 - (side & 2)
    quarters = 1 + jnp.floor(3 * turn / TURN).astype(jnp.int32)
    return Move(
        part=_pick(part_draw, board.movable),
        other=_pick(other_draw, board.exists),
        jumps=kind < JUMP,
        touches=(kind >= JUMP) & (kind < JUMP + CONTACT),
        turn=jnp.where(turn < TURN, quarters, 0),
        shift_x=(2 * x - 1) * cooled.reach,
        shift_y=(2 * y - 1) * cooled.reach,
        place_x=x,
        place_y=y,
        beside_x=jnp.where(above_or_below, 2 * x - 1, sign),
        beside_y=jnp.where(above_or_below, sign, 2 * y - 1),
        margin=-cooled.temperature * jnp.log(accept),
    )


def _pick(share: jax.Array, candidates: jax.Array) -> jax.Array:
    """`i32[...]`: indices of the true values of `bool[N]`, all as likely, from `f32[...]` uniform in [0, 1)."""
    (index,) = jnp.nonzero(candidates, size=candidates.shape[0], fill_value=0)
    return index[jnp.floor(share * candidates.sum()).astype(jnp.int32)].astype(jnp.int32)


def _better(board: Board, best: BestPlacements, poses: Poses) -> BestPlacements:
    """For each restart the better of its best placement and the present one."""
    position, orientation = jnp.stack([poses.x, poses.y], axis=-1).swapaxes(0, 1), poses.quarters.T
    measures = jax.vmap(measure_board, (None, 0, 0))(board, position, orientation)
    hpwl, legal = measures.hpwl, geometry.is_legal(measures.overlap).all(axis=-1)
    better = jnp.where(legal, hpwl < best.hpwl, ~best.legal)
    return BestPlacements(
        position=jnp.where(better[:, None, None], position, best.position),
        orientation=jnp.where(better[:, None], orientation, best.orientation),
        hpwl=jnp.where(better & legal, hpwl, best.hpwl),
        legal=best.legal | legal,
    )
