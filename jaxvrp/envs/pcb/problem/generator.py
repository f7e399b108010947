"""Random boards: one fixed integrated circuit (IC) and two-pin parts around it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.fields import build, parameter, size

# Courtyard length and width, and distance of the pads from the centre, of chip parts 0402, 0603, 0805 and 1206 (KiCad).
CHIPS = ((1.86, 0.94, 0.48), (2.96, 1.46, 0.775), (3.36, 1.90, 0.9125), (4.56, 2.24, 1.4625))
IC_AREA = (20.0, 60.0)
# With these, and at most 45 % utilisation, the IC's long side is shorter than the board's short one.
LONGEST_BOARD = 4 / 3
LONGEST_IC = 1.5
MOST_PARTS = 10_000  # tables hold a number for each pair of parts
SQUARE = 0.5
WITHOUT_IC = 0.25


class Parameters(struct.PyTreeNode):
    """What a board is drawn from; every board has max_parts + 1 components, some of them padding."""

    min_parts: int = size(2, 2, maximum=MOST_PARTS, help="least number of two-pin parts of a generated board")
    max_parts: int = size(16, 2, maximum=MOST_PARTS, help="largest number of two-pin parts of a generated board")
    max_degree: int = size(5, 2, maximum=MOST_PARTS, help="most pins of a net of a generated board; the least is 2")
    min_utilisation: float = parameter(
        0.05, above=0.0, maximum=0.45, help="least share of a generated board that its parts cover"
    )
    max_utilisation: float = parameter(
        0.30, above=0.0, maximum=0.45, help="largest share of a generated board that its parts cover"
    )

    def check_fields(self) -> None:
        """Refuse a least above a most, with a ValueError; see `jaxvrp.fields.build`."""
        for name in ("parts", "utilisation"):
            least, most = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
                raise ValueError(f"min_{name} is {least}, above max_{name}, {most}; lower the one or raise the other")


def make_parameters(**values: Any) -> Parameters:
    """Checked `Parameters`; a wrong name, type or range is a ValueError or a TypeError, one line that names it."""
    return build(Parameters, values, "board parameter")


def generate(key: jax.Array, parameters: Parameters) -> Board:
    """Draw one board.

    Component 0 is the IC: fixed, inside the board, at any quarter turn. The two-pin parts, a uniform number, have the
    sizes of chip parts and centres uniform in the middle 90 % of the board. The utilisation is uniform and gives the
    board's area; half of the boards are square. A net has 1 to max_degree - 1 pads of different parts and, but for a
    few nets, a pin of the IC. Net 0 is ground. All parts are on side 0, all targets unknown. There are max_parts + 1
    components, 4 max_parts pins (at most one of the IC for each net, then two of each part) and 2 max_parts nets.
    """
    # One draw for everything: a quarter of the compilation that one key for each takes.
    least, most = parameters.min_parts, parameters.max_parts
    draws = jax.random.uniform(key, (8, 2 * most + 2), jnp.float32)
    flips, slots = draws[6, -most:], draws[7, : 2 * most]
    real = jnp.arange(most) < least + _whole_numbers(draws[7, -1], most - least + 1)
    exists = jnp.concatenate([jnp.ones(1, bool), real])
    bodies = _bodies(draws[:2], real, parameters)
    pad_net, with_ic = _nets(draws[2:5, : 2 * most], real, parameters.max_degree)
    position, orientation = _places(draws[5:7], bodies, exists)
    nets = with_ic.size
    used = with_ic | (pad_net[:, None] == jnp.arange(nets)).any(axis=0)
    component = jnp.arange(exists.size, dtype=jnp.int32) * exists
    pad_x = jnp.where(flips < 0.5, -bodies.pad, bodies.pad)[:, None] * jnp.array([1.0, -1.0], jnp.float32)
    pad_x, unknown = pad_x.reshape(-1), jnp.full(exists.size, jnp.inf, jnp.float32)
    return Board(
        outline=bodies.outline,
        size=bodies.size,
        position=position,
        orientation=orientation,
        fixed=component == 0,
        side=jnp.zeros(exists.size, jnp.int32),
        exists=exists,
        target_wirelength=unknown,
        target_hpwl=unknown,
        pin_component=jnp.concatenate([jnp.zeros(nets, jnp.int32), component[1:].repeat(2)]),
        pin_offset=jnp.concatenate([_ic_pins(slots, bodies.size[0]), jnp.stack([pad_x, 0 * pad_x], axis=1)]),
        pin_net=jnp.concatenate([jnp.where(with_ic, jnp.arange(nets), -1), jnp.where(pad_net < nets, pad_net, -1)]),
        power_rail=jnp.where(used, jnp.arange(nets) == 0, -1).astype(jnp.int32),
    )


class _Bodies(NamedTuple):
    """The sizes of a board and its parts."""

    outline: jax.Array  # f32[2]
    size: jax.Array  # f32[N, 2], the IC first
    pad: jax.Array  # f32[N-1], distance of the pads of a two-pin part from its centre


def _whole_numbers(draws: jax.Array, count: int) -> jax.Array:
    """`i32`, 0 to count - 1, from uniform numbers in [0, 1)."""
    return jnp.floor(draws * count).astype(jnp.int32)


def _ranks(draws: jax.Array) -> jax.Array:
    """`i32[..., n]`, a permutation: how many of `f32[..., n]` come before each; of equal ones the first does."""
    draw, other = draws[..., :, None], draws[..., None, :]
    index = jnp.arange(draws.shape[-1], dtype=jnp.int32)
    return ((other < draw) | ((other == draw) & (index < index[:, None]))).sum(axis=-1, dtype=jnp.int32)


def _bodies(draws: jax.Array, real: jax.Array, parameters: Parameters) -> _Bodies:
    """Sizes of the IC and of the parts that are `real` (`bool[N-1]`), and a board that they cover as they should."""
    area_draw, ic_ratio_draw, share_draw, square_draw, ratio_draw = draws[0, :5]
    chips = jnp.array(CHIPS, jnp.float32)[_whole_numbers(draws[1, : real.size], len(CHIPS))] * real[:, None]
    ic_area = IC_AREA[0] + (IC_AREA[1] - IC_AREA[0]) * area_draw
    sizes = jnp.concatenate([_rectangle(ic_area, LONGEST_IC ** (2 * ic_ratio_draw - 1))[None], chips[:, :2]])
    least, most = parameters.min_utilisation, parameters.max_utilisation
    share = least + (most - least) * share_draw
    ratio = jnp.where(square_draw < SQUARE, 1.0, LONGEST_BOARD ** (2 * ratio_draw - 1))
    return _Bodies(_rectangle(jnp.prod(sizes, axis=1).sum() / share, ratio), sizes, chips[:, 2])


def _rectangle(area: jax.Array, ratio: jax.Array) -> jax.Array:
    """`f32[2]`, width and height, with `ratio` = width / height."""
    return jnp.sqrt(area * jnp.stack([ratio, 1 / ratio]))


def _nets(draws: jax.Array, real: jax.Array, max_degree: int) -> tuple[jax.Array, jax.Array]:
    """Cut the first pads of all parts, shuffled, into nets, and the second pads likewise: no net has both of a part.

    Returns `i32[2 parts]`, the net of each pad, a part's two next to each other, the number of nets for none; and
    `bool[2 parts]`, whether a net has a pin of the IC.
    """
    count = real.size
    order, lengths = draws[:2].reshape(2, 2, count)
    # Parts that do not exist come last.
    rank = _ranks(order + 2.0 * ~real)
    ends = jnp.cumsum(1 + _whole_numbers(lengths, max_degree - 1), axis=1)
    group = (ends[:, None, :] <= rank[:, :, None]).sum(axis=-1, dtype=jnp.int32)
    net = group + count * jnp.arange(2, dtype=jnp.int32)[:, None]
    net = jnp.where(real, net, 2 * count).T.reshape(-1)
    pads = (net[:, None] == jnp.arange(2 * count)).sum(axis=0)
    without_ic = (draws[2] < WITHOUT_IC) & (pads >= 2) & (jnp.arange(2 * count) > 0)
    return net, (pads > 0) & ~without_ic


def _ic_pins(draws: jax.Array, body: jax.Array) -> jax.Array:
    """`f32[K, 2]`, offsets of one pin for each net, in random order along the two vertical edges of the IC."""
    slot = _ranks(draws)
    side = jnp.where(slot % 2 == 0, -0.45, 0.45)
    height = (slot // 2 + 0.5) / (slot.size / 2) - 0.5
    return jnp.stack([side, 0.9 * height], axis=1).astype(jnp.float32) * body


def _places(draws: jax.Array, bodies: _Bodies, exists: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Centres `f32[N, 2]` and quarter turns `i32[N]`, 0 for padding."""
    share = draws[0].reshape(-1, 2)
    turns = _whole_numbers(draws[1, : exists.size], 4) * exists
    half = jnp.where(turns[0] % 2 == 0, bodies.size[0], bodies.size[0, ::-1]) / 2
    ic = half + share[0] * (bodies.outline - 2 * half)
    movable = (0.05 + 0.9 * share[1:]) * bodies.outline
    return jnp.concatenate([ic[None], movable]) * exists[:, None], turns
