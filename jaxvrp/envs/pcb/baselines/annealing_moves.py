"""What moving one part of a placement does to its wires and overlaps, for many placements at once.

All placements of a board move the same part, so that its tables and poses are rows of arrays with the placements along
the last axis; where the part goes is each placement's own. x and y are arrays of their own as well: arrays of two keep
a CPU from working on many placements at once. `N` parts, `R` placements; lengths in mm.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.measure import CLEARANCE, common_area
from jaxvrp.envs.pcb.problem.board import Board


class Poses(NamedTuple):
    """Centres in mm and quarter turns: `f32[N, R]`, `f32[N, R]`, `i32[N, R]` of all parts; `[R]` each of one part."""

    x: jax.Array
    y: jax.Array
    turns: jax.Array


class Tables(NamedTuple):
    """What does not change about a board.

    Attributes:
        outline: `f32[2]`.
        unit: `f32[]`, mean size of the movable parts.
        half_width, half_height: `f32[N]`, at 0 quarters.
        movable: `bool[N]`.
        obstructs: `bool[N, N]`.
        pin: `i32[N, M, D]`, the pads of each signal net that the part is on; -1 for none.
        owner: `i32[N, M, D]`, their parts.
        offset_x, offset_y: `f32[N, M, D]`, their offsets at 0 quarters.
    """

    outline: jax.Array
    unit: jax.Array
    half_width: jax.Array
    half_height: jax.Array
    movable: jax.Array
    obstructs: jax.Array
    pin: jax.Array
    owner: jax.Array
    offset_x: jax.Array
    offset_y: jax.Array


class Moves(NamedTuple):
    """Moves, as far as they do not depend on where the parts are; the first two are the same in all placements.

    Attributes:
        part: `i32[]`, the one that moves.
        other: `i32[]`, one that it may be put beside.
        jumps, touches: `bool[R]`, the kind of the move; a shift where neither is true.
        turn: `i32[R]`, quarters added.
        shift_x, shift_y: `f32[R]`, mm.
        place_x, place_y: `f32[R]`, where it jumps to, as a share of the outline.
        beside_x, beside_y: `f32[R]`, from the other one's centre, in units of the distance at which the parts touch.
        margin: `f32[R]`, the increase of the cost, in mm of wire, from which on the move is refused.
    """

    part: jax.Array
    other: jax.Array
    jumps: jax.Array
    touches: jax.Array
    turn: jax.Array
    shift_x: jax.Array
    shift_y: jax.Array
    place_x: jax.Array
    place_y: jax.Array
    beside_x: jax.Array
    beside_y: jax.Array
    margin: jax.Array


def as_poses(position: jax.Array, orientation: jax.Array) -> Poses:
    """From `f32[R, N, 2]` and `i32[R, N]`."""
    return Poses(position[..., 0].T, position[..., 1].T, orientation.T)


def make_tables(board: Board, widths: tuple[int, int]) -> Tables:
    """Those of a board as `as_float32` makes it; `widths` from `net_widths`."""
    of_pins = (board.pin_component, board.pin_net, board.signal_pin)
    on_part = wirelength.part_nets(*of_pins, board.num_components, board.num_nets)
    net = jax.vmap(lambda on: jnp.nonzero(on, size=widths[0], fill_value=-1)[0])(on_part)
    on_net = wirelength.part_pads(board.pin_net, board.signal_pin, board.num_nets, widths[1])
    pin = jnp.where(net[..., None] >= 0, on_net[net], -1)
    size = jnp.where(board.movable, board.size.mean(axis=-1), 0.0).sum() / jnp.maximum(board.movable.sum(), 1)
    return Tables(
        outline=board.outline,
        # Where all parts are points, a hundredth of the board takes the place of their size.
        unit=jnp.where(size > 0, size, 0.01 * board.outline.max()),
        half_width=0.5 * board.size[:, 0],
        half_height=0.5 * board.size[:, 1],
        movable=board.movable,
        obstructs=geometry.obstructing(board.side, board.exists),
        pin=pin,
        owner=board.pin_component[pin],
        offset_x=board.pin_offset[pin, 0],
        offset_y=board.pin_offset[pin, 1],
    )


def propose(tables: Tables, poses: Poses, move: Moves) -> Poses:
    """Where the move takes its part, `[R]` each: wholly on the board, if it fits on it at all."""
    part, turns = move.part, (poses.turns[move.part] + move.turn) & 3
    half = _half(tables.half_width[part], tables.half_height[part], turns)
    other_half = _half(tables.half_width[move.other], tables.half_height[move.other], poses.turns[move.other])
    clearance = CLEARANCE * tables.outline.max()
    touches = move.touches & tables.obstructs[part, move.other]

    def along(axis: int, place: jax.Array, beside: jax.Array, shift: jax.Array) -> jax.Array:
        touching = poses[axis][move.other] + beside * (half[axis] + other_half[axis] + clearance)
        to = jnp.where(touches, touching, poses[axis][part] + shift)
        to = jnp.where(move.jumps, place * tables.outline[axis], to)
        least = half[axis] + clearance
        return jnp.maximum(jnp.minimum(to, tables.outline[axis] - least), least)

    x = along(0, move.place_x, move.beside_x, move.shift_x)
    y = along(1, move.place_y, move.beside_y, move.shift_y)
    return Poses(x, y, turns)


def fits(tables: Tables, part: jax.Array, turns: jax.Array) -> jax.Array:
    """`bool[R]`: whether a part may be moved, and fits on the board at these quarter turns (`i32[R]`)."""
    width, height = _half(tables.half_width[part], tables.half_height[part], turns)
    return (2 * width <= tables.outline[0]) & (2 * height <= tables.outline[1]) & tables.movable[part]


def change(tables: Tables, poses: Poses, part: jax.Array, to: Poses) -> tuple[jax.Array, jax.Array]:
    """What it changes to give a part (`i32[]`) another pose (`[R]` each).

    Returns:
        `f32[R]` of the half perimeters (mm), and `f32[R]` of the areas that the part has in common with others (mm²).
    """
    return _wire_change(tables, poses, part, to), _overlap_change(tables, poses, part, to)


def _overlap_change(tables: Tables, poses: Poses, part: jax.Array, to: Poses) -> jax.Array:
    others = _half(tables.half_width[:, None], tables.half_height[:, None], poses.turns)

    def common(at: Poses) -> jax.Array:
        half = _half(tables.half_width[part], tables.half_height[part], at.turns)
        return common_area((poses.x - at.x, poses.y - at.y), half, others)

    more = common(to) - common(Poses(*(row[part] for row in poses)))
    return jnp.sum(jnp.where(tables.obstructs[part][:, None], more, 0.0), axis=0)


def _wire_change(tables: Tables, poses: Poses, part: jax.Array, to: Poses) -> jax.Array:
    owner, pin = tables.owner[part], tables.pin[part][..., None]
    offset = (tables.offset_x[part][..., None], tables.offset_y[part][..., None])
    before = _turned(*offset, poses.turns[owner])
    pads = [at[owner] + turned for at, turned in zip(poses[:2], before, strict=True)]
    own = (owner == part)[..., None]
    after = _turned(*offset, to.turns)
    moved = [jnp.where(own, at + turned, pad) for at, turned, pad in zip(to[:2], after, pads, strict=True)]
    # One reduction of all eight sides, because apart each would compute the pads again.
    sides = tuple(jnp.where(pin >= 0, sign * pad, -jnp.inf) for pad in (*moved, *pads) for sign in (1.0, -1.0))
    sides = jax.lax.reduce(
        sides,
        (np.float32(-np.inf),) * len(sides),
        lambda a, b: tuple(jnp.where(one > other, one, other) for one, other in zip(a, b, strict=True)),
        dimensions=(1,),
    )
    after, before = (sides[k] + sides[k + 1] + (sides[k + 2] + sides[k + 3]) for k in (0, 4))
    return jnp.sum(jnp.where(pin[:, 0] >= 0, after - before, 0.0), axis=0)


def _half(width: jax.Array, height: jax.Array, turns: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Half width and height as turned."""
    odd = (turns & 1) == 1
    return jnp.where(odd, height, width), jnp.where(odd, width, height)


def _turned(x: jax.Array, y: jax.Array, turns: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`geometry.turned` for offsets whose x and y are arrays of their own."""
    sign, odd = 1.0 - (turns & 2), (turns & 1) == 1
    return jnp.where(odd, sign * y, sign * x), jnp.where(odd, -sign * x, sign * y)
