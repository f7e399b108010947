"""Reading the `.pcb` text format of RL_PCB (Vassallo & Bajada, 2024)."""

from __future__ import annotations

import dataclasses
import decimal
import os
from collections.abc import Iterator

import numpy as np

from jaxvrp.envs.pcb.problem.board import Board, make_board
from jaxvrp.envs.pcb.problem.netlist import Component, Net, Netlist, PcbFile, Pin
from jaxvrp.io.text_lines import Line, read_lines

WHAT = "a .pcb file: blocks of 'pcb begin' to 'pcb end'"
NODE = (
    *("id", "name", "size_x", "size_y", "pos_x", "pos_y", "orientation", "layer", "locked"),
    *("pins", "pins_smd", "pins_th", "type"),
)
OPTIMAL = ("id", "name", "wirelength", "hpwl")
END = ("component", "index", "pad", "size_x", "size_y", "offset_x", "offset_y", "locked")
EDGE = (*(f"{name} {end}" for end in "ab" for name in END), "net id", "net name", "power_rail")
CORNERS = ("bb_min_x", "bb_min_y", "bb_max_x", "bb_max_y")
UNKNOWN = 1e6
EXACT = decimal.Context(prec=400)


@dataclasses.dataclass
class _Reader:
    """The lines, and how many of them are read."""

    lines: list[Line]
    num_read: int = 0

    def next(self, expected: str) -> Line:
        """The next line; `expected` names it for the error at the end of the file."""
        if self.num_read == len(self.lines):
            raise self.lines[-1].error(f"{expected} after it, found the end of the file", "restore what is missing")
        self.num_read += 1
        return self.lines[self.num_read - 1]

    def mark(self, text: str) -> Line:
        """The next line, which opens or closes a section and must be `text`."""
        line = self.next(f"'{text}'")
        line.expect(line.text == text, f"'{text}', found {line.text[:30]!r}")
        return line

    def rows(self, section: str) -> Iterator[Line]:
        """The lines up to the one that closes the section."""
        while (line := self.next(f"'{section} end'")).text != f"{section} end":
            yield line

    def values(self, names: tuple[str, ...], until: str) -> dict[str, tuple[Line, str]]:
        """Lines of `name=value`, up to the line `until`, which stays to be read."""
        found = {}
        while self.lines[self.num_read : self.num_read + 1] and self.lines[self.num_read].text != until:
            line = self.next(until)
            name, equals, value = line.text.partition("=")
            wanted = f"{' or '.join(f'{name}=...' for name in names)} or '{until}', found {line.text[:30]!r}"
            line.expect(bool(equals) and name in names, wanted)
            line.expect(name not in found, f"{name} once, found it again", "remove one of the two")
            found[name] = (line, value)
        return found


