"""Writing the `.pcb` text format of RL_PCB, which `pcb_reader` reads."""

from __future__ import annotations

import decimal
import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxvrp.envs.pcb.problem.netlist import Component, Net, Netlist, PcbFile, Pin
from jaxvrp.envs.pcb.problem.pcb_reader import CORNERS, EXACT, UNKNOWN
from jaxvrp.io.limits import LARGEST
from jaxvrp.io.whole_files import write_whole


def write_pcb(path: str | os.PathLike, file: PcbFile) -> None:
    """Write what `read_pcb` reads back exactly; complete, or not at all.

    Args:
        path: where to; an existing file is replaced.
        file: boards without padding, pins ordered by component and pad index, each net with two pins or more.

    Raises:
        ValueError: the format cannot hold something; one line that names it.
        OSError: the file cannot be written.
    """
    head = [("filename", file.filename), ("timestamp", file.timestamp)]
    lines = [f"{name}={value}" for name, value in head if value is not None]
    for index, netlist in enumerate(file.boards):
        _check_writable(netlist, index)
        lines += _board_lines(netlist)
    _refuse("a file without boards", not file.boards)
    _refuse("a line break or outer space in the file name", not _is_plain(file.filename or ""))
    write_whole(path, lambda partial: partial.write_bytes(("\n".join(lines) + "\n").encode()))


def _board_lines(netlist: Netlist) -> Iterator[str]:
    yield "pcb begin"
    yield f"\t.kicad_pcb={netlist.source}"
    yield f"\ttimestamp={netlist.timestamp}"
    if netlist.id is not None:
        yield f"\tid={netlist.id}"
    yield "\tgraph begin"
    for section, rows in (("nodes", _nodes), ("optimals", _optimals), ("edges", _edges)):
        yield f"\t\t{section} begin"
        yield from ("\t\t\t" + ",".join(map(_word, row)) for row in rows(netlist))
        yield f"\t\t{section} end"
    yield "\tgraph end"
    yield "\tboard begin"
    low = netlist.origin
    corners = (*low, *(_plus(size, start) for size, start in zip(netlist.board.outline, low, strict=True)))
    yield from (f"\t\t{name},{_word(value)}" for name, value in zip(CORNERS, corners, strict=True))
    yield "\tboard end"
    yield "pcb end"


def _nodes(netlist: Netlist) -> Iterator[tuple]:
    board = netlist.board
    for row, part in enumerate(netlist.components):
        position = [_plus(value, start) for value, start in zip(board.position[row], netlist.origin, strict=True)]
        pose = (*board.size[row], *position, 90 * int(board.orientation[row]))
        flags = (int(board.side[row]), int(board.fixed[row]))
        yield (part.id, part.name, *pose, *flags, part.pins, part.pins_smd, part.pins_th, part.type)


def _optimals(netlist: Netlist) -> Iterator[tuple]:
    targets = np.column_stack([netlist.board.target_wirelength, netlist.board.target_hpwl])
    for part, row in zip(netlist.components, np.where(np.isinf(targets), UNKNOWN, targets), strict=True):
        yield (part.id, part.name, *row)


def _edges(netlist: Netlist) -> Iterator[tuple]:
    board = netlist.board
    for index, net in enumerate(netlist.nets):
        ends = [_end(netlist, pin) for pin in np.flatnonzero(board.pin_net == index)]
        for end_a, end_b in itertools.combinations(ends, 2):
            yield (*end_a, *end_b, net.id, net.name, int(board.power_rail[index]))


def _end(netlist: Netlist, pin: np.intp) -> tuple:
    component, label = netlist.board.pin_component[pin], netlist.pins[pin]
    locked = int(netlist.board.fixed[component])
    offset = netlist.board.pin_offset[pin]
    part = netlist.components[component].id
    return (part, label.index, label.name, label.size_x, label.size_y, *offset, locked)


def _plus(value: float, origin: float) -> str:
    """The sum of the decimal numbers, from which the reader takes the origin off again without changing a digit."""
    return f"{EXACT.add(decimal.Decimal(repr(float(value))), decimal.Decimal(repr(float(origin)))):f}"


def _word(value: Any) -> str:
    """A name, quoted where needed, or the shortest text that reads back as the same number."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if set(value) & set('(),"') else value
    return str(value) if isinstance(value, int) else repr(float(value)).removesuffix(".0")


def _is_plain(text: str) -> bool:
    return text == text.strip() and text.isprintable()


def _refuse(what: str, found: bool, where: str = "") -> None:
    if found:
        raise ValueError(f"{where}the .pcb format cannot hold {what}; change it, or use jaxvrp.envs.pcb.save")


def _check_writable(netlist: Netlist, index: int) -> None:
    board, where = netlist.board, f"board {index} ({netlist.source}): "
    if np.ndim(board.exists) != 1:
        raise ValueError(f"{where}exists has shape {np.shape(board.exists)}; write one board of the batch at a time")
    counts = [len(labels) for labels in (netlist.components, netlist.pins, netlist.nets)]
    sizes = [board.num_components, board.num_pins, board.num_nets]
    if counts != sizes:
        raise ValueError(f"{where}names of {counts} components, pins and nets, but {sizes} of them; give each a name")
    pins = [(component, pin.index) for component, pin in zip(board.pin_component.tolist(), netlist.pins, strict=True)]
    degrees = np.bincount(board.pin_net[board.pin_net >= 0], minlength=board.num_nets)
    targets = np.concatenate([board.target_wirelength, board.target_hpwl])
    labels: list[Component | Pin | Net] = [*netlist.components, *netlist.pins, *netlist.nets]
    reasons = {
        "padding; trim it first": not (board.exists.all() and (board.power_rail >= 0).all()),
        "pins without a net": (board.pin_net < 0).any(),
        "nets with a single pin": (degrees < 2).any(),
        "pins that are not ordered by component and pad index": any(b <= a for a, b in itertools.pairwise(pins)),
        "components or nets with the same id": any(
            len({label.id for label in group}) < len(group) for group in (netlist.components, netlist.nets)
        ),
        "known targets of 1000000 or more": (np.isfinite(targets) & (targets >= UNKNOWN)).any(),
        "line breaks or outer spaces in names": not all(
            map(_is_plain, [netlist.source, *(label.name for label in labels)])
        ),
        f"numbers of {LARGEST:g} or more": not all((np.abs(n) < LARGEST).all() for n in _numbers(netlist)),
    }
    for reason, found in reasons.items():
        _refuse(reason, bool(found), where)


def _numbers(netlist: Netlist) -> list[np.ndarray]:
    board = netlist.board
    copper = [(pin.size_x, pin.size_y) for pin in netlist.pins]
    lengths = (board.outline, board.position, board.size, board.pin_offset, copper, netlist.origin)
    return [np.asarray(n) for n in lengths]
