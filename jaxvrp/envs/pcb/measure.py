"""Placements of a board's parts: how long and how legal they are, the targets they give, and random legal ones."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb import geometry, wirelength
from jaxvrp.envs.pcb.problem.board import Board, as_float32

# Of the board's longest side: touching parts stay so far apart that rounding cannot make them overlap.
CLEARANCE = 2.0**-22


def measure(board: Board, position: jax.Array, orientation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The two numbers that a placement is judged by; works under `jit` and `vmap`.

    Args:
        board: without leading axes.
        position: `f32[N, 2]`, centres in mm.
        orientation: `i32[N]`, quarter turns.

    Returns:
        `f32[]`, half perimeter of the signal nets, summed, in mm; and `f32[N]`, `geometry.overlap_ratio` of the parts.
    """
    board = as_float32(board)
    pads = geometry.pad_positions(position, orientation, board.pin_component, board.pin_offset)
    hpwl = wirelength.net_hpwl(pads, board.pin_net, board.signal_pin, board.num_nets).sum()
    half = geometry.half_extent(board.size, orientation)
    obstructs = geometry.obstructing(board.side, board.exists)
    return hpwl, geometry.overlap_ratio(position, half, board.outline, obstructs, board.exists)


def placement_targets(board: Board, position: jax.Array, orientation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What each part of a placement reaches, to be used as `Board.target_wirelength` and `target_hpwl`.

    Args:
        board, position, orientation: as of `measure`.

    Returns:
        Two `f32[N]` in mm: W, the distances of the part's signal pads to the nearest of their net on another part, and
        H, the half perimeters of its signal nets, both summed; inf for padding.
    """
    board = as_float32(board)
    of_pins = (board.pin_component, board.pin_net, board.signal_pin)
    pads = geometry.pad_positions(position, orientation, board.pin_component, board.pin_offset)
    reached = wirelength.part_wirelengths(pads, *of_pins, board.num_components)
    nets = wirelength.part_nets(*of_pins, board.num_components, board.num_nets)
    of_nets = wirelength.net_hpwl(pads, board.pin_net, board.signal_pin, board.num_nets)
    hpwl = wirelength.part_hpwl(of_nets, nets)
    return jnp.where(board.exists, reached, jnp.inf), jnp.where(board.exists, hpwl, jnp.inf)


def common_area(apart: Iterable[jax.Array], half: Iterable[jax.Array], other_half: Iterable[jax.Array]) -> jax.Array:
    """`f32[...]`: area in mm² that rectangles have in common, from x and y, each an array of its own, `f32[...]`.

    `geometry.intersection_areas` for any pairs, and without arrays of two: where only one part moves, those cost most.

    Args:
        apart: from the one centre to the other.
        half, other_half: half extents as turned.
    """
    x, y = (
        jnp.maximum(jnp.minimum(a + b - jnp.abs(d), 2 * jnp.minimum(a, b)), 0.0)
        for d, a, b in zip(apart, half, other_half, strict=True)
    )
    return x * y


def uniform_poses(board: Board, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Poses of parts, each on its own: uniform over those wholly on the board, fixed parts where they are.

    A part that fits on the board only after a quarter turn gets one; one that never fits is centred.

    Args:
        board: as `as_float32` makes it, without leading axes.
        draws: `f32[..., N, 3]`, uniform in [0, 1).

    Returns:
        `f32[..., N, 2]` centres and `i32[..., N]` quarter turns.
    """
    clearance = CLEARANCE * board.outline.max()
    turns = jnp.floor(draws[..., 2] * 4).astype(jnp.int32)
    fits = (2 * geometry.half_extent(board.size, turns) <= board.outline).all(-1)
    turns = jnp.where(fits, turns, (turns + 1) & 3)
    room = jnp.maximum(board.outline - 2 * (geometry.half_extent(board.size, turns) + clearance), 0.0)
    centre = 0.5 * board.outline + (draws[..., :2] - 0.5) * room
    movable = board.movable
    return jnp.where(movable[:, None], centre, board.position), jnp.where(movable, turns, board.orientation)


def random_legal(
    board: Board, key: jax.Array, *, tries: int = 32, restarts: int = 8
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A random placement without overlap; works under `jit`, and under `vmap` for batches of boards.

    The parts are placed one after another, the largest first, each uniformly over the poses that are free: the first
    free one of `tries` is taken, and where none is free, the one that overlaps least. Of `restarts` such placements the
    first legal one counts; where none is legal, the one with the least overlap.

    Args:
        board: without leading axes; fixed parts stay.
        key: a typed key.
        tries: poses drawn for each part.
        restarts: placements drawn.

    Returns:
        `f32[N, 2]` centres in mm, `i32[N]` quarter turns, `bool[]` whether every part is free of overlap.
    """
    board = as_float32(board)
    draws = jax.random.uniform(key, (restarts, tries, board.num_components, 3), jnp.float32)
    position, orientation = jax.vmap(_one_by_one, (None, 0))(board, draws)
    _, overlap = jax.vmap(measure, (None, 0, 0))(board, position, orientation)
    worst = overlap.max(axis=-1)
    best = jnp.argmin(jnp.where(geometry.is_legal(worst), 0.0, worst))
    return position[best], orientation[best], geometry.is_legal(worst[best])


def _one_by_one(board: Board, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One placement of `random_legal`, from uniform draws `f32[tries, N, 3]`."""
    centre, turns = uniform_poses(board, draws)
    half = geometry.half_extent(board.size, turns)
    obstructs = geometry.obstructing(board.side, board.exists)

    def place(chosen: jax.Array, part: jax.Array) -> tuple[jax.Array, None]:
        placed = (chosen >= 0) & obstructs[part]
        at = jnp.maximum(chosen, 0)[None, :, None]
        apart = centre[:, part, None] - jnp.take_along_axis(centre, at, axis=0)
        other = jnp.take_along_axis(half, at, axis=0)
        common = common_area(*(jnp.moveaxis(v, -1, 0) for v in (apart, half[:, part, None], other)))
        overlap = jnp.where(placed, common, 0.0).sum(axis=-1)
        return chosen.at[part].set(jnp.argmin(overlap).astype(jnp.int32)), None

    # Every try of a fixed part is its own place.
    chosen = jnp.where(board.movable, -1, 0).astype(jnp.int32)
    order = jnp.argsort(jnp.where(board.movable, -board.size.prod(axis=-1), -jnp.inf))
    chosen, _ = jax.lax.scan(place, chosen, order)
    at = chosen[None, :, None]
    return jnp.take_along_axis(centre, at, axis=0)[0], jnp.take_along_axis(turns, at[..., 0], axis=0)[0]
