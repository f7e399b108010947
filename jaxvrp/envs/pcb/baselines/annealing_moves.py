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
from jaxvrp.envs.pcb.baselines.random_placement import CLEARANCE
from jaxvrp.envs.pcb.problem.board import Board


class Poses(NamedTuple):
    """Centres in mm and quarter turns: `f32[N, R]`, `f32[N, R]`, `i32[N, R]` of all parts; `[R]` each of one part."""

    x: jax.Array
    y: jax.Array
    quarters: jax.Array

    def of_part(self, part: jax.Array) -> Poses:
        """Those of one part (`i32[]`), `[R]` each."""
        return Poses(self.x[part], self.y[part], self.quarters[part])

    def with_part(self, part: jax.Array, pose: Poses) -> Poses:
        """All poses, with another one (`[R]` each) of one part (`i32[]`)."""
        return Poses(
            x=self.x.at[part].set(pose.x),
            y=self.y.at[part].set(pose.y),
            quarters=self.quarters.at[part].set(pose.quarters),
        )


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

    def half(self, part: jax.Array, quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Half width and height of a part (`i32[]`) at these quarter turns, `[R]` each."""
        return _half_as_turned(self.half_width[part], self.half_height[part], quarters)


class Move(NamedTuple):
    """A move, as far as it does not depend on where the parts are; the first two are the same in all placements.

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
    component, net, signal = board.pin_component, board.pin_net, board.signal_pin
    part_has_net = wirelength.part_nets(component, net, signal, board.num_components, board.num_nets)
    nets_of_part = jax.vmap(lambda has_net: jnp.nonzero(has_net, size=widths[0], fill_value=-1)[0])(part_has_net)
    # The table of pads by part, with nets in place of parts.
    pads_of_net = wirelength.part_pads(net, signal, board.num_nets, widths[1])
    pin = jnp.where(nets_of_part[..., None] >= 0, pads_of_net[nets_of_part], -1)
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
        owner=component[pin],
        offset_x=board.pin_offset[pin, 0],
        offset_y=board.pin_offset[pin, 1],
    )


def propose(tables: Tables, poses: Poses, move: Move) -> Poses:
    """Where the move takes its part, `[R]` each: wholly on the board, if it fits on it at all."""
    pose, other_pose = poses.of_part(move.part), poses.of_part(move.other)
    quarters = (pose.quarters + move.turn) & 3
    half = tables.half(move.part, quarters)
    other_half = tables.half(move.other, other_pose.quarters)
    clearance = CLEARANCE * tables.outline.max()
    touches = move.touches & tables.obstructs[move.part, move.other]

    def along(axis: int, place: jax.Array, beside: jax.Array, shift: jax.Array) -> jax.Array:
        touching = other_pose[axis] + beside * (half[axis] + other_half[axis] + clearance)
        goal = jnp.where(touches, touching, pose[axis] + shift)
        goal = jnp.where(move.jumps, place * tables.outline[axis], goal)
        least = half[axis] + clearance
        return jnp.maximum(jnp.minimum(goal, tables.outline[axis] - least), least)

    x = along(0, move.place_x, move.beside_x, move.shift_x)
    y = along(1, move.place_y, move.beside_y, move.shift_y)
    return Poses(x, y, quarters)


def fits(tables: Tables, part: jax.Array, quarters: jax.Array) -> jax.Array:
    """`bool[R]`: whether a part may be moved, and fits on the board at these quarter turns (`i32[R]`)."""
    half_width, half_height = tables.half(part, quarters)
    fits_across, fits_down = 2 * half_width <= tables.outline[0], 2 * half_height <= tables.outline[1]
    return fits_across & fits_down & tables.movable[part]


def change(tables: Tables, poses: Poses, part: jax.Array, new_pose: Poses) -> tuple[jax.Array, jax.Array]:
    """What it changes to give a part (`i32[]`) another pose (`[R]` each).

    Returns:
        `f32[R]` of the half perimeters (mm), and `f32[R]` of the areas that the part has in common with others (mm²).
    """
    return _wire_change(tables, poses, part, new_pose), _overlap_change(tables, poses, part, new_pose)


def _overlap_change(tables: Tables, poses: Poses, part: jax.Array, new_pose: Poses) -> jax.Array:
    """`f32[R]`: by how much the areas in common with the parts in its way grow."""
    halves = _half_as_turned(tables.half_width[:, None], tables.half_height[:, None], poses.quarters)

    def common_areas(pose: Poses) -> jax.Array:
        half = tables.half(part, pose.quarters)
        return geometry.common_area(poses.x - pose.x, poses.y - pose.y, half, halves)

    growth = common_areas(new_pose) - common_areas(poses.of_part(part))
    return jnp.sum(jnp.where(tables.obstructs[part][:, None], growth, 0.0), axis=0)


def _wire_change(tables: Tables, poses: Poses, part: jax.Array, new_pose: Poses) -> jax.Array:
    """`f32[R]`: by how much the half perimeters of the part's nets grow, from the pads `[M, D, R]` of these nets."""
    owner, exists = tables.owner[part], tables.pin[part][..., None] >= 0
    is_own = (owner == part)[..., None]
    offset_x, offset_y = tables.offset_x[part][..., None], tables.offset_y[part][..., None]
    old_offset_x, old_offset_y = _turned(offset_x, offset_y, poses.quarters[owner])
    new_offset_x, new_offset_y = _turned(offset_x, offset_y, new_pose.quarters)
    old_x, old_y = poses.x[owner] + old_offset_x, poses.y[owner] + old_offset_y
    new_x = jnp.where(is_own, new_pose.x + new_offset_x, old_x)
    new_y = jnp.where(is_own, new_pose.y + new_offset_y, old_y)
    # The largest of v and of -v over the pads of a net: its right side, and minus its left one.
    # One reduction of all eight sides, because apart each would compute the pads again.
    signed = (new_x, -new_x, new_y, -new_y, old_x, -old_x, old_y, -old_y)
    new_right, new_left, new_bottom, new_top, old_right, old_left, old_bottom, old_top = jax.lax.reduce(
        tuple(jnp.where(exists, value, -jnp.inf) for value in signed),
        (np.float32(-np.inf),) * len(signed),
        _larger_of_each,
        dimensions=(1,),
    )
    new_hpwl = new_right + new_left + (new_bottom + new_top)
    old_hpwl = old_right + old_left + (old_bottom + old_top)
    return jnp.sum(jnp.where(exists[:, 0], new_hpwl - old_hpwl, 0.0), axis=0)


def _larger_of_each(values: tuple[jax.Array, ...], others: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return tuple(jnp.where(value > other, value, other) for value, other in zip(values, others, strict=True))


def _half_as_turned(width: jax.Array, height: jax.Array, quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Half width and height as turned, from those at 0 quarters."""
    odd = (quarters & 1) == 1
    return jnp.where(odd, height, width), jnp.where(odd, width, height)


def _turned(x: jax.Array, y: jax.Array, quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`geometry.turned` for offsets whose x and y are arrays of their own."""
    sign, odd = 1.0 - (quarters & 2), (quarters & 1) == 1
    return jnp.where(odd, sign * y, sign * x), jnp.where(odd, -sign * x, sign * y)
