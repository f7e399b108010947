"""Boards together with the names that their files give to parts, pins and nets."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np

from jaxvrp.envs.pcb.problem.board import Board


class Drawn(NamedTuple):
    """A part at an angle that is no quarter turn: size in mm at 0 degrees, and degrees."""

    size_x: float
    size_y: float
    degrees: float


@dataclasses.dataclass(frozen=True)
class Component:
    """What a file says of a component beyond the board: identity, and counts of all its pins, connected or not.

    Also its layer, where that is not the number of the side, and how it is `drawn`, where the board has its bounding
    box instead.
    """

    id: int
    name: str
    pins: int
    pins_smd: int
    pins_th: int
    type: int = -1
    layer: int | None = None
    drawn: Drawn | None = None


@dataclasses.dataclass(frozen=True)
class Pin:
    """Index within the component (from 0), name, and copper size in mm at orientation 0."""

    index: int
    name: str
    size_x: float = 0.0
    size_y: float = 0.0


@dataclasses.dataclass(frozen=True)
class Net:
    """Identity and name of a net."""

    id: int
    name: str


@dataclasses.dataclass(frozen=True)
class Netlist:
    """A board and its names; one component, pin and net for each of the board's, in its order."""

    board: Board  # NumPy arrays, one board without padding
    components: tuple[Component, ...]
    pins: tuple[Pin, ...]
    nets: tuple[Net, ...]
    source: str  # name of the file or circuit that the board comes from
    origin: tuple[float, float] = (0.0, 0.0)  # the outline's corner in the sheet, mm; positions are relative to it
    timestamp: int = 0  # Unix seconds
    id: int | None = None  # of the board, if it has one


@dataclasses.dataclass(frozen=True)
class PcbFile:
    """What a `.pcb` file holds: boards with their names, and its own name and Unix time where it has them."""

    boards: tuple[Netlist, ...]
    filename: str | None = None
    timestamp: int | None = None


def make_netlist(
    board: Board,
    source: str = "board",
    component_names: tuple[str, ...] | None = None,
    net_names: tuple[str, ...] | None = None,
) -> Netlist:
    """A board with names, by default part0, part1, ... and net0, net1, ...; pins are numbered in their order."""
    board = jax.tree.map(np.asarray, board)
    counts, pins = [0] * board.num_components, []
    for component in board.pin_component.tolist():
        pins.append(Pin(counts[component], str(counts[component] + 1)))
        counts[component] += 1
    component_names = component_names or tuple(f"part{row}" for row in range(board.num_components))
    net_names = net_names or tuple(f"net{row}" for row in range(board.num_nets))
    named = enumerate(zip(component_names, counts, strict=True))
    components = tuple(Component(row, name, count, count, 0) for row, (name, count) in named)
    nets = tuple(Net(row, name) for row, name in enumerate(net_names, 1))
    return Netlist(board, components, tuple(pins), nets, source)
