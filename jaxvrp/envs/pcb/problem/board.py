"""A circuit board as data: parts, pins, nets, outline; checking, padding, stacking, files.

Millimetres, origin in the outline's corner, y points down; orientations are quarter turns, counter-clockwise on screen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.io.arrays import load_arrays, save_arrays

FORMAT = "jaxvrp-pcb-1"


class Board(struct.PyTreeNode):
    """One board with N components, P pins and K nets. Leading axes make it a batch.

    Arrays are NumPy (`float64`, from `make_board` and files) or JAX (`float32`, from the generator and in an
    environment's state). Lengths in mm.

    Attributes:
        outline: `f[2]`, width and height.
        size: `f[N, 2]`, width and height at orientation 0; may be 0 (a test point).
        position: `f[N, 2]`, centre at the start.
        orientation: `i32[N]`, quarter turns at the start, 0 to 3.
        fixed: `bool[N]`, may not be moved; true for padding.
        side: `i32[N]`, 0 or 1; only parts of one side obstruct each other.
        exists: `bool[N]`, false for padding. Each component that exists and is not fixed is an agent.
        target_wirelength: `f[N]`, best known distance to the nets' nearest pads; inf for unknown.
        target_hpwl: `f[N]`, best known half perimeter of the component's nets; inf for unknown.
        pin_component: `i32[P]`, index of the pin's component; 0 for padding.
        pin_offset: `f[P, 2]`, from the component's centre at orientation 0.
        pin_net: `i32[P]`, index of the pin's net; -1 for none, and for padding: such a pin counts for nothing.
        power_rail: `i32[K]`, 0 for a signal net, 1 for ground, 2 and up for supplies; -1 for padding.
    """

    outline: Any
    size: Any
    position: Any
    orientation: Any
    fixed: Any
    side: Any
    exists: Any
    target_wirelength: Any
    target_hpwl: Any
    pin_component: Any
    pin_offset: Any
    pin_net: Any
    power_rail: Any

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


class _Layout(NamedTuple):
    """How a field is stored: what its first axis counts, axes behind it, its type, and its value in padding."""

    axis: str | None
    inner: tuple[int, ...]
    kind: type
    padding: float = 0


LAYOUT = {
    "outline": _Layout(None, (2,), float),
    "size": _Layout("components", (2,), float),
    "position": _Layout("components", (2,), float),
    "orientation": _Layout("components", (), int),
    "fixed": _Layout("components", (), bool, True),
    "side": _Layout("components", (), int),
    "exists": _Layout("components", (), bool, False),
    "target_wirelength": _Layout("components", (), float, np.inf),
    "target_hpwl": _Layout("components", (), float, np.inf),
    "pin_component": _Layout("pins", (), int),
    "pin_offset": _Layout("pins", (2,), float),
    "pin_net": _Layout("pins", (), int, -1),
    "power_rail": _Layout("nets", (), int, -1),
}
STORED = {float: np.float64, int: np.int32, bool: np.bool_}
COMPUTED = {float: jnp.float32, int: jnp.int32, bool: jnp.bool_}


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

    Args:
        outline, size, pin_component, pin_offset, pin_net, power_rail: as in `Board`.
        position: `[N, 2]`; default the board's centre.
        orientation, side: `[N]`; default 0.
        fixed: `[N]`; default false.
        target_wirelength, target_hpwl: `[N]`; default inf, unknown.

    Raises:
        ValueError: what is wrong, at which component, pin or net, and the remedy; see `check`.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    try:
        arrays = {name: np.asarray(value, np.float64) for name, value in given.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"a board needs arrays of numbers: {error}") from None
    arrays = _defaults(arrays) | arrays
    for name, layout in LAYOUT.items():
        if layout.kind is not float and not np.isin(arrays[name] % 1, 0).all():
            raise ValueError(f"{name} holds a fraction; give whole numbers")
    board = Board(**{name: np.array(arrays[name], STORED[layout.kind]) for name, layout in LAYOUT.items()})
    check(board)
    return board


def _defaults(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    parts, outline = np.size(arrays["size"]) // 2, arrays["outline"]
    return dict.fromkeys(("orientation", "side", "fixed"), np.zeros(parts)) | {
        "position": np.broadcast_to(outline / 2, (parts, 2)) if outline.shape == (2,) else np.zeros((parts, 2)),
        "target_wirelength": np.full(parts, np.inf),
        "target_hpwl": np.full(parts, np.inf),
        "exists": np.ones(parts),
    }


def check(board: Board) -> None:
    """Check one board (no leading axes); padding is legal.

    Raises:
        ValueError: one line with what is wrong, at which component, pin or net, and the remedy.
    """
    _check_shapes(board)
    board = jax.tree.map(np.asarray, board)
    outline, exists, net = board.outline, board.exists, board.pin_net
    if not (np.isfinite(outline) & (outline > 0)).all():
        raise ValueError(f"outline is {outline.tolist()}; give a finite width and height above 0")
    _check_components(board)
    _refuse((board.pin_component < 0) | (board.pin_component >= exists.size), "pin {}: component is none of the board")
    _refuse(~np.isfinite(board.pin_offset).all(axis=1), "offset of pin {} is not finite; give two distances")
    _refuse((net < -1) | (net >= board.num_nets), "pin {}: net is none of the board; give its index, or -1 for none")
    _refuse((net >= 0) & ~exists[board.pin_component], "pin {} belongs to a component of padding; set its net to -1")
    _refuse(board.power_rail < -1, "power_rail of net {} is below -1; give 0 for a signal")
    _refuse((net >= 0) & (board.power_rail[net] < 0), "pin {} is on a net of padding (power_rail -1); give it a net")
    if not board.movable.any():
        raise ValueError("every component is fixed; a board needs one that can be moved")


def _check_components(board: Board) -> None:
    size, exists = board.size, board.exists
    _refuse(~(np.isfinite(size) & (size >= 0)).all(axis=1), "size of component {} is not finite and 0 or more")
    _refuse(~np.isfinite(board.position).all(axis=1), "position of component {} is not finite; give its centre")
    _refuse(~np.isin(board.orientation, range(4)), "orientation of component {} is none of 0, 1, 2, 3 quarter turns")
    _refuse(~np.isin(board.side, range(2)), "side of component {} is neither 0 nor 1; give one of them")
    _refuse(~exists & ~board.fixed, "component {} is padding, but not fixed; fix it")
    _refuse(~exists & size.any(axis=1), "component {} is padding, but has a size; make it 0")
    for name in ("target_wirelength", "target_hpwl"):
        _refuse(~(getattr(board, name) >= 0), name + " of component {} is not 0 or more; give inf for unknown")


def _check_shapes(board: Board) -> None:
    counts = {"components": np.size(board.exists), "pins": np.size(board.pin_net), "nets": np.size(board.power_rail)}
    for what, count in counts.items():
        if count == 0:
            raise ValueError(f"a board without {what} has no wire to shorten; give at least one")
    for name, layout in LAYOUT.items():
        shape = (() if layout.axis is None else (counts[layout.axis],)) + layout.inner
        if np.shape(getattr(board, name)) != shape:
            raise ValueError(f"{name} has shape {np.shape(getattr(board, name))}; it needs {shape}")


def _refuse(bad: np.ndarray, message: str) -> None:
    if bad.any():
        raise ValueError(message.format(int(np.argmax(bad))))


def as_float32(board: Board) -> Board:
    """The same board as JAX arrays of the dtypes that environments compute with."""
    return Board(**{name: jnp.asarray(getattr(board, name), COMPUTED[layout.kind]) for name, layout in LAYOUT.items()})


def count_agents(board: Board) -> int:
    """Movable components; of a batch, the most of any board. Not under `jit`."""
    return int(np.asarray(board.movable).sum(axis=-1).max())


def agent_components(board: Board, num_agents: int) -> tuple[jax.Array, jax.Array]:
    """The movable components of one board, in their order; works under `jit` and `vmap`.

    Args:
        board: without leading axes.
        num_agents: A, at least `count_agents`; more than that are left out.

    Returns:
        `i32[A]` component of each agent, 0 where there is none, and `bool[A]`, whether there is one.
    """
    component = jnp.nonzero(board.movable, size=num_agents, fill_value=-1)[0].astype(jnp.int32)
    return jnp.maximum(component, 0), component >= 0


def pad(board: Board, num_components: int, num_pins: int, num_nets: int) -> Board:
    """Add components, pins and nets that count for nothing, up to the given sizes; works on batches and under `vmap`.

    Raises:
        ValueError: the board is larger.
    """
    sizes = {"components": num_components, "pins": num_pins, "nets": num_nets}
    missing = {name: size - getattr(board, f"num_{name}") for name, size in sizes.items()}
    if min(missing.values()) < 0:
        raise ValueError(
            f"a board of {board.num_components} components, {board.num_pins} pins and {board.num_nets} nets does not "
            f"fit into {num_components}, {num_pins} and {num_nets}; make the environment with at least its sizes"
        )
    xp = jnp if isinstance(board.exists, jax.Array) else np
    batch = board.exists.shape[:-1]

    def extend(name: str, layout: _Layout) -> Any:
        array = getattr(board, name)
        if layout.axis is None or not missing[layout.axis]:
            return array
        rows = xp.full((*batch, missing[layout.axis], *layout.inner), layout.padding, array.dtype)
        return xp.concatenate([array, rows], axis=len(batch))

    return Board(**{name: extend(name, layout) for name, layout in LAYOUT.items()})


def trim(board: Board) -> Board:
    """One board without padding and without pins that have no net, as NumPy arrays of the same dtypes."""
    board = jax.tree.map(np.asarray, board)
    kept = {"components": board.exists, "pins": board.pin_net >= 0, "nets": board.power_rail >= 0}
    arrays = {
        name: getattr(board, name) if layout.axis is None else getattr(board, name)[kept[layout.axis]]
        for name, layout in LAYOUT.items()
    }
    for name, axis in (("pin_component", "components"), ("pin_net", "nets")):
        renumbered = np.cumsum(kept[axis], dtype=np.int32) - 1
        arrays[name] = renumbered[arrays[name]].astype(np.int32)
    return Board(**arrays)


def stack(boards: Sequence[Board]) -> Board:
    """A batch `[E]` of boards of any sizes, padded to the largest, as NumPy arrays."""
    sizes = [max(getattr(b, f"num_{name}") for b in boards) for name in ("components", "pins", "nets")]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *(pad(board, *sizes) for board in boards))


def save(path: str | os.PathLike, board: Board) -> None:
    """Write a board, or a batch, as `.npz`; an exact round trip with `load`. Complete, or not at all."""
    save_arrays(path, FORMAT, {name: np.asarray(getattr(board, name)) for name in LAYOUT})


def load(path: str | os.PathLike) -> Board:
    """Read what `save` wrote, as NumPy arrays.

    Raises:
        ValueError: the file is damaged, or something else; one line that names it and the remedy.
        OSError: it cannot be read.
    """
    remedy = "give a file that jaxvrp.envs.pcb.save wrote"
    ranks = {name: len(layout.inner) + (layout.axis is not None) for name, layout in LAYOUT.items()}
    board = Board(**load_arrays(path, FORMAT, ranks, what=f"the format {FORMAT}", remedy=remedy))
    for name, layout in LAYOUT.items():
        if not np.issubdtype(getattr(board, name).dtype, {float: np.floating, int: np.integer}.get(layout.kind, bool)):
            raise ValueError(f"{path}: {name} has dtype {getattr(board, name).dtype}; {remedy}")
    for index in np.ndindex(board.exists.shape[:-1]):
        try:
            check(jax.tree.map(lambda leaf, at=index: leaf[at], board))
        except ValueError as error:
            where = f" (board {', '.join(map(str, index))})" if index else ""
            raise ValueError(f"{path}{where}: {error}") from None
    return board
