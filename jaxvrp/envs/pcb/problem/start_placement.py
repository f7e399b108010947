"""Where parts lie when an episode begins."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.pcb import geometry
from jaxvrp.envs.pcb.problem.board import Board

SHIFT = 0.66
MARGIN = 0.05


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
