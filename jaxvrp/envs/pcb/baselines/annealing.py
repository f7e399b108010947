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
from jaxvrp.envs.pcb.baselines.annealing_moves import Moves, Poses, Tables, as_poses, change, fits, make_tables, propose
from jaxvrp.envs.pcb.measure import measure, uniform_poses
from jaxvrp.envs.pcb.problem.board import Board, as_float32
from jaxvrp.fields import parameter

# Moves for which the random numbers are drawn at once; after each such block the placements are measured anew.
BLOCK = 128
# Parts on many nets are pulled into each other with more force than a good last weight holds back: for this share of
# the moves, the last ones, it is so many times as much.
SETTLING = 0.1
SETTLING_WEIGHT = 100.0


class Schedule(struct.PyTreeNode):
    """How an annealing cools, from its first move to its last (geometrically), and what its moves are.

    Lengths are in units of the mean size of the movable parts, so that a schedule fits boards of any scale.

    Attributes:
        first_temperature, last_temperature: mm of wire are accepted with probability exp(-mm / temperature).
        first_weight, last_weight: of the overlap, wire per common area; for a last tenth of the moves, when hardly any
            overlap is left, it is a hundred times as much.
        first_reach, last_reach: largest shift of a part along an axis.
        jump: share of the moves that put a part anywhere on the board.
        contact: share of the moves that put a part beside another one, touching it; the rest are shifts.
            Of more than 1 together, `contact` is cut.
        turn: share of the moves of any kind that also turn the part, to any other orientation.
    """

    first_temperature: float = parameter(0.4, above=0.0)
    last_temperature: float = parameter(0.005, above=0.0)
    first_weight: float = parameter(1.0, above=0.0)
    last_weight: float = parameter(30.0, above=0.0)
    first_reach: float = parameter(3.0, above=0.0)
    last_reach: float = parameter(0.03, above=0.0)
    jump: float = parameter(0.1, minimum=0.0, maximum=1.0)
    contact: float = parameter(0.2, minimum=0.0, maximum=1.0)
    turn: float = parameter(0.5, minimum=0.0, maximum=1.0)


class Placements(struct.PyTreeNode):
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
    component, net, movable = (
        np.asarray(v).reshape(len(signal), -1) for v in (board.pin_component, board.pin_net, board.movable)
    )
    at, pin = np.nonzero(signal)
    component, net = component[at, pin], net[at, pin]
    on_net = np.unique(np.stack([at, net]), axis=1, return_counts=True)[1]
    part_and_net = np.unique(np.stack([at, component, net])[:, movable[at, component]], axis=1)
    of_part = np.unique(part_and_net[:2], axis=1, return_counts=True)[1]
    return int(of_part.max(initial=1)), int(on_net.max(initial=1))


def anneal(
    board: Board,
    key: jax.Array,
    *,
    widths: tuple[int, int],
    num_moves: int = 400_000,
    num_restarts: int = 32,
    schedule: Schedule | None = None,
) -> Placements:
    """Anneal random placements; works under `jit` (`widths`, `num_moves`, `num_restarts` static) and `vmap`.

    Fixed parts stay, no part leaves the board, and overlap costs more and more. Once a block of moves, every restart
    compares its placement with its best legal one.

    Args:
        board: without leading axes.
        key: a typed key.
        widths: from `net_widths`; smaller ones mislead the search, but not what is returned about its placements.
        num_moves: of each restart, rounded up to a multiple of `BLOCK`.
        num_restarts: R.
        schedule: default `Schedule()`.

    Raises:
        ValueError: `num_moves` or `num_restarts` is less than 1.
    """
    for name, value in (("num_moves", num_moves), ("num_restarts", num_restarts)):
        if value < 1:
            raise ValueError(f"{name} is {value}; give at least 1")
    board, schedule = as_float32(board), schedule or Schedule()
    tables, num_blocks = make_tables(board, widths), math.ceil(num_moves / BLOCK)
    start_key, key = jax.random.split(key)
    start = _start(board, start_key, num_restarts)

    def block(carry: tuple[Poses, Placements], at: jax.Array) -> tuple[tuple[Poses, Placements], None]:
        poses, best = carry
        now = _cooled(schedule, tables.unit, at / max(num_blocks - 1, 1))
        moves = _draw(jax.random.fold_in(key, at), board, schedule, now, num_restarts)
        poses, _ = jax.lax.scan(lambda poses, move: (_step(tables, now, poses, move), None), poses, moves)
        return (poses, _better(board, best, poses)), None

    carry = (as_poses(start.position, start.orientation), start)
    (_, best), _ = jax.lax.scan(block, carry, jnp.arange(num_blocks, dtype=jnp.int32))
    return best


