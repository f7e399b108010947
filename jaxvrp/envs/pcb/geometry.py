"""Plane geometry of a board: parts as axis-aligned rectangles, what they overlap, and what a part sees around itself.

Lengths are millimetres, x points right and y down, the board is `[0, w] x [0, h]`. Angles run counter-clockwise on
screen, so the heading of `a` is `(cos a, -sin a)`. `N` parts, `P` pads. Rows that only pad an array are switched off by
a mask, and their content changes nothing. Everything is finite for finite input, whatever the sizes and places.

Arguments of one name mean the same everywhere: `centre` and `half` (half extents as turned) are `f32[..., 2]`, `size`
is `f32[..., 2]` at 0 quarters, `quarters` `i32[...]` any integer, by its value modulo 4, `outline` `f32[2]`, w and h.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.rows import rows_at

SECTORS = 8
SIGHT_RADIUS = 1.5
LEGAL_OVERLAP = 1e-5

# No part, radius or board is that small; as a denominator it turns 0 / 0 into 0.
_TINY = 1e-9
# Up to this many parts, a sorting network beats `jnp.sort`; beyond, it compiles slowly.
_NETWORK_PARTS = 32


class SectorShares(NamedTuple):
    """Shares of areas around a part, `f32[8]` in [0, 1] each; sector k is at 45° k ± 22.5° in the frame of the part."""

    los: jax.Array  # of the sector, under other parts or off the board
    ol: jax.Array  # of the part's own body within the sector, under other parts or off the board
    boardmask: jax.Array  # of the part's own body within the sector, off the board


def turned(offset: jax.Array, quarters: jax.Array) -> jax.Array:
    """`f32[..., 2]`: offsets (`f32[..., 2]`) turned counter-clockwise by quarters."""
    sign = 1.0 - (quarters & 2)
    odd = (quarters & 1) == 1
    cos, sin = jnp.where(odd, 0.0, sign), jnp.where(odd, sign, 0.0)
    x, y = offset[..., 0], offset[..., 1]
    return jnp.stack([x * cos + y * sin, y * cos - x * sin], axis=-1)


def half_extent(size: jax.Array, quarters: jax.Array) -> jax.Array:
    """`f32[..., 2]`: half width and height of turned parts."""
    return 0.5 * jnp.where((quarters[..., None] & 1) == 1, size[..., ::-1], size)


def pad_positions(centre: jax.Array, quarters: jax.Array, component: jax.Array, offset: jax.Array) -> jax.Array:
    """`f32[P, 2]`: where pads are, each of a `component` (`i32[P]`), at an `offset` at 0 quarters (`f32[P, 2]`)."""
    return rows_at(centre, component) + turned(offset, rows_at(quarters, component))


def heading(angle: jax.Array) -> jax.Array:
    """`f32[..., 2]`: the unit vector on screen of an angle in radians (`f32[...]`)."""
    return jnp.stack([jnp.cos(angle), -jnp.sin(angle)], axis=-1)


def polar(vector: jax.Array, unit: jax.Array) -> jax.Array:
    """`f32[..., 2]`: (length / `unit`, angle / π) of vectors (`f32[..., 2]`), angle in [-π, π]; zeros for zero."""
    x, y = vector[..., 0], vector[..., 1]
    # A negated zero would turn the angle π into -π.
    up = jnp.where(y == 0, 0.0, -y)
    return jnp.stack([jnp.sqrt(x * x + y * y) / jnp.maximum(unit, _TINY), jnp.arctan2(up, x) / jnp.pi], axis=-1)


def has_left(centre: jax.Array, half: jax.Array, outline: jax.Array) -> jax.Array:
    """`bool[...]`: whether the centre is off the board and no area of the body is on it."""
    off = ((centre < 0) | (centre > outline)).any(-1)
    return off & (_common_span(centre - 0.5 * outline, half, 0.5 * outline) <= 0).any(-1)


def obstructing(side: jax.Array, valid: jax.Array, movable: jax.Array) -> jax.Array:
    """`bool[N, N]`: pairs of different `valid` (`bool[N]`) parts on one `side` (`i32[N]`), which may not overlap.

    One of them is `movable` (`bool[N]`): two fixed parts lie as they lie.
    """
    same = (side[:, None] == side) & valid[:, None] & valid & (movable[:, None] | movable)
    return same & ~jnp.eye(side.shape[0], dtype=bool)


def common_area(
    apart_x: jax.Array, apart_y: jax.Array, half: tuple[jax.Array, jax.Array], other_half: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """`f32[...]`: area in mm² that rectangles have in common.

    x and y are arrays of their own, `f32[...]`, because arrays of two are slow where only one part moves: the distances
    from one centre to the other, and the half extents of both.
    """
    return _common_span(apart_x, half[0], other_half[0]) * _common_span(apart_y, half[1], other_half[1])


def area_outside(centre: jax.Array, half: jax.Array, outline: jax.Array) -> jax.Array:
    """`f32[...]`: area in mm² of rectangles off the board."""
    inside, full = _common_span(centre - 0.5 * outline, half, 0.5 * outline), 2 * half
    # Not full - inside: the two strips are exactly 0 for what is on the board.
    outside = full - inside
    return outside[..., 0] * full[..., 1] + inside[..., 0] * outside[..., 1]


def overlap_ratio(
    centre: jax.Array,
    half: jax.Array,
    outline: jax.Array,
    obstructs: jax.Array,
    valid: jax.Array,
    movable: jax.Array,
) -> jax.Array:
    """`f32[N]`: (areas in common with each part that `obstructs`, summed, + area off the board) / own area.

    Only that of `movable` parts (`bool[N]`) is off the board. May exceed 1; 0 for parts that are not `valid`
    (`bool[N]`), and for parts without area.
    """
    span = _common_span(centre[:, None] - centre, half[:, None], half)
    common = jnp.sum(jnp.where(obstructs, span[..., 0] * span[..., 1], 0.0), axis=-1)
    area = 4 * half[:, 0] * half[:, 1]
    outside = jnp.where(movable, area_outside(centre, half, outline), 0.0)
    return jnp.where(valid, (common + outside) / jnp.maximum(area, _TINY), 0.0)


def is_legal(overlap: jax.Array) -> jax.Array:
    """`bool[...]`: whether a part of this overlap ratio (`f32[...]`) counts as free of overlap."""
    return overlap <= LEGAL_OVERLAP


def sector_shares(
    centre: jax.Array,
    size: jax.Array,
    quarters: jax.Array,
    part: jax.Array,
    obstacles: jax.Array,
    outline: jax.Array,
    *,
    rays: int = 8,
) -> SectorShares:
    """The shares of the sectors around one part (`i32[]`); exact along `rays` rays a sector, at least 1.

    `obstacles`, `bool[N]`: the parts in its way, its row of `obstructing`.
    """
    own_centre, own_size, turn = (rows_at(of_parts, part) for of_parts in (centre, size, quarters))
    # In the frame of the part, and in units of the radius, so that sectors need no turning and areas no scaling.
    scale = 1 / jnp.maximum(SIGHT_RADIUS * own_size.max(), _TINY)
    parts = turned((centre - own_centre) * scale, -turn)
    board = turned((0.5 * outline - own_centre) * scale, -turn)
    enter, leave = _slabs(board, half_extent(outline, -turn) * scale, rays)
    enter = _least(_most(enter, 0.0), 1.0)
    leave = _most(_least(leave, 1.0), enter)
    _, body = _slabs(jnp.zeros(2, jnp.float32), half_extent(own_size, jnp.zeros_like(turn)) * scale, rays)

    def interval(offset: jax.Array, half: jax.Array, obstructs: jax.Array) -> tuple[jax.Array, jax.Array]:
        part_enter, part_leave = _slabs(offset, half, rays)
        hit = obstructs & (part_enter < part_leave)
        start, end = (jnp.where(hit, length, 0.0) for length in (part_enter, part_leave))
        return _least(_most(start, enter), leave) ** 2, _least(_most(end, enter), leave) ** 2

    starts, ends = _sorted_intervals(interval, (parts, half_extent(size, quarters - turn) * scale, obstacles))
    return _shares(starts, ends, enter**2, leave**2, body**2, rays)


def mean_neighbour(centre: jax.Array, neighbours: jax.Array, part: jax.Array) -> jax.Array:
    """`f32[2]`: vector in mm from a part's centre to the mean of its own and its neighbours' centres; 0 without any.

    `neighbours`, `bool[N]`: other parts that share a signal net with the `part` (`i32[]`).
    """
    apart = jnp.where(neighbours[:, None], centre - rows_at(centre, part), 0.0)
    return jnp.sum(apart, axis=0) / (1 + neighbours.sum())


def _common_span(apart: jax.Array, half: jax.Array, other_half: jax.Array) -> jax.Array:
    """Lengths that two rectangles have in common, centres `apart`; exact where one spans the other."""
    return jnp.clip(half + other_half - jnp.abs(apart), 0.0, 2 * jnp.minimum(half, other_half))


def _least(a: jax.Array, b: jax.Array | float) -> jax.Array:
    # Not `jnp.minimum`, which pays for NaN: a network of them takes half as long again.
    return jnp.where(a < b, a, b)


def _most(a: jax.Array, b: jax.Array | float) -> jax.Array:
    return jnp.where(a < b, b, a)


@functools.lru_cache(maxsize=8)
def _inverse_rays(rays: int) -> np.ndarray:
    """`f32[2, rays · 8]`: inverse components of the directions, the first ray of all sectors, then the second.

    Quarter turns map them exactly.
    """
    if rays < 1:
        raise ValueError(f"rays={rays}: a sector needs at least 1 ray.")
    angle = np.deg2rad((np.arange(2 * rays) + 0.5) / rays * 45 - 22.5)
    x, y = np.cos(angle), -np.sin(angle)
    # With an odd number the middle ray runs along an axis: its slab across is entered far behind and left far ahead.
    inverse_x = 1 / np.where(np.abs(x) < _TINY, _TINY, x)
    inverse_y = 1 / np.where(np.abs(y) < _TINY, _TINY, y)
    first_components = np.concatenate([inverse_x, inverse_y, -inverse_x, -inverse_y])
    second_components = np.concatenate([inverse_y, -inverse_x, -inverse_y, inverse_x])
    by_sector = np.stack([first_components, second_components]).reshape(2, SECTORS, rays)
    return by_sector.swapaxes(1, 2).reshape(2, -1).astype(np.float32)


def _slabs(offset: jax.Array, half: jax.Array, rays: int) -> tuple[jax.Array, jax.Array]:
    """Distances (`f32[..., rays · 8]`) where rays from the origin enter and leave rectangles; enter > leave: a miss."""
    inverse_x, inverse_y = _inverse_rays(rays)
    x, y = offset[..., 0, None] * inverse_x, offset[..., 1, None] * inverse_y
    half_x, half_y = half[..., 0, None] * np.abs(inverse_x), half[..., 1, None] * np.abs(inverse_y)
    return _most(x - half_x, y - half_y), _least(x + half_x, y + half_y)


@functools.lru_cache(maxsize=64)
def _comparators(count: int) -> tuple[tuple[int, int], ...]:
    """Batcher's odd-even merge sort of `count` values, as the pairs to put in order."""
    pairs = []
    for merged in (1 << level for level in range((count - 1).bit_length())):
        for stride in (merged >> level for level in range(merged.bit_length())):
            pairs += [
                (low, low + stride)
                for first in range(stride % merged, count - stride, 2 * stride)
                for low in range(first, min(first + stride, count - stride))
                if low // (2 * merged) == (low + stride) // (2 * merged)
            ]
    return tuple(pairs)


