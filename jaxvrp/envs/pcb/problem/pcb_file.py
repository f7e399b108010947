"""The `.pcb` text format of RL_PCB (Vassallo & Bajada, 2024), read and written."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxvrp.envs.pcb.problem.board import MOST, make_board
from jaxvrp.envs.pcb.problem.netlist import Component, Drawn, Net, Netlist, PcbFile, Pin
from jaxvrp.io.limits import LARGEST
from jaxvrp.io.text_lines import Line, read_lines
from jaxvrp.io.whole_files import write_whole

NODE = (
    *("id", "name", "size_x", "size_y", "pos_x", "pos_y", "orientation", "layer", "locked"),
    *("pins", "pins_smd", "pins_th", "type"),
)
OPTIMAL = ("id", "name", "wirelength", "hpwl")
END = ("component", "index", "pad", "size_x", "size_y", "offset_x", "offset_y", "locked")
EDGE = (*(f"{name} {end}" for end in "ab" for name in END), "net id", "net name", "power_rail")
CORNERS = ("bb_min_x", "bb_min_y", "bb_max_x", "bb_max_y")
# The fields that are no whole numbers; of places, every digit is kept.
TEXTS = {"filename", ".kicad_pcb", "name", "pad", "net name"}
PLACES = {"pos_x", "pos_y", *CORNERS}
LENGTHS = {"size_x", "size_y", "offset_x", "offset_y", "orientation", "wirelength", "hpwl"}
UNREAD = {"locked a", "locked b"}
"""Fields of edges that many programs fill with 0, whatever the component's line says."""
BACK = 31
"""The layer of side 1 as KiCad counts."""
UNKNOWN = 1e6
EXACT = decimal.Context(prec=400)
DIGITS = 9
"""To which offsets in mm are rounded that are turned back, so that they are written as they were read."""
CANNOT_HOLD = "the .pcb format cannot hold {}; change it, or use jaxvrp.envs.pcb.save"


