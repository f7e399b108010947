"""The loop of both neighbourhoods: rounds of moves, and the shortest tours that any of them has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import struct


class Tours(struct.PyTreeNode):
    """Plans as numbers of their stops in order (`i32`, -1 where there is none), and their travel (`f32[V, ...]`)."""

    order: jax.Array
    travel: jax.Array


T = TypeVar("T", bound=Tours)


def annealed(
    move: Callable[[T, jax.Array, jax.Array], T],
    draws: tuple[int, int],
    now: T,
    least: jax.Array,
    keys: jax.Array,
    heats: jax.Array,
    slack: jax.Array,
) -> tuple[T, Tours]:
    """The tours after a round of moves for each temperature (`f32[rounds, ...]`), and the shortest of all rounds.

    `move` gets tours, numbers in (0, 1) and a temperature; `draws` are moves of a round and numbers of a move. Tours
    are shorter if their travel is below `least`, as `now.travel`, by more than `slack`.
    """

    def play_move(now: T, draws_and_heat: tuple[jax.Array, jax.Array]) -> tuple[T, None]:
        return move(now, *draws_and_heat), None

    def play_round(carry: tuple[T, Tours], key_and_heat: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        (now, best), (key, heat) = carry, key_and_heat
        uniform = jax.random.uniform(key, (*draws, *heat.shape), jnp.float32, minval=1e-9)
        now, _ = jax.lax.scan(play_move, now, (uniform, jnp.broadcast_to(heat, (draws[0], *heat.shape))))
        is_better = jnp.sum(now.travel, axis=0) < jnp.sum(best.travel, axis=0) - slack
        shorter = Tours(now.order, now.travel)
        return (now, jax.tree.map(lambda new, old: jnp.where(is_better, new, old), shorter, best)), None

    return jax.lax.scan(play_round, (now, Tours(now.order, least)), (keys, heats))[0]