def _sorted_intervals(
    interval: Callable[..., tuple[jax.Array, jax.Array]], parts: tuple[jax.Array, ...]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Starts and ends (`f32[K]`) of the `interval` of each part, both sorted for each of the K."""

    def together(*parts: jax.Array) -> tuple[list[jax.Array], ...]:
        return tuple(list(values) for values in jax.vmap(interval)(*parts))

    def one_by_one(*parts: jax.Array) -> tuple[list[jax.Array], ...]:
        return tuple(map(list, zip(*map(interval, *parts), strict=True)))

    if parts[0].shape[0] > _NETWORK_PARTS:
        starts, ends = jax.vmap(interval)(*parts)
        return list(jnp.sort(starts, axis=0)), list(jnp.sort(ends, axis=0))
    # An accelerator sorts intervals as it computes them, but would write an array of all of them before.
    starts, ends = jax.lax.platform_dependent(*parts, cpu=together, default=one_by_one)
    return _in_order(starts), _in_order(ends)


def _in_order(rows: list[jax.Array]) -> list[jax.Array]:
    """The rows, sorted element by element."""
    for low, high in _comparators(len(rows)):
        a, b = rows[low], rows[high]
        ordered = a < b
        rows[low], rows[high] = jax.lax.select(ordered, a, b), jax.lax.select(ordered, b, a)
    return rows


def _shares(
    starts: list[jax.Array], ends: list[jax.Array], enter: jax.Array, leave: jax.Array, body: jax.Array, rays: int
) -> SectorShares:
    """Sums over the rays of the squared intervals: `starts`, `ends` of parts, sorted, all `f32[K]`.

    Free intervals lie between the k-th end and the (k+1)-th start, so ends and starts are sorted separately. The sum
    over rays is one reduction of all four at once; separate ones would each sort again. It is not along the last axis:
    a GPU would take a warp for each sum of a few numbers.
    """
    begins, ends = [enter, *ends], [*starts, leave]
    free: Any = sum(_most(b - a, 0.0) for a, b in zip(begins, ends, strict=True))
    free_body: Any = sum(_most(_least(b, body) - a, 0.0) for a, b in zip(begins, ends, strict=True))
    on_board = _most(_least(leave, body) - enter, 0.0)
    blocked, body_blocked, body_outside, whole_body = jax.lax.reduce(
        tuple(length.reshape(rays, SECTORS) for length in (1 - free, body - free_body, body - on_board, body)),
        (np.float32(0),) * 4,
        lambda sums, terms: tuple(total + term for total, term in zip(sums, terms, strict=True)),
        dimensions=(0,),
    )
    whole_body = _most(whole_body, _TINY)
    return SectorShares(
        los=jnp.clip(blocked / rays, 0.0, 1.0),
        ol=jnp.clip(body_blocked / whole_body, 0.0, 1.0),
        boardmask=jnp.clip(body_outside / whole_body, 0.0, 1.0),
    )