class _Temperature(NamedTuple):
    """The state of the schedule: `f32[]` each, in mm, wire (mm) per mm², mm."""

    temperature: jax.Array
    weight: jax.Array
    reach: jax.Array


def _start(board: Board, key: jax.Array, num_restarts: int) -> Placements:
    draws = jax.random.uniform(key, (num_restarts, board.num_components, 3), jnp.float32)
    unknown = jnp.full(num_restarts, jnp.inf, jnp.float32)
    return Placements(*uniform_poses(board, draws), hpwl=unknown, legal=jnp.zeros(num_restarts, bool))


def _step(tables: Tables, now: _Temperature, poses: Poses, move: Moves) -> Poses:
    """Propose the move and accept it, or not, in each restart."""
    to = propose(tables, poses, move)
    wire, overlap = change(tables, poses, move.part, to)
    accepted = (wire + now.weight * overlap < move.margin) & fits(tables, move.part, to.turns)
    return Poses(
        *(old.at[move.part].set(jnp.where(accepted, new, old[move.part])) for old, new in zip(poses, to, strict=True))
    )


def _draw(key: jax.Array, board: Board, schedule: Schedule, now: _Temperature, num_restarts: int) -> Moves:
    """A block of moves: `Moves` with a leading axis."""
    # One draw for everything: the random generator is the greater part of what has to be compiled.
    draws = jax.random.uniform(key, (BLOCK * (5 * num_restarts + 2),), jnp.float32)
    pick = draws[: 2 * BLOCK].reshape(2, BLOCK)
    kind, turn, x, y, accept = draws[2 * BLOCK :].reshape(5, BLOCK, num_restarts)
    part, other = (_pick(*of) for of in zip(pick, (board.movable, board.exists), strict=True))
    # How far `kind` is into its share says on which of four sides the parts touch.
    side = jnp.floor(4 * (kind - schedule.jump) / jnp.maximum(schedule.contact, 1e-6)).astype(jnp.int32)
    across, sign = (side & 1) == 1, 1.0 - (side & 2)
    quarters = 1 + jnp.floor(3 * turn / jnp.maximum(schedule.turn, 1e-6)).astype(jnp.int32)
    return Moves(
        part=part,
        other=other,
        jumps=kind < schedule.jump,
        touches=(kind >= schedule.jump) & (kind < schedule.jump + schedule.contact),
        turn=jnp.where(turn < schedule.turn, quarters, 0),
        shift_x=(2 * x - 1) * now.reach,
        shift_y=(2 * y - 1) * now.reach,
        place_x=x,
        place_y=y,
        beside_x=jnp.where(across, 2 * x - 1, sign),
        beside_y=jnp.where(across, sign, 2 * y - 1),
        margin=-now.temperature * jnp.log(accept),
    )


def _pick(share: jax.Array, of: jax.Array) -> jax.Array:
    """`i32[...]`: indices of the true values of `bool[N]`, all as likely, from `f32[...]` uniform in [0, 1)."""
    (index,) = jnp.nonzero(of, size=of.shape[0], fill_value=0)
    return index[jnp.floor(share * of.sum()).astype(jnp.int32)].astype(jnp.int32)


def _cooled(schedule: Schedule, unit: jax.Array, share: jax.Array) -> _Temperature:
    """The state of the schedule after a `share` of the moves."""

    def between(first: float, last: float) -> jax.Array:
        return first * (last / first) ** share

    weight = between(schedule.first_weight, schedule.last_weight) / unit
    return _Temperature(
        temperature=unit * between(schedule.first_temperature, schedule.last_temperature),
        weight=weight * jnp.where(share > 1 - SETTLING, SETTLING_WEIGHT, 1.0),
        reach=unit * between(schedule.first_reach, schedule.last_reach),
    )


def _better(board: Board, best: Placements, poses: Poses) -> Placements:
    """For each restart the better of its best placement and the present one."""
    position, orientation = jnp.stack(poses[:2], axis=-1).swapaxes(0, 1), poses.turns.T
    hpwl, overlap = jax.vmap(measure, (None, 0, 0))(board, position, orientation)
    legal = geometry.is_legal(overlap).all(axis=-1)
    better = jnp.where(legal, hpwl < best.hpwl, ~best.legal)
    return Placements(
        position=jnp.where(better[:, None, None], position, best.position),
        orientation=jnp.where(better[:, None], orientation, best.orientation),
        hpwl=jnp.where(better & legal, hpwl, best.hpwl),
        legal=best.legal | legal,
    )
