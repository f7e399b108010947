"""From the keywords of `jaxvrp.make("pcb", ...)` to the environment: boards read or drawn, padded, wired."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import fields
from jaxvrp.envs.pcb.baselines.annealing import anneal, net_widths
from jaxvrp.envs.pcb.env import MADE_FIELDS, Pcb
from jaxvrp.envs.pcb.measure import measure_parts
from jaxvrp.envs.pcb.problem import generator
from jaxvrp.envs.pcb.problem.board import Board, as_float32, stack
from jaxvrp.envs.pcb.problem.board_files import read_boards, single_boards
from jaxvrp.envs.pcb.problem.instance import Sizes, Targets, Wiring, board_targets, least_sizes, wire
from jaxvrp.envs.pcb.problem.netlist import Netlist
from jaxvrp.io.machine_memory import bytes_of, check_count
from jaxvrp.io.messages import nearest, shown

Tree = TypeVar("Tree")

GENERATED = "generated"
"""The value of `boards` for which boards are drawn."""

GIVEN = "given"
"""How an environment tells of boards that it was given as arrays: these cannot be written down."""

GENERATOR_NAMES = frozenset(field.name for field in dataclasses.fields(generator.Parameters))

RESTARTS = 8
PAIRS = 2**20
"""Boards with so many pairs of parts are drawn and wired in less than a second."""

ANNEALED = 64
"""Boards that are annealed together."""

TARGETS = ("file", "annealing", "unknown")
PARAMETER = "parameter of 'pcb':"

Boards = str | os.PathLike | Board | Sequence[str | os.PathLike | Board]


@dataclasses.dataclass(frozen=True)
class Supply:
    """Which boards an environment draws its problems from, and which targets they get; each field says what it is."""

    targets: str = fields.option(
        "file",
        help="lengths to be reached: those of the files (unknown for generated boards), of the best of a short "
        "annealing, or unknown",
        choices=TARGETS,
    )
    num_boards: int = fields.option(64, help="number of generated boards", minimum=1)
    board_seed: int = fields.option(0, help="seed of generated boards", minimum=0, maximum=2**32 - 1)
    board_index: int | None = fields.option(
        None, help="only this board of those read, from 0; all of them if left out", minimum=0
    )
    annealing_moves: int = fields.option(
        20_000,
        help=f"moves of each of {RESTARTS} restarts of the annealing, for targets: annealing",
        minimum=1,
        maximum=10**7,
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
    supply_values, generator_values, env_values = _sorted_out(parameters)
    supply = fields.build(Supply, supply_values, PARAMETER)
    is_generated = isinstance(boards, str) and boards == GENERATED
    if generator_values and not is_generated:
        raise ValueError(f"{next(iter(generator_values))} is of generated boards; leave it out, or boards")
    generator_parameters = generator.make_parameters(**generator_values)
    for name, value in vars(generator_parameters).items():
        if isinstance(value, np.ndarray | jax.Array):
            raise TypeError(f"{name} is {shown(value)}; the boards of an environment are drawn by one number")
    if is_generated:
        batch = _generated(supply, generator_parameters)
    else:
        batch = stack(_chosen(_read_all(boards), supply.board_index))
    source = {"boards": _written_down(boards), **dataclasses.asdict(supply)}
    if is_generated:
        source |= dataclasses.asdict(generator_parameters)
    return _environment(batch, supply, source, env_values)


def changed(keywords: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `make` after some changes; those of generated boards go with these."""
    merged = {**keywords, **changes}
    void = () if merged.get("boards", GENERATED) == GENERATED else GENERATOR_NAMES - changes.keys()
    return {name: value for name, value in merged.items() if name not in void}


