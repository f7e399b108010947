"""From the keywords of `jaxvrp.make("pcb", ...)` to the environment: boards read or drawn, padded, wired."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.envs.pcb.env import MADE_FIELDS, Pcb
from jaxvrp.envs.pcb.problem import generator
from jaxvrp.envs.pcb.problem.board import Board, as_float32, load, stack
from jaxvrp.envs.pcb.problem.bookshelf import read_bookshelf
from jaxvrp.envs.pcb.problem.instance import Sizes, Wiring, board_targets, least_sizes, wire
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb
from jaxvrp.io.messages import nearest, shown
from jaxvrp.io.problems.problem_files import UnknownFormatError

Tree = TypeVar("Tree")

GENERATED, GIVEN = "generated", "given"
"""The parameter `boards` where boards are drawn, and where they were passed as arrays, which cannot be written down."""

GENERATOR_NAMES = frozenset(field.name for field in dataclasses.fields(generator.Parameters))

PAIRS = 2**20
"""Boards with so many pairs of parts are drawn and wired in less than a second."""

PARAMETER = "parameter of 'pcb':"

Boards = str | os.PathLike | Board | Sequence[str | os.PathLike | Board]


@dataclasses.dataclass(frozen=True)
class Supply:
    """Which boards an environment draws its problems from."""

    num_boards: int = fields.option(64, help="number of generated boards", minimum=1, maximum=10**6)
    board_seed: int = fields.option(0, help="seed of generated boards", minimum=0, maximum=2**32 - 1)
    board_index: int | None = fields.option(
        None, help="only this board of those read, from 0; all of them if left out", minimum=0
    )


def make(*, boards: Boards = GENERATED, **parameters: Any) -> Pcb:
    """The environment `pcb`.

    Args:
        boards: `"generated"`; a file, `.pcb`, `.nodes` (Bookshelf) or `.npz` (from `save`); a `Board`; or a list of
            these. All are padded to the largest.
        **parameters: fields of `Pcb` and of `Supply`; of `generator.Parameters` for generated boards.

    Raises:
        ValueError: a parameter is unknown or out of range, a file is damaged; one line that says which.
        TypeError: a value has the wrong type.
        OSError: a file cannot be read.
    """
    supply_values, generator_values, env_values = _by_owner(parameters)
    supply = fields.build(Supply, supply_values, PARAMETER)
    if isinstance(boards, str) and boards == GENERATED:
        generator_parameters = generator.make_parameters(**generator_values)
        batch = _generated(supply, generator_parameters)
        source = {"boards": boards, **vars(supply), **vars(generator_parameters)}
    else:
        if generator_values:
            raise ValueError(f"{next(iter(generator_values))} is of generated boards; leave it out, or boards")
        batch, written_down = _given(boards, supply.board_index)
        source = {"boards": written_down, **vars(supply)}
    sizes, arrays = least_sizes(batch), as_float32(batch)
    wirings = _in_pieces(lambda boards: _wire_all(boards, sizes), PAIRS // sizes.components**2, arrays)
    made = (arrays, wirings, jax.vmap(board_targets)(arrays, wirings), sizes, tuple(source.items()))
    return fields.build(Pcb, dict(zip(MADE_FIELDS, made, strict=True)) | env_values, PARAMETER)


def changed(keywords: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `make` after some changes; keywords of generated boards go where other boards come."""
    merged = {**keywords, **changes}
    void = () if merged.get("boards", GENERATED) == GENERATED else GENERATOR_NAMES - changes.keys()
    return {name: value for name, value in merged.items() if name not in void}