def read_pcb(path: str | os.PathLike) -> PcbFile:
    """Read the boards of a file. Blank lines and indentation do not matter; `hpwl=` is ignored.

    Whether a component is locked stands in its own line; edges repeat it, and are not asked. Without `optimals`, all
    targets are unknown. Parts are played at quarter turns: one that can be moved begins at the nearest, and of one that
    is locked at another angle the board has the bounding box.

    Returns:
        Boards in file order, positions from the corner of their outlines. Components and nets in file order, pins
        ordered by component and pad index. A target of 1000000 or more is unknown, inf.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    reader = _Reader(read_lines(path, "a .pcb file: blocks of 'pcb begin' to 'pcb end'"))
    head = reader.values(("filename", "timestamp"), "pcb begin")
    boards: list[Netlist] = []
    while not boards or reader.num_read < len(reader.lines):
        boards.append(_read_board(reader))
    return PcbFile(tuple(boards), head.get("filename"), head.get("timestamp"))


@dataclasses.dataclass
class _Reader:
    """The lines, and how many of them are read."""

    lines: list[Line]
    num_read: int = 0

    def next(self, expected: str) -> Line:
        if self.num_read == len(self.lines):
            raise self.lines[-1].error(f"{expected} after it, found the end of the file", "restore what is missing")
        self.num_read += 1
        return self.lines[self.num_read - 1]

    def mark(self, text: str) -> Line:
        """The next line, which opens or closes a section and must be `text`."""
        line = self.next(f"'{text}'")
        line.expect(line.keyword == text, f"'{text}', found {line.text[:30]!r}")
        return line

    def precedes(self, text: str) -> bool:
        """Whether the next line is `text`."""
        return any(line.keyword == text for line in self.lines[self.num_read : self.num_read + 1])

    def rows(self, section: str) -> Iterator[Line]:
        """The lines up to the one that closes the section."""
        while (line := self.next(f"'{section} end'")).keyword != f"{section} end":
            yield line

    def values(self, names: tuple[str, ...], until: str) -> dict[str, Any]:
        """Values of the lines `name=value` up to the line `until`, which stays to be read."""
        found: dict[str, Any] = {}
        while self.num_read < len(self.lines) and not self.precedes(until):
            line = self.next(until)
            name, equals, word = line.text.partition("=")
            name, word = name.strip().lower(), word.strip()
            wanted = f"{' or '.join(f'{name}=...' for name in names)} or '{until}', found {line.text[:30]!r}"
            line.expect(bool(equals) and name in names, wanted)
            line.expect(name not in found, f"{name} once, found it again", "remove one of the two")
            found[name] = None if name == "hpwl" else _reading(name)(line, word)
        return found


def _row(line: Line, names: tuple[str, ...]) -> dict[str, Any]:
    """The values of a line with commas."""
    return {name: _reading(name)(line, word) for name, word in line.fields(names).items()}


@functools.cache
def _reading(field: str) -> Callable[[Line, str], Any]:
    """How the value of a field is read from its line and word."""
    name = field.removesuffix(" a").removesuffix(" b")
    if field in UNREAD:
        return lambda line, word: None
    if name in TEXTS:
        return lambda line, word: word
    if name in PLACES:
        return lambda line, word: line.exact(name, word)
    if name in LENGTHS:
        return lambda line, word: line.real(name, word)
    least = 0 if name in ("index", "power_rail") else None
    return lambda line, word: line.whole(name, word, least)


class _Net(NamedTuple):
    line: Line  # its first
    label: Net
    power_rail: int
    edges: set  # pairs of pads that are joined so far


class _Pad(NamedTuple):
    label: Pin
    offset: tuple[float, float]  # mm
    net: int  # id


Nodes = dict[int, dict[str, Any]]  # by id: the values of a component's line, and its `index` on the board
Pads = dict[tuple[int, int], _Pad]  # by the index of the component on the board, and that of the pad on the component


def _read_board(reader: _Reader) -> Netlist:
    first = reader.mark("pcb begin")
    head = reader.values((".kicad_pcb", "timestamp", "id"), "graph begin")
    for name in (".kicad_pcb", "timestamp"):
        first.expect(name in head, f"a line '{name}=...' below", "add it")
    reader.mark("graph begin")
    reader.values(("hpwl",), "nodes begin")
    nodes = _read_nodes(reader)
    targets = _read_optimals(reader, nodes) if reader.precedes("optimals begin") else np.full((len(nodes), 2), np.inf)
    pads, nets = _read_edges(reader, nodes)
    reader.mark("graph end")
    corners = _read_corners(reader)
    reader.mark("pcb end")
    rows, pads_in_order, net_index = nodes.values(), sorted(pads.items()), {net: at for at, net in enumerate(nets)}
    try:
        board = make_board(
            [_minus(corners[f"bb_max_{axis}"], corners[f"bb_min_{axis}"]) for axis in "xy"],
            [row["size"] for row in rows],
            [component for (component, _), _ in pads_in_order],
            [pad.offset for _, pad in pads_in_order],
            [net_index[pad.net] for _, pad in pads_in_order],
            [net.power_rail for net in nets.values()],
            position=[[_minus(row[f"pos_{axis}"], corners[f"bb_min_{axis}"]) for axis in "xy"] for row in rows],
            orientation=[row["quarters"] for row in rows],
            fixed=[row["locked"] for row in rows],
            side=[row["layer"] != 0 for row in rows],
            target_wirelength=targets[:, 0],
            target_hpwl=targets[:, 1],
        )
    except ValueError as error:
        raise ValueError(f"{first.path}, line {first.number}: the board that begins here: {error}") from None
    return Netlist(
        board=board,
        components=tuple(_component(row) for row in rows),
        pins=tuple(pad.label for _, pad in pads_in_order),
        nets=tuple(net.label for net in nets.values()),
        source=head[".kicad_pcb"],
        origin=(float(corners["bb_min_x"]), float(corners["bb_min_y"])),
        timestamp=head["timestamp"],
        id=head.get("id"),
    )


def _read_nodes(reader: _Reader) -> Nodes:
    nodes: Nodes = {}
    names: set[str] = set()
    opening = reader.mark("nodes begin")
    for line in reader.rows("nodes"):
        row = _row(line, NODE)
        line.expect(len(nodes) < MOST["components"], f"at most {MOST['components']} components", "give a smaller board")
        line.expect(row["id"] not in nodes, f"a new id, found {row['id']} again", "renumber it")
        line.expect(row["name"] not in names, f"a new name, found {row['name']!r} again", "rename it")
        names.add(row["name"])
        for name in ("size_x", "size_y"):
            line.expect(row[name] >= 0, f"{name} of at least 0, found {row[name]}")
        line.expect(row["locked"] in (0, 1), f"locked 0 or 1, found {row['locked']}")
        line.expect(row["layer"] in (0, 1, BACK), f"layer 0 or 1, found {row['layer']}")
        nodes[row["id"]] = {**row, **_pose(row), "index": len(nodes)}
    opening.expect(len(nodes) > 0, "at least one component below", "add it")
    return nodes


def _pose(row: dict[str, Any]) -> dict[str, Any]:
    """`size` and `quarters` of a part on the board, and how it is `drawn` where that is a bounding box."""
    size, degrees = (row["size_x"], row["size_y"]), row["orientation"]
    if degrees % 90 == 0 or not row["locked"]:
        return {"size": size, "quarters": round(degrees / 90) % 4, "drawn": None}
    (x, y), (cos, sin) = size, (abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees))))
    return {"size": (x * cos + y * sin, x * sin + y * cos), "quarters": 0, "drawn": Drawn(*size, degrees)}


def _component(row: dict[str, Any]) -> Component:
    given = {name: row[name] for name in ("id", "name", *NODE[9:], "drawn")}
    return Component(**given, layer=row["layer"] if row["layer"] == BACK else None)


def _turned(offset: tuple[float, float], degrees: float) -> tuple[float, float]:
    """An offset in mm, turned counter-clockwise on screen."""
    (x, y), angle = offset, math.radians(degrees)
    return x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)


def _read_optimals(reader: _Reader, nodes: Nodes) -> np.ndarray:
    """`[N, 2]` targets, inf for unknown."""
    opening, targets = reader.mark("optimals begin"), {}
    for line in reader.rows("optimals"):
        row = _row(line, OPTIMAL)
        node, name = row["id"], row["name"]
        known = node in nodes and node not in targets and nodes[node]["name"] == name
        line.expect(known, f"each component of the nodes once, found {node},{name!r}")
        values = (row["wirelength"], row["hpwl"])
        line.expect(min(values) >= 0, "targets of at least 0")
        targets[node] = [np.inf if value >= UNKNOWN else value for value in values]
    missing = [node for node in nodes if node not in targets]
    opening.expect(not missing, f"a line for each component below, found none for id {missing[:1]}", "add it")
    return np.array([targets[node] for node in nodes])


def _read_edges(reader: _Reader, nodes: Nodes) -> tuple[Pads, dict[int, _Net]]:
    """Pads, and nets by id."""
    opening = reader.mark("edges begin")
    pads: Pads = {}
    nets: dict[int, _Net] = {}
    ids: dict[str, int] = {}  # of nets, by name
    for line in reader.rows("edges"):
        row = _row(line, EDGE)
        label, rail = Net(row["net id"], row["net name"]), row["power_rail"]
        net = nets.setdefault(label.id, _Net(line, label, rail, set()))
        same = (net.label, net.power_rail) == (label, rail)
        line.expect(same, f"name and power_rail of net {label.id} as in line {net.line.number}", "make them the same")
        is_new = ids.setdefault(label.name, label.id) == label.id
        line.expect(is_new, f"a new name for net {label.id}, found {label.name!r} again", "rename it")
        pair = frozenset(_read_end(line, row, end, nodes, pads) for end in "ab")
        line.expect(len(pads) <= MOST["pins"], f"at most {MOST['pins']} pads", "give a smaller board")
        line.expect(len(pair) == 2, "two different pads, found one twice", "remove the line")
        line.expect(pair not in net.edges, "each pair of pads once, found it again", "remove one of the two")
        net.edges.add(pair)
    for net in nets.values():
        joined, found = len(set().union(*net.edges)), len(net.edges)
        pairs = joined * (joined - 1) // 2
        wanted = f"{pairs} edges between the {joined} pads of net {net.label.name!r}, found {found}"
        net.line.expect(found == pairs, wanted, "restore the missing lines: every pair of pads has one")
    opening.expect(len(nets) > 0, "at least one edge below", "add it")
    return pads, nets


def _read_end(line: Line, row: dict[str, Any], end: str, nodes: Nodes, pads: Pads) -> tuple[int, int]:
    """The key of the pad at one end (a or b) of an edge; the pad is added to the others."""
    id, index, name, size_x, size_y, *offset = (row[f"{field} {end}"] for field in END[:-1])
    line.expect(id in nodes, f"the id of a component, found {id}")
    drawn = nodes[id]["drawn"]
    x, y = _turned((offset[0], offset[1]), drawn.degrees) if drawn else offset
    pad, key = _Pad(Pin(index, name, size_x, size_y), (x, y), row["net id"]), (nodes[id]["index"], index)
    line.expect(
        pads.setdefault(key, pad) == pad, f"pad {index} of component {id} as in the lines above", "make them the same"
    )
    return key


def _read_corners(reader: _Reader) -> dict[str, decimal.Decimal]:
    opening, corners = reader.mark("board begin"), dict[str, decimal.Decimal]()
    for line in reader.rows("board"):
        name, word = line.fields(("name", "value")).values()
        name = name.lower()
        line.expect(name in CORNERS and name not in corners, f"each of {', '.join(CORNERS)} once")
        corners[name] = _reading(name)(line, word)
    opening.expect(len(corners) == len(CORNERS), f"lines of {', '.join(CORNERS)} below", "add what is missing")
    for axis in "xy":
        low, high = float(corners[f"bb_min_{axis}"]), float(corners[f"bb_max_{axis}"])
        opening.expect(high > low, f"bb_max_{axis} above bb_min_{axis}, found {high:g} and {low:g}")
    return corners


def _minus(value: decimal.Decimal, origin: decimal.Decimal) -> float:
    """The difference of the decimal numbers, so that writing and reading changes no digit."""
    return float(EXACT.subtract(value, origin))


def write_pcb(path: str | os.PathLike, file: PcbFile) -> None:
    """Write what `read_pcb` reads back exactly; complete, or not at all.

    Args:
        path: where to; an existing file is replaced.
        file: boards without padding, pins ordered by component and pad index, each net with two pins or more.

    Raises:
        ValueError: the format cannot hold something; one line that names it.
        OSError: the file cannot be written.
    """
    if not file.boards:
        raise ValueError(CANNOT_HOLD.format("a file without boards"))
    if not _is_plain(file.filename or ""):
        raise ValueError(CANNOT_HOLD.format("a line break or outer space in the file name"))
    head = [("filename", file.filename), ("timestamp", file.timestamp)]
    lines = [f"{name}={value}" for name, value in head if value is not None]
    for index, netlist in enumerate(file.boards):
        _check_writable(netlist, f"board {index} ({netlist.source!r}): ")
        lines += _board_lines(netlist)
    write_whole(path, lambda partial: partial.write_bytes(("\n".join(lines) + "\n").encode()))


def _check_writable(netlist: Netlist, where: str) -> None:
    board = netlist.board
    if np.ndim(board.exists) != 1:
        raise ValueError(f"{where}exists has shape {np.shape(board.exists)}; write one board of the batch at a time")
    counts = [len(labels) for labels in (netlist.components, netlist.pins, netlist.nets)]
    sizes = [board.num_components, board.num_pins, board.num_nets]
    if counts != sizes:
        raise ValueError(f"{where}names of {counts} components, pins and nets, but {sizes} of them; give each a name")
    pins = [(component, pin.index) for component, pin in zip(board.pin_component.tolist(), netlist.pins, strict=True)]
    degrees = np.bincount(board.pin_net[board.pin_net >= 0], minlength=board.num_nets)
    targets = np.concatenate([board.target_wirelength, board.target_hpwl])
    ids = [[label.id for label in group] for group in (netlist.components, netlist.nets)]
    label_names = [[label.name for label in group] for group in (netlist.components, netlist.nets)]
    labels: list[Component | Pin | Net] = [*netlist.components, *netlist.pins, *netlist.nets]
    names = [netlist.source, *(label.name for label in labels)]
    copper = [(pin.size_x, pin.size_y) for pin in netlist.pins]
    lengths = (board.outline, board.position, board.size, board.pin_offset, copper, netlist.origin)
    reasons = {
        "padding; trim it first": not (board.exists.all() and (board.power_rail >= 0).all()),
        "pins without a net": (board.pin_net < 0).any(),
        "nets with a single pin": (degrees < 2).any(),
        "pins that are not ordered by component and pad index": any(b <= a for a, b in itertools.pairwise(pins)),
        "components or nets with the same id": any(len(set(group)) < len(group) for group in ids),
        "components or nets with the same name": any(len(set(group)) < len(group) for group in label_names),
        "known targets of 1000000 or more": (np.isfinite(targets) & (targets >= UNKNOWN)).any(),
        "line breaks or outer spaces in names": not all(map(_is_plain, names)),
        f"numbers of {LARGEST:g} or more": not all((np.abs(np.asarray(n)) < LARGEST).all() for n in lengths),
    }
    for reason, found in reasons.items():
        if found:
            raise ValueError(where + CANNOT_HOLD.format(reason))


def _is_plain(text: str) -> bool:
    return text == text.strip() and text.isprintable()


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
    corners = (*netlist.origin, *in_sheet(netlist.board.outline, netlist.origin))
    yield from (f"\t\t{name},{_word(value)}" for name, value in zip(CORNERS, corners, strict=True))
    yield "\tboard end"
    yield "pcb end"


def _nodes(netlist: Netlist) -> Iterator[tuple]:
    board = netlist.board
    for row, part in enumerate(netlist.components):
        *size, degrees = part.drawn or (*board.size[row], 90 * int(board.orientation[row]))
        pose = (*size, *in_sheet(board.position[row], netlist.origin), degrees)
        side = int(board.side[row])
        flags = (part.layer if side and part.layer else side, int(board.fixed[row]))
        yield (part.id, part.name, *pose, *flags, part.pins, part.pins_smd, part.pins_th, part.type)


def _optimals(netlist: Netlist) -> Iterator[tuple]:
    targets = np.column_stack([netlist.board.target_wirelength, netlist.board.target_hpwl])
    for part, row in zip(netlist.components, np.where(np.isinf(targets), UNKNOWN, targets), strict=True):
        yield (part.id, part.name, *row)


def _edges(netlist: Netlist) -> Iterator[tuple]:
    board = netlist.board
    for index, net in enumerate(netlist.nets):
        ends = []
        for pin in np.flatnonzero(board.pin_net == index):
            label, component = netlist.pins[pin], board.pin_component[pin]
            copper = (label.index, label.name, label.size_x, label.size_y)
            part, offset = netlist.components[component], board.pin_offset[pin]
            if part.drawn:
                offset = np.round(_turned(offset, -part.drawn.degrees), DIGITS)
            ends.append((part.id, *copper, *offset, int(board.fixed[component])))
        for end_a, end_b in itertools.combinations(ends, 2):
            yield (*end_a, *end_b, net.id, net.name, int(board.power_rail[index]))


def in_sheet(place: np.ndarray, origin: tuple[float, float]) -> list[str]:
    """A place `[2]` in the coordinates of the file, in mm: the sums of the decimal numbers.

    From these the reader takes the origin off again without changing a digit.
    """
    pairs = zip(map(float, place), map(float, origin), strict=True)
    return [f"{EXACT.add(decimal.Decimal(repr(value)), decimal.Decimal(repr(start))):f}" for value, start in pairs]


def _word(value: Any) -> str:
    """A name, quoted where needed, or the shortest text that reads back as the same number."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if set(value) & set('(),"') else value
    return str(value) if isinstance(value, int) else repr(float(value)).removesuffix(".0")
