"""A circuit board as data: parts, pins, nets, outline; checking, padding, stacking, files.

Millimetres, origin in the outline's corner, y points down; orientations are quarter turns, counter-clockwise on screen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.io import arrays
from jaxvrp.io.arrays import ArrayField, refuse_where
from jaxvrp.io.limits import LEAST

MOST = {"components": 10_000, "pins": 10_000}
"""Tables hold a number for each pair of them."""


def _array(axis: str | None = None, inner: tuple[int, ...] = (), **look: Any) -> Any:
    """A field of `Board`, with its `ArrayField` as metadata."""
    return struct.field(metadata={"array": ArrayField(axis, inner, **look)})


class Board(struct.PyTreeNode):
    """One board with N components, P pins and K nets. Leading axes make it a batch.

    Arrays are NumPy (`float64`, from `make_board` and files) or JAX (`float32`, from the generator and in an
    environment's state). Beside each field stand its first axis, the lengths of the others, and what it means; numbers
    are `float`, unless `kind` says `int` (`i32`) or `bool`. Lengths in mm; targets are inf where unknown.
    """

    outline: Any = _array(inner=(2,))  # width and height
    size: Any = _array("components", (2,))  # width and height at orientation 0; may be 0 (a test point)
    position: Any = _array("components", (2,))  # centre at the start
    orientation: Any = _array("components", kind=int)  # quarter turns at the start, 0 to 3
    fixed: Any = _array("components", kind=bool, padding=True)  # may not be moved
    side: Any = _array("components", kind=int)  # 0 or 1; only parts of one side obstruct each other
    exists: Any = _array("components", kind=bool, padding=False)  # each that exists and is not fixed is an agent
    target_wirelength: Any = _array("components", padding=np.inf)  # best known W, distance to the nearest pads
    target_hpwl: Any = _array("components", padding=np.inf)  # best known H, half perimeters of its nets
    pin_component: Any = _array("pins", kind=int)  # index of the component
    pin_offset: Any = _array("pins", (2,))  # from the component's centre at orientation 0
    pin_net: Any = _array("pins", kind=int, padding=-1)  # index of the net; -1 for none: the pin counts for nothing
    power_rail: Any = _array("nets", kind=int, padding=-1)  # 0 for a signal net, 1 for ground, 2 and up for supplies

    @property
    def num_components(self) -> int:
        """N, with padding."""
        return self.exists.shape[-1]

    @property
    def num_pins(self) -> int:
        """P, with padding."""
        return self.pin_net.shape[-1]

    @property
    def num_nets(self) -> int:
        """K, with padding."""
        return self.power_rail.shape[-1]

    @property
    def movable(self) -> Any:
        """`bool[N]`, the components that are agents."""
        return self.exists & ~self.fixed

    @property
    def signal_pin(self) -> Any:
        """`bool[P]`, the pins that are on a signal net."""
        xp = jnp if isinstance(self.power_rail, jax.Array) else np
        rail = xp.take_along_axis(self.power_rail, xp.maximum(self.pin_net, 0), axis=-1)
        return (self.pin_net >= 0) & (rail == 0)


SCHEMA: arrays.Schema = {field.name: field.metadata["array"] for field in dataclasses.fields(Board)}

REQUIRED = ("outline", "size", "pin_component", "pin_offset", "pin_net", "power_rail")


def make_board(
    outline: ArrayLike,
    size: ArrayLike,
    pin_component: ArrayLike,
    pin_offset: ArrayLike,
    pin_net: ArrayLike,
    power_rail: ArrayLike,
    *,
    position: ArrayLike | None = None,
    orientation: ArrayLike | None = None,
    fixed: ArrayLike | None = None,
    side: ArrayLike | None = None,
    target_wirelength: ArrayLike | None = None,
    target_hpwl: ArrayLike | None = None,
) -> Board:
    """A checked board of one's own, as NumPy arrays.

    Arguments are as in `Board`; by default parts lie in the board's centre, unturned, on side 0, none is fixed, and
    targets are unknown.

    Raises:
        ValueError: what is wrong, at which component, pin or net, and the remedy; see `check`.
    """
    given = {name: value for name, value in locals().items() if value is not None or name in REQUIRED}
    numbers = arrays.number_arrays(given, "a board")
    parts, outline = np.size(numbers["size"]) // 2, numbers["outline"]
    defaults = dict.fromkeys(("orientation", "side", "fixed"), np.zeros(parts)) | {
        "position": np.broadcast_to(outline / 2, (parts, 2)) if outline.shape == (2,) else np.zeros((parts, 2)),
        "target_wirelength": np.full(parts, np.inf),
        "target_hpwl": np.full(parts, np.inf),
        "exists": np.ones(parts),
    }
    board = Board(**arrays.stored_arrays(SCHEMA, defaults | numbers, "holds a fraction; give whole numbers"))
    check(board)
    return board


def check(board: Board) -> None:
    """Check one board (no leading axes); padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which component, pin or net, and the remedy.
    """
    counts = {"components": np.size(board.exists), "pins": np.size(board.pin_net), "nets": np.size(board.power_rail)}
    for name, count in counts.items():
        if count == 0:
            raise ValueError(f"a board without {name} has no wire to shorten; give at least one")
        if count > MOST.get(name, count):
            raise ValueError(f"a board of {count} {name}; up to {MOST[name]} are played, so give a smaller one")
    arrays.check_shapes(SCHEMA, board, counts)
    board = jax.tree.map(np.asarray, board)
    if not (np.isfinite(board.outline) & (board.outline >= LEAST)).all():
        raise ValueError(f"outline is {board.outline.tolist()}; give a finite width and height above 0")
    _check_components(board)
    _check_pins(board)
    if not board.movable.any():
        raise ValueError("every component is fixed; a board needs one that can be moved")


def _check_components(board: Board) -> None:
    size, exists = board.size, board.exists
    refuse_where(~(np.isfinite(size) & (size >= 0)).all(axis=1), "size of component {} is not finite and 0 or more")
    refuse_where(~np.isfinite(board.position).all(axis=1), "position of component {} is not finite; give its centre")
    wrong_turns = ~np.isin(board.orientation, range(4))
    refuse_where(wrong_turns, "orientation of component {} is none of 0, 1, 2, 3 quarter turns")
    refuse_where(~np.isin(board.side, range(2)), "side of component {} is neither 0 nor 1; give one of them")
    refuse_where(~exists & ~board.fixed, "component {} is padding, but not fixed; fix it")
    refuse_where(~exists & size.any(axis=1), "component {} is padding, but has a size; make it 0")
    for name in ("target_wirelength", "target_hpwl"):
        refuse_where(~(getattr(board, name) >= 0), name + " of component {} is not 0 or more; give inf for unknown")


def _check_pins(board: Board) -> None:
    component, net, rail = board.pin_component, board.pin_net, board.power_rail
    refuse_where((component < 0) | (component >= board.exists.size), "pin {}: component is none of the board")
    refuse_where(~np.isfinite(board.pin_offset).all(axis=1), "offset of pin {} is not finite; give two distances")
    unknown_net = (net < -1) | (net >= board.num_nets)
    refuse_where(unknown_net, "pin {}: net is none of the board; give its index, or -1 for none")
    on_padding = (net >= 0) & ~board.exists[component]
    refuse_where(on_padding, "pin {} belongs to a component of padding; set its net to -1")
    refuse_where(rail < -1, "power_rail of net {} is below -1; give 0 for a signal")
    refuse_where((net >= 0) & (rail[net] < 0), "pin {} is on a net of padding (power_rail -1); give it a net")


def as_float32(board: Board) -> Board:
    """The same board as JAX arrays of the dtypes that environments compute with."""
    return arrays.computed_arrays(SCHEMA, board)


def agent_components(board: Board, num_agents: int) -> tuple[jax.Array, jax.Array]:
    """The movable components of one board, the first `num_agents` (A) in order; works under `jit` and `vmap`.

    Returns `i32[A]`, the component of each agent, 0 where there is none, and `bool[A]`, whether there is one.
    """
    component = jnp.nonzero(board.movable, size=num_agents, fill_value=-1)[0].astype(jnp.int32)
    return jnp.maximum(component, 0), component >= 0


def pad(board: Board, num_components: int, num_pins: int, num_nets: int) -> Board:
    """Add components, pins and nets that count for nothing, up to the given sizes; works on batches and under `vmap`.

    Raises:
        ValueError: the board is larger.
    """
    lengths = {"components": num_components, "pins": num_pins, "nets": num_nets}
    if any(length < getattr(board, f"num_{axis}") for axis, length in lengths.items()):
        raise ValueError(
            f"a board of {board.num_components} components, {board.num_pins} pins and {board.num_nets} nets does not "
            f"fit into {num_components}, {num_pins} and {num_nets}; make the environment with at least its sizes"
        )
    return arrays.pad_arrays(SCHEMA, board, lengths)


def trim(board: Board) -> Board:
    """One board without padding and without pins that have no net, as NumPy arrays of the same dtypes."""
    board = jax.tree.map(np.asarray, board)
    kept = {"components": board.exists, "pins": board.pin_net >= 0, "nets": board.power_rail >= 0}
    cut = {
        name: getattr(board, name) if field.axis is None else getattr(board, name)[kept[field.axis]]
        for name, field in SCHEMA.items()
    }
    for name, axis in (("pin_component", "components"), ("pin_net", "nets")):
        renumbered = np.cumsum(kept[axis], dtype=np.int32) - 1
        cut[name] = renumbered[cut[name]].astype(np.int32)
    return Board(**cut)


def stack(boards: Sequence[Board]) -> Board:
    """A batch `[E]` of boards of any sizes, padded to the largest, as NumPy arrays."""
    return arrays.stack_arrays(SCHEMA, boards)


FILES = arrays.ArrayFiles("jaxvrp-pcb-1", "a board", "jaxvrp.envs.pcb", SCHEMA, Board, check)

save = FILES.save
"""Write a board, or a batch, as `.npz`: `save(path, board)`; see `jaxvrp.io.arrays.ArrayFiles`."""

load = FILES.load
"""Read what `save` wrote, as NumPy arrays: `load(path)`; see `jaxvrp.io.arrays.ArrayFiles`."""
