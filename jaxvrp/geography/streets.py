"""Ways along streets as matrices: from each location to each, in either direction, checked and closed.

A matrix is closed if no way is quicker by way of another location. What insertion and masks compute needs that, and a
vehicle may drive there: so a matrix that is given is closed.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.io.limits import LARGEST

STRAIGHT, MATRIX = "straight", "matrix"
TRAVEL = STRAIGHT, MATRIX
"""How vehicles drive: straight, or along streets, by a matrix of the instance."""

MOST_LOCATIONS = 1_200
"""The most locations of a matrix: to close such a one takes seconds."""

WIDE = 1e-3
"""Share by which a way is quicker than the one that was given before it counts as shortened; routers round."""


def matrix_of(value: Any, name: str, size: int | None = None, locations: str = "one for each location") -> np.ndarray:
    """A matrix of ways, `f64[L, L]`, from rows of numbers; the entry at [a][b] is of the way from a to b.

    Args:
        value: rows, or an array.
        name: of the field, for messages.
        size: how many locations there are; None: as many as rows.
        locations: for messages, which these are.

    Raises:
        ValueError: it is none; one line that names the field, the row and the column, counted from 0.
    """
    rows = value if isinstance(value, list) else np.asarray(value).tolist()
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{name} is no matrix; give a list of rows, one for each location")
    count = len(rows) if size is None else size
    if len(rows) != count:
        raise ValueError(f"{name} has {len(rows)} rows; it needs {count}, {locations}")
    if count > MOST_LOCATIONS:
        raise ValueError(f"{name} is of {count} locations; up to {MOST_LOCATIONS} are read")
    for at, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != count:
            entries = len(row) if isinstance(row, list) else "no"
            raise ValueError(f"{name}[{at}] has {entries} entries; it needs {count}, one for each location")
        for to, number in enumerate(row):
            _refuse_wrong(number, name, at, to)
    return np.array(rows, np.float64)


def _refuse_wrong(number: Any, name: str, at: int, to: int) -> None:
    where = f"{name}[{at}][{to}]"
    if number is None or (isinstance(number, float) and math.isnan(number)):
        raise ValueError(f"{where} is empty: there is no way from location {at} to location {to}; give its number")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{where} is no number; give that of the way from location {at} to location {to}")
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{where} is {number:g}; a way takes at least 0, and at most {LARGEST:g}")
    if at == to and number != 0:
        raise ValueError(f"{where} is {number:g}; the way from a location to itself is 0")


def closed(time: ArrayLike, distance: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Shortest times, `f64[L, L]`, the distances along them, and how many ways are clearly shorter than was given.

    By Floyd (1962) and Warshall (1962); a matrix that is closed already stays as it is, to rounding.
    """
    given = np.array(time, np.float64)
    time, length = given.copy(), None if distance is None else np.array(distance, np.float64)
    least = 1e-9 * time.max(initial=0.0)
    for by in range(len(time)):
        via = time[:, by, None] + time[by]
        is_better = via < time - least
        if is_better.any():
            np.copyto(time, via, where=is_better)
            if length is not None:
                np.copyto(length, length[:, by, None] + length[by], where=is_better)
    return time, length, int((time < (1.0 - WIDE) * given).sum())


def closed_streets(time: ArrayLike | None, distance: ArrayLike | None, size: int) -> dict[str, np.ndarray]:
    """`travel_time` and `travel_distance` of an instance, as they are given, checked and closed; none without times.

    Warns of ways that are clearly shorter than was given.

    Raises:
        ValueError: a matrix is wrong, see `matrix_of`; or there are distances without times.
    """
    if time is None:
        if distance is not None:
            raise ValueError("travel_distance is given without travel_time; give both, or travel_time alone")
        return {}
    given = {"travel_time": time} | ({} if distance is None else {"travel_distance": distance})
    *matrices, shortened = closed(*(matrix_of(matrix, name, size) for name, matrix in given.items()))
    if shortened:
        said = f"travel_time: {shortened} of {size * size - size} ways are quicker by way of other locations"
        warnings.warn(f"{said}; these are driven", stacklevel=4)
    return {name: matrix for name, matrix in zip(given, matrices, strict=False) if matrix is not None}


def check_streets(time: np.ndarray | None, distance: np.ndarray | None, size: int) -> None:
    """Refuse matrices of an instance that `closed_streets` would not give; errors as there."""
    if time is None:
        closed_streets(time, distance, size)
        return
    checked = matrix_of(time, "travel_time", size)
    if distance is not None:
        matrix_of(distance, "travel_distance", size)
    if closed(checked)[2]:
        raise ValueError(
            "travel_time is not closed: a way is quicker by way of others; see jaxvrp.geography.streets.closed"
        )


def drawn_detours(key: jax.Array, places: jax.Array, detour: jax.Array | float) -> jax.Array:
    """What streets add to straight ways between places (`f32[L, 2]`), `f32[L, L]`, in their unit of length.

    Each way, in each direction by itself, is up to `detour` times its length longer, uniform; then the matrix is
    closed. Straight ways and what this adds are closed, too.
    """
    gap = places[:, None] - places
    straight = jnp.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)
    added = detour * straight * jax.random.uniform(key, straight.shape, jnp.float32)

    def by_way_of(by: jax.Array, added: jax.Array) -> jax.Array:
        start, end = (jax.lax.dynamic_index_in_dim(added, by, axis) for axis in (1, 0))
        return jnp.minimum(added, start + end)

    return jax.lax.fori_loop(0, len(places), by_way_of, added)