def read_pcb(path: str | os.PathLike) -> PcbFile:
    """Read the boards of a file. Blank lines and indentation do not matter; `hpwl=` is ignored.

    Returns:
        Boards in file order, positions from the corner of their outlines. Components and nets in file order, pins
        ordered by component and pad index. A target of 1000000 or more is unknown, inf.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    reader = _Reader(read_lines(path, WHAT))
    head = reader.values(("filename", "timestamp"), "pcb begin")
    boards: list[Netlist] = []
    while not boards or reader.num_read < len(reader.lines):
        boards.append(_read_board(reader))
    return PcbFile(tuple(boards), head["filename"][1] if "filename" in head else None, _whole(head, "timestamp"))


def _whole(values: dict[str, tuple[Line, str]], name: str) -> int | None:
    if name not in values:
        return None
    line, word = values[name]
    return line.whole(name, word)


def _read_board(reader: _Reader) -> Netlist:
    first = reader.mark("pcb begin")
    head = reader.values((".kicad_pcb", "timestamp", "id"), "graph begin")
    for name in (".kicad_pcb", "timestamp"):
        first.expect(name in head, f"a line '{name}=...' below", "add it")
    reader.mark("graph begin")
    reader.values(("hpwl",), "nodes begin")
    nodes = _read_nodes(reader)
    targets = _read_optimals(reader, nodes)
    edges = _read_edges(reader, nodes)
    reader.mark("graph end")
    corners = _read_corners(reader)
    reader.mark("pcb end")
    try:
        board = _assemble(nodes, targets, edges, corners)
    except ValueError as error:
        raise ValueError(f"{first.path}, line {first.number}: the board that begins here: {error}") from None
    return Netlist(
        board=board,
        components=tuple(
            Component(node, row["name"], *(line.whole(count, row[count]) for count in NODE[9:]))
            for node, (line, row) in nodes.items()
        ),
        pins=tuple(pin.label for _, pin in sorted(edges.pins.items())),
        nets=tuple(net.label for net in edges.nets.values()),
        source=head[".kicad_pcb"][1],
        origin=(float(corners["bb_min_x"]), float(corners["bb_min_y"])),
        timestamp=_whole(head, "timestamp") or 0,
        id=_whole(head, "id"),
    )


def _read_nodes(reader: _Reader) -> dict[int, tuple[Line, dict[str, str]]]:
    """Lines and their fields, by id."""
    nodes = {}
    opening = reader.mark("nodes begin")
    for line in reader.rows("nodes"):
        row = line.fields(NODE)
        node = line.whole("id", row["id"])
        line.expect(node not in nodes, f"a new id, found {node} again", "renumber it")
        for name in ("size_x", "size_y"):
            line.expect(line.real(name, row[name]) >= 0, f"{name} of at least 0, found {row[name]}")
        turns = line.real("orientation", row["orientation"]) / 90
        line.expect(turns.is_integer(), f"an orientation of 0, 90, 180 or 270, found {row['orientation']}")
        for name in ("layer", "locked"):
            line.expect(line.whole(name, row[name]) in (0, 1), f"{name} 0 or 1, found {row[name]}")
        for name in ("pos_x", "pos_y", "pins", "pins_smd", "pins_th", "type"):
            (line.real if name.startswith("pos") else line.whole)(name, row[name])
        nodes[node] = (line, row)
    opening.expect(len(nodes) > 0, "at least one component below", "add it")
    return nodes


def _read_optimals(reader: _Reader, nodes: dict) -> np.ndarray:
    """`[N, 2]` targets, inf for unknown."""
    opening, targets = reader.mark("optimals begin"), {}
    for line in reader.rows("optimals"):
        row = line.fields(OPTIMAL)
        node = line.whole("id", row["id"])
        known = node in nodes and node not in targets and nodes[node][1]["name"] == row["name"]
        line.expect(known, f"each component of the nodes once, found {row['id']},{row['name']}")
        values = [line.real(name, row[name]) for name in OPTIMAL[2:]]
        line.expect(min(values) >= 0, "targets of at least 0")
        targets[node] = [np.inf if value >= UNKNOWN else value for value in values]
    missing = [node for node in nodes if node not in targets]
    opening.expect(not missing, f"a line for each component below, found none for id {missing[:1]}", "add it")
    return np.array([targets[node] for node in nodes])


@dataclasses.dataclass(frozen=True)
class _Pad:
    label: Pin
    offset: tuple[float, float]
    net: int


@dataclasses.dataclass
class _Net:
    line: Line
    label: Net
    power_rail: int
    edges: set


@dataclasses.dataclass(frozen=True)
class _Edges:
    """Pads by (index of the component, index in it), and nets by id."""

    pins: dict[tuple[int, int], _Pad]
    nets: dict[int, _Net]


def _read_edges(reader: _Reader, nodes: dict) -> _Edges:
    components = {
        node: (index, line.whole("locked", row["locked"])) for index, (node, (line, row)) in enumerate(nodes.items())
    }
    opening, edges = reader.mark("edges begin"), _Edges({}, {})
    for line in reader.rows("edges"):
        row = line.fields(EDGE)
        net = _read_net(line, row, edges)
        pair = frozenset(_read_end(line, row, end, components, edges) for end in "ab")
        line.expect(len(pair) == 2, "two different pads, found one twice", "remove the line")
        line.expect(pair not in net.edges, "each pair of pads once, found it again", "remove one of the two")
        net.edges.add(pair)
    for net in edges.nets.values():
        num_pads = len(set().union(*net.edges))
        num_pairs = num_pads * (num_pads - 1) // 2
        net.line.expect(
            len(net.edges) == num_pairs,
            f"{num_pairs} edges between the {num_pads} pads of net {net.label.name}, found {len(net.edges)}",
            "restore the missing lines: every pair of pads has one",
        )
    opening.expect(len(edges.nets) > 0, "at least one edge below", "add it")
    return edges


def _read_net(line: Line, row: dict[str, str], edges: _Edges) -> _Net:
    label = Net(line.whole("net id", row["net id"]), row["net name"])
    net = _Net(line, label, line.whole("power_rail", row["power_rail"], 0), set())
    known = edges.nets.setdefault(label.id, net)
    same = (known.label, known.power_rail) == (label, net.power_rail)
    line.expect(same, f"name and power_rail of net {label.id} as in line {known.line.number}", "make them the same")
    return known


def _read_end(
    line: Line, row: dict[str, str], end: str, components: dict[int, tuple[int, int]], edges: _Edges
) -> tuple[int, int]:
    """Index of the component on the board, and pad index in it, of one end (a or b); its pad is added to the edges.

    `components`: index on the board and `locked`, by id.
    """
    words = {name: row[f"{name} {end}"] for name in END}
    node = line.whole("component", words["component"])
    line.expect(node in components, f"the id of a component, found {node}")
    component, locked = components[node]
    line.expect(line.whole("locked", words["locked"]) == locked, f"locked {locked} for component {node}, as above")
    real = {name: line.real(name, words[name]) for name in ("size_x", "size_y", "offset_x", "offset_y")}
    index = line.whole("index", words["index"], 0)
    pad = _Pad(
        label=Pin(index, words["pad"], real["size_x"], real["size_y"]),
        offset=(real["offset_x"], real["offset_y"]),
        net=line.whole("net id", row["net id"]),
    )
    known = edges.pins.setdefault((component, index), pad)
    line.expect(known == pad, f"pad {index} of component {node} as in the lines above", "make them the same")
    return component, index


def _read_corners(reader: _Reader) -> dict[str, str]:
    opening, corners = reader.mark("board begin"), {}
    for line in reader.rows("board"):
        row = line.fields(("name", "value"))
        line.expect(row["name"] in CORNERS and row["name"] not in corners, f"each of {', '.join(CORNERS)} once")
        line.real(row["name"], row["value"])
        corners[row["name"]] = row["value"]
    opening.expect(len(corners) == len(CORNERS), f"lines of {', '.join(CORNERS)} below", "add what is missing")
    for axis in "xy":
        low, high = float(corners[f"bb_min_{axis}"]), float(corners[f"bb_max_{axis}"])
        opening.expect(high > low, f"bb_max_{axis} above bb_min_{axis}, found {high:g} and {low:g}")
    return corners


def _assemble(nodes: dict, targets: np.ndarray, edges: _Edges, corners: dict[str, str]) -> Board:
    rows = [row for _, row in nodes.values()]
    pads = sorted(edges.pins.items())
    nets = {net: index for index, net in enumerate(edges.nets)}
    return make_board(
        [_minus(corners[f"bb_max_{axis}"], corners[f"bb_min_{axis}"]) for axis in "xy"],
        [(float(row["size_x"]), float(row["size_y"])) for row in rows],
        [component for (component, _), _ in pads],
        [pad.offset for _, pad in pads],
        [nets[pad.net] for _, pad in pads],
        [net.power_rail for net in edges.nets.values()],
        position=[[_minus(row[f"pos_{axis}"], corners[f"bb_min_{axis}"]) for axis in "xy"] for row in rows],
        orientation=[float(row["orientation"]) / 90 % 4 for row in rows],
        fixed=[float(row["locked"]) for row in rows],
        side=[float(row["layer"]) for row in rows],
        target_wirelength=targets[:, 0],
        target_hpwl=targets[:, 1],
    )


def _minus(value: str, origin: str) -> float:
    """The difference of the decimal numbers, so that writing and reading changes no digit."""
    return float(EXACT.subtract(decimal.Decimal(value), decimal.Decimal(origin)))
