"""Wirelengths of a board, in mm, and nearest pads, from where its pads are; power nets do not count.

`P` pads, `N` parts, `E` nets; of every pad what `Pads` says. The tables of a board (`part_pads`, `pad_groups`,
`part_nets`, `shared_nets`) do not depend on positions: build them once for a board.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.rows import rows_at


class Pads(NamedTuple):
    """Pads of a board where they are."""

    place: jax.Array  # f32[P, 2], in mm
    component: jax.Array  # i32[P], their parts
    net: jax.Array  # i32[P]
    signal: jax.Array  # bool[P], the pad exists and its net is a signal; where that is false, it changes nothing

    def at(self, index: jax.Array) -> Pads:
        """Those of a row of `part_pads`, `i32[K]`; of -1, one that changes nothing."""
        exists = index >= 0
        chosen = Pads(*(rows_at(of_pads, jnp.where(exists, index, 0)) for of_pads in self))
        return chosen._replace(signal=chosen.signal & exists)


def table_widths(component: np.ndarray, net: np.ndarray, signal: np.ndarray) -> tuple[int, int]:
    """The most signal pads of a part, and the most of a part on one net, for `part_pads` and `pad_groups`; NumPy.

    With leading axes, `[..., P]`, they are the most of any board of a batch.
    """
    signal = np.asarray(signal).reshape(-1, np.shape(signal)[-1])
    row, pad = np.nonzero(signal)
    part = np.asarray(component).reshape(signal.shape)[row, pad]
    net_of_pad = np.asarray(net).reshape(signal.shape)[row, pad]
    return most_alike(row, part), most_alike(row, part, net_of_pad)


def most_alike(*columns: np.ndarray) -> int:
    """The most rows of a table that are the same; 1 for an empty one. NumPy."""
    _, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    return int(counts.max(initial=1))


def part_pads(component: jax.Array, signal: jax.Array, num_parts: int, width: int) -> jax.Array:
    """`i32[N, width]`: the signal pads of each part, in their order, then -1; pads beyond `width` are lost."""
    on_part = (component == jnp.arange(num_parts, dtype=jnp.int32)[:, None]) & signal
    return _first_true(on_part, width)


def pad_groups(component: jax.Array, net: jax.Array, signal: jax.Array, width: int) -> jax.Array:
    """`i32[P, width]`: the signal pads that share part and net, in the row of the first of them, then -1.

    The other rows are -1 throughout; pads beyond `width` are lost.
    """
    group = (component[:, None] == component) & (net[:, None] == net) & signal[:, None] & signal
    earlier = jnp.tril(group, -1).any(-1)
    return _first_true(group & ~earlier[:, None], width)


def part_nets(component: jax.Array, net: jax.Array, signal: jax.Array, num_parts: int, num_nets: int) -> jax.Array:
    """`bool[N, E]`: the signal nets that each part is on."""
    on_part = (component == jnp.arange(num_parts, dtype=jnp.int32)[:, None]) & signal
    on_net = net == jnp.arange(num_nets, dtype=jnp.int32)[:, None]
    return (on_part[:, None] & on_net).any(-1)


def shared_nets(part_nets: jax.Array) -> jax.Array:
    """`bool[N, N]`: the pairs of different parts on one signal net, from `bool[N, E]`."""
    shared = (part_nets[:, None] & part_nets).any(-1)
    return shared & ~jnp.eye(part_nets.shape[0], dtype=bool)


def pad_wirelengths(pads: Pads, chosen: Pads) -> jax.Array:
    """`f32[K]`: distance of the `chosen` pads to the nearest of their signal net on another part; 0 if there is none.

    The sum over the pads of a part is its Euclidean wirelength W.
    """
    # All pads down, the chosen ones across.
    wired = (chosen.net == pads.net[:, None]) & (chosen.component != pads.component[:, None])
    wired &= chosen.signal & pads.signal[:, None]
    x, y = (chosen.place[:, axis] - pads.place[:, axis, None] for axis in range(2))
    least_square = jnp.min(jnp.where(wired, x**2 + y**2, jnp.inf), axis=0, initial=jnp.inf)
    return jnp.where(least_square < jnp.inf, jnp.sqrt(least_square), 0.0)


def part_wirelengths(pads: Pads, num_parts: int) -> jax.Array:
    """`f32[N]`: the Euclidean wirelength W of every part."""
    on_part = pads.component == jnp.arange(num_parts, dtype=jnp.int32)[:, None]
    return jnp.sum(jnp.where(on_part, pad_wirelengths(pads, pads), 0.0), axis=-1)


def net_hpwl(pads: Pads, num_nets: int) -> jax.Array:
    """`f32[E]`: half perimeter of the box around the pads of each signal net, 0 without pads; the sum is the HPWL."""
    # Pads that do not count go to a net beyond the last, which is dropped.
    net = jnp.where(pads.signal, pads.net, num_nets)
    on_cpu, elsewhere = (functools.partial(hpwl, num_nets=num_nets) for hpwl in (_hpwl_by_segments, _hpwl_compared))
    return jax.lax.platform_dependent(pads.place, net, cpu=on_cpu, default=elsewhere)


def _hpwl_by_segments(place: jax.Array, net: jax.Array, num_nets: int) -> jax.Array:
    # A net without pads has sides of -inf.
    sides = jax.ops.segment_max(jnp.concatenate([place, -place], axis=1), net, num_segments=num_nets)
    # Opposite sides first: a box of no width must have width 0, wherever it is.
    width_and_height = sides[:, :2] + sides[:, 2:]
    return jnp.where(jnp.isfinite(sides[:, 0]), width_and_height.sum(-1), 0.0)


def _hpwl_compared(place: jax.Array, net: jax.Array, num_nets: int) -> jax.Array:
    """The same, by comparing every pad with every net: an accelerator adds to segments one by one, in two kernels."""
    # Pads down: along them, as the last axis, a GPU would take a warp for each net.
    on_net = net[:, None] == jnp.arange(num_nets, dtype=jnp.int32)
    x, y = place[:, :1], place[:, 1:]
    ends = tuple(jnp.where(on_net, end, -jnp.inf) for end in (x, y, -x, -y))
    nothing = (np.float32(-np.inf),) * len(ends)
    right, bottom, left, top = jax.lax.reduce(
        ends, nothing, lambda most, end: tuple(map(jax.lax.max, most, end)), dimensions=(0,)
    )
    return jnp.where(jnp.isfinite(right), (right + left) + (bottom + top), 0.0)


def part_hpwl(net_hpwl: jax.Array, part_nets: jax.Array) -> jax.Array:
    """`f32[N]`: H of parts, `net_hpwl` (`f32[E]`) summed over their nets (`bool[N, E]`); of one part with `bool[E]`."""
    return jnp.sum(jnp.where(part_nets, net_hpwl, 0.0), axis=-1)


def mean_contact(pads: Pads, part: Pads, groups: jax.Array) -> jax.Array:
    """`f32[2]`: mean vector in mm from a part's pads to the nearest pads of other parts on their nets; 0 without any.

    The mean is over the pairs of a pad and another part on its net. Of equally near pads, the first counts.
    `part`: the part's signal pads (`[K]`); `groups`, `i32[P, S]`: from `pad_groups`.
    """
    # `[K, P]`: an own pad, and a group of pads of another part on its net, in the row of the first of them.
    same_net, other_part = part.net[:, None] == pads.net, part.component[:, None] != pads.component
    counted = part.signal[:, None] & (groups[:, 0] >= 0) & same_net & other_part
    least_square = nearest_x = nearest_y = jnp.zeros(counted.shape, pads.place.dtype)
    for column in range(groups.shape[1]):
        pad = groups[:, column]
        place = rows_at(pads.place, pad) if column else pads.place  # the first of a group stands in its own row
        x = place[:, 0] - part.place[:, 0, None]
        y = place[:, 1] - part.place[:, 1, None]
        square = x * x + y * y
        closer = (pad >= 0) & ((square < least_square) | (column == 0))
        least_square = jnp.where(closer, square, least_square)
        nearest_x = jnp.where(closer, x, nearest_x)
        nearest_y = jnp.where(closer, y, nearest_y)
    # One reduction: separate ones would each look for the nearest again.
    sum_x, sum_y, count = jax.lax.reduce(
        tuple(jnp.where(counted, v, 0.0) for v in (nearest_x, nearest_y, jnp.ones_like(least_square))),
        (np.float32(0),) * 3,
        lambda sums, terms: tuple(total + term for total, term in zip(sums, terms, strict=True)),
        dimensions=(0, 1),
    )
    return jnp.stack([sum_x, sum_y]) / jnp.maximum(count, 1.0)


def _first_true(mask: jax.Array, width: int) -> jax.Array:
    """`i32[rows, width]`: in each row of `bool[rows, P]`, the columns of its first true values, then -1."""
    rank = jnp.where(mask, jnp.cumsum(mask, axis=1, dtype=jnp.int32) - 1, -1)
    column = jnp.arange(mask.shape[1], dtype=jnp.int32)[:, None]
    has_rank = rank[..., None] == jnp.arange(width, dtype=jnp.int32)
    return jnp.max(jnp.where(has_rank, column, -1), axis=1, initial=-1)
