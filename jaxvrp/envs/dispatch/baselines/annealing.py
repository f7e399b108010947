"""The loop of both neighbourhoods: rounds of moves, and the shortest tours that any of them has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp


class Tours(Protocol):
    """Plans as numbers of their stops in order, and minutes of travel `[V, ...]` of each vehicle."""

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
) -> tuple[T, tuple[jax.Array, jax.Array]]:
    """The tours after a round of moves for each temperature, and order and travel of the shortest.

    Args:
        move: the tours after a move, from them, random numbers in (0, 1) and a temperature.
        draws: moves of a round, and random numbers of a move.
        now: the tours.
        least: travel, as of the tours, below which others are shorter; until they are, the shortest are those of `now`.
        keys: typed keys `[rounds]`.
        heats: `f32[rounds, ...]`, minutes.
        slack: `f32[...]`, minutes by which others must be shorter.
    """

    def play_move(now: T, draws_and_heat: tuple[jax.Array, jax.Array]) -> tuple[T, None]:
        return move(now, *draws_and_heat), None

    def play_round(carry: tuple[T, Any], key_and_heat: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        (now, best), (key, heat) = carry, key_and_heat
        uniform = jax.random.uniform(key, (*draws, *heat.shape), jnp.float32, minval=1e-9)
        now, _ = jax.lax.scan(play_move, now, (uniform, jnp.broadcast_to(heat, (draws[0], *heat.shape))))
        is_better = jnp.sum(now.travel, axis=0) < jnp.sum(best[1], axis=0) - slack
        best = jax.tree.map(lambda new, old: jnp.where(is_better, new, old), (now.order, now.travel), best)
        return (now, best), None

    return jax.lax.scan(play_round, (now, (now.order, least)), (keys, heats))[0]