def _by_owner(parameters: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The parameters of `Supply`, of `generator.Parameters`, and of `Pcb`."""
    supply_names = {field.name for field in dataclasses.fields(Supply)}
    env_names = {fields.keyword(field) for field in dataclasses.fields(Pcb)} - set(MADE_FIELDS)
    known = supply_names | GENERATOR_NAMES | env_names
    for name in parameters:
        if name not in known:
            raise ValueError(f"unknown {PARAMETER} {shown(name)}; {nearest(name, known | {'boards'})}")
    owners = (supply_names, GENERATOR_NAMES, env_names)
    return [{name: value for name, value in parameters.items() if name in names} for names in owners]


def _generated(supply: Supply, parameters: generator.Parameters) -> Board:
    """Boards `[B]` as NumPy arrays."""
    for name, value in vars(parameters).items():
        if isinstance(value, np.ndarray | jax.Array):
            raise TypeError(f"{name} is {shown(value)}; the boards of an environment are drawn by one number")
    keys = jax.random.split(jax.random.key(supply.board_seed), supply.num_boards)
    pieces = PAIRS // (parameters.max_parts + 1) ** 2
    return jax.device_get(_in_pieces(lambda keys: _generate_all(keys, parameters), pieces, keys))


@functools.partial(jax.jit, static_argnames="parameters")
def _generate_all(keys: jax.Array, parameters: generator.Parameters) -> Board:
    return jax.vmap(lambda key: generator.generate(key, parameters))(keys)


@functools.partial(jax.jit, static_argnames="sizes")
def _wire_all(boards: Board, sizes: Sizes) -> Wiring:
    return jax.vmap(lambda board: wire(board, sizes))(boards)


def _in_pieces(function: Callable[..., Tree], length: int, batch: Any) -> Tree:
    """A jitted function of a batch `[B, ...]`, at most `length` rows at a time, so that Ctrl-C is heard in between."""
    pieces, length = [], max(1, length)
    for first in range(0, len(jax.tree.leaves(batch)[0]), length):
        piece = jax.tree.map(lambda leaf, rows=slice(first, first + length): leaf[rows], batch)
        pieces.append(jax.block_until_ready(function(piece)))
    return pieces[0] if len(pieces) == 1 else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pieces)


def _given(boards: Boards, index: int | None) -> tuple[Board, Any]:
    """The boards `[B]` of files and arrays, only that with the index unless it is None; and the keyword `boards`."""
    entries = [boards] if isinstance(boards, str | os.PathLike | Board) else boards
    if not isinstance(entries, Sequence) or not entries:
        raise TypeError(f"boards is {boards!r}; it must be 'generated', a file, a Board, or a list of these")
    found: list[Board] = []
    for entry in entries:
        if not isinstance(entry, str | os.PathLike | Board):
            raise TypeError(f"boards holds {entry!r}; it must be a file or a Board")
        read = _single_boards(jax.tree.map(np.asarray, entry)) if isinstance(entry, Board) else read_boards(entry)
        found += [board.board if isinstance(board, Netlist) else board for board in read]
    if index is not None and index >= len(found):
        raise ValueError(f"board_index is {index}, but there are {len(found)} boards, from 0; lower it")
    paths = [os.fspath(entry) for entry in entries if not isinstance(entry, Board)]
    written_down: Any = paths[0] if isinstance(boards, str | os.PathLike) else tuple(paths)
    written_down = written_down if len(paths) == len(entries) else GIVEN
    return stack(found if index is None else [found[index]]), written_down


def read_boards(path: str | os.PathLike) -> Sequence[Board | Netlist]:
    """The boards of a `.pcb`, `.nodes` (Bookshelf) or `.npz` file, with names where it has them.

    Raises:
        ValueError: a damaged file, or (`UnknownFormatError`) another ending; one line.
        OSError: it cannot be read.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending == ".pcb":
        return read_pcb(path).boards
    if ending == ".nodes":
        return [read_bookshelf(path)]
    if ending != ".npz":
        raise UnknownFormatError(f"boards '{path}' is neither .pcb, .nodes (Bookshelf) nor .npz (jaxvrp.envs.pcb.save)")
    return _single_boards(load(path))


def _single_boards(boards: Board) -> list[Board]:
    """A board by itself, or those of a batch `[B]`."""
    if boards.exists.ndim == 1:
        return [boards]
    return [jax.tree.map(lambda leaf, row=row: leaf[row], boards) for row in range(boards.exists.shape[0])]
