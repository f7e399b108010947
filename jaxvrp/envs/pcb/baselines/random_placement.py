"""Random placements: parts anywhere on the board, each on its own, or free of overlap."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import Board, as_float32
from jaxvrp.envs.pcb.problem.instance import obstructing

# Of the board's longest side: touching parts stay so far apart that rounding cannot make them overlap.
CLEARANCE = 2.0**-22


def uniform_poses(board: Board, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Poses of parts, each on its own: uniform over those wholly on the board, fixed parts where they are.

    A part that fits on the board only after a quarter turn gets one; one that never fits is centred. From uniform
    `draws` in [0, 1), `f32[..., N, 3]`: `f32[..., N, 2]` centres and `i32[..., N]` quarter turns.
    """
    clearance = CLEARANCE * board.outline.max()
    quarters = jnp.floor(draws[..., 2] * 4).astype(jnp.int32)
    fits = (2 * geometry.half_extent(board.size, quarters) <= board.outline).all(-1)
    quarters = jnp.where(fits, quarters, (quarters + 1) & 3)
    room = jnp.maximum(board.outline - 2 * (geometry.half_extent(board.size, quarters) + clearance), 0.0)
    centre = 0.5 * board.outline + (draws[..., :2] - 0.5) * room
    movable = board.movable
    return jnp.where(movable[:, None], centre, board.position), jnp.where(movable, quarters, board.orientation)


def random_legal(
    board: Board, key: jax.Array, *, tries: int = 32, restarts: int = 8
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A random placement without overlap; works under `jit`, and under `vmap` for batches of boards.

    The parts are placed one after another, the largest first, each uniformly over the poses that are free: the first
    free one of `tries` is taken, and where none is free, the one that overlaps least. Of `restarts` such placements the
    first legal one counts; where none is legal, the one with the least overlap. Fixed parts stay. `board`: without
    leading axes.

    Returns:
        `f32[N, 2]` centres in mm, `i32[N]` quarter turns, `bool[]` whether every part is free of overlap.
    """
    board = as_float32(board)
    draws = jax.random.uniform(key, (restarts, tries, board.num_components, 3), jnp.float32)
    position, orientation = jax.vmap(_place_one_by_one, (None, 0))(board, draws)
    overlap = jax.vmap(measure_board, (None, 0, 0))(board, position, orientation).overlap
    worst = overlap.max(axis=-1)
    best = jnp.argmin(jnp.where(geometry.is_legal(worst), 0.0, worst))
    return position[best], orientation[best], geometry.is_legal(worst[best])


def _place_one_by_one(board: Board, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A placement from uniform draws `f32[tries, N, 3]`."""
    centre, quarters = uniform_poses(board, draws)
    half = geometry.half_extent(board.size, quarters)
    obstructs = obstructing(board)

    def choose_pose(chosen: jax.Array, part: jax.Array) -> tuple[jax.Array, None]:
        in_the_way = (chosen >= 0) & obstructs[part]
        chosen_try = jnp.maximum(chosen, 0)[None, :, None]
        apart = centre[:, part, None] - jnp.take_along_axis(centre, chosen_try, axis=0)
        other_half = jnp.take_along_axis(half, chosen_try, axis=0)
        x_and_y = ((v[..., 0], v[..., 1]) for v in (apart, half[:, part, None], other_half))
        (apart_x, apart_y), half_of_part, half_of_others = x_and_y
        common = geometry.common_area(apart_x, apart_y, half_of_part, half_of_others)
        overlap = jnp.where(in_the_way, common, 0.0).sum(axis=-1)
        return chosen.at[part].set(jnp.argmin(overlap).astype(jnp.int32)), None

    # Every try of a fixed part is its own place.
    chosen = jnp.where(board.movable, -1, 0).astype(jnp.int32)
    largest_first = jnp.argsort(jnp.where(board.movable, -board.size.prod(axis=-1), -jnp.inf))
    chosen, _ = jax.lax.scan(choose_pose, chosen, largest_first)
    chosen_try = chosen[None, :, None]
    centre = jnp.take_along_axis(centre, chosen_try, axis=0)[0]
    return centre, jnp.take_along_axis(quarters, chosen_try[..., 0], axis=0)[0]