def _sorted_out(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The parameters of `Supply`, of `generator.Parameters`, and of `Pcb`."""
    supply_names = {field.name for field in dataclasses.fields(Supply)}
    env_names = {fields.keyword(field) for field in dataclasses.fields(Pcb)} - set(MADE_FIELDS)
    known = supply_names | GENERATOR_NAMES | env_names
    for name in parameters:
        if name not in known:
            raise ValueError(f"unknown {PARAMETER} {shown(name)}; {nearest(name, known | {'boards'})}")
    return (
        {name: value for name, value in parameters.items() if name in supply_names},
        {name: value for name, value in parameters.items() if name in GENERATOR_NAMES},
        {name: value for name, value in parameters.items() if name in env_names},
    )


def _environment(batch: Board, supply: Supply, source: dict[str, Any], env_values: dict[str, Any]) -> Pcb:
    """The environment of a batch of boards, with their tables and targets."""
    sizes = least_sizes(batch)
    boards = as_float32(batch)
    wirings = _in_pieces(lambda boards: _wire_all(boards, sizes), PAIRS // sizes.components**2, boards)
    values = {
        "boards": boards,
        "wirings": wirings,
        "targets": _targets(boards, wirings, supply),
        "sizes": sizes,
        "source": tuple(source.items()),
        **env_values,
    }
    return fields.build(Pcb, values, PARAMETER)


def _generated(supply: Supply, parameters: generator.Parameters) -> Board:
    """Boards `[B]` as NumPy arrays; refused, with a ValueError, if memory does not hold them and their tables."""
    parts = parameters.max_parts + 1
    if supply.num_boards * parts**2 >= PAIRS:
        board = jax.eval_shape(lambda key: generator.generate(key, parameters), jax.random.key(0))
        check_count("num_boards", supply.num_boards, bytes_of(board) + parts**2)
    keys = jax.random.split(jax.random.key(supply.board_seed), supply.num_boards)
    return jax.device_get(_in_pieces(lambda keys: _generate_all(keys, parameters), PAIRS // parts**2, keys))


def _in_pieces(function: Callable[..., Tree], length: int, *batches: Any) -> Tree:
    """A jitted function of batches `[B, ...]`, at most `length` rows at a time, so that Ctrl-C is heard in between."""
    count, length = len(jax.tree.leaves(batches)[0]), max(1, length)
    if count <= length:
        return function(*batches)
    pieces = []
    for first in range(0, count, length):
        piece = jax.tree.map(lambda leaf, rows=slice(first, first + length): leaf[rows], batches)
        pieces.append(jax.block_until_ready(function(*piece)))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pieces)


@functools.partial(jax.jit, static_argnames="parameters")
def _generate_all(keys: jax.Array, parameters: generator.Parameters) -> Board:
    return jax.vmap(lambda key: generator.generate(key, parameters))(keys)


@functools.partial(jax.jit, static_argnames="sizes")
def _wire_all(boards: Board, sizes: Sizes) -> Wiring:
    return jax.vmap(lambda board: wire(board, sizes))(boards)


def _read_all(boards: Boards) -> list[Board]:
    if isinstance(boards, str | os.PathLike | Board):
        boards = [boards]
    if not isinstance(boards, Sequence) or not boards:
        raise TypeError(f"boards is {boards!r}; it must be 'generated', a file, a Board, or a list of these")
    return [board for entry in boards for board in _read(entry)]


def _read(entry: str | os.PathLike | Board) -> list[Board]:
    if isinstance(entry, Board):
        return single_boards(jax.tree.map(np.asarray, entry))
    if not isinstance(entry, str | os.PathLike):
        raise TypeError(f"boards holds {entry!r}; it must be a file or a Board")
    return [board.board if isinstance(board, Netlist) else board for board in read_boards(entry)]


def _chosen(boards: list[Board], index: int | None) -> list[Board]:
    if index is None:
        return boards
    if index >= len(boards):
        raise ValueError(f"board_index is {index}, but there are {len(boards)} boards, from 0; lower it")
    return [boards[index]]


def _written_down(boards: Boards) -> Any:
    """The keyword `boards` of `make`, where it can be written down."""
    if isinstance(boards, str | os.PathLike):
        return os.fspath(boards)
    if isinstance(boards, Board):
        return GIVEN
    paths = [entry for entry in boards if not isinstance(entry, Board)]
    return tuple(map(os.fspath, paths)) if len(paths) == len(boards) else GIVEN


def _targets(boards: Board, wirings: Wiring, supply: Supply) -> Targets:
    """The targets `[B, A]` of a batch of boards."""
    if supply.targets == "annealing":
        boards = _with_annealed_targets(boards, supply.annealing_moves)
    targets = jax.vmap(board_targets)(boards, wirings)
    if supply.targets == "unknown":
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.inf), targets)
    return targets


def _with_annealed_targets(boards: Board, num_moves: int) -> Board:
    """The boards with the lengths of the best of some annealed placements; unknown where none became legal."""
    widths = net_widths(boards)

    def with_targets(board: Board, key: jax.Array) -> Board:
        found = anneal(board, key, widths=widths, num_moves=num_moves, num_restarts=RESTARTS)
        best = jnp.argmin(found.hpwl)
        wirelength, hpwl = measure_parts(board, found.position[best], found.orientation[best])
        legal = found.legal[best]
        return board.replace(
            target_wirelength=jnp.where(legal, wirelength, jnp.inf),
            target_hpwl=jnp.where(legal, hpwl, jnp.inf),
        )

    keys = jax.random.split(jax.random.key(0), boards.exists.shape[0])
    return _in_pieces(jax.jit(jax.vmap(with_targets)), ANNEALED, boards, keys)
