"""Boards in Bookshelf form, as the Cypress benchmark has them: `.nodes`, `.nets` and `.pl` beside each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxvrp.envs.pcb.problem.board import MOST, make_board
from jaxvrp.envs.pcb.problem.netlist import Netlist, make_netlist
from jaxvrp.io.text_lines import Line, read_lines

SIDES = {"N": 0, "FN": 1}

PIN = ("part", "B", ":", "0", "0")
"""What of a pin may be left out, from the second word on: its direction, which is not read, and its offset."""

FIXED = ("terminal", "/fixed")
"""What marks a part that may not be moved, in small letters: the first in `.nodes`, the second in `.pl`."""

NO_IMAGE = "_ni"
"""Behind either: a part that is in nobody's way."""


class _Node(NamedTuple):
    """A part of a `.nodes` file."""

    width: float
    height: float
    mark: str


class _Place(NamedTuple):
    """A part's lower left corner and side in a `.pl` file."""

    x: float
    y: float
    side: int
    mark: str


def read_bookshelf(
    path: str | os.PathLike, *, outline: tuple[float, float] | None = None, units_per_mm: float = 10.0
) -> Netlist:
    """Read a board with its names; `.nets` and `.pl` lie beside the `.nodes` file and share its stem.

    Bookshelf's y points up; the board's points down, so it is the picture that is kept. Every net is a signal, as the
    files say nothing else. One without a name is called `net 3`, say, by its number, counted from 0. A pin without an
    offset is in the centre. Parts that are `terminal` or `/FIXED` may not be moved; those that end in `_NI` obstruct
    nothing, and have no size. Sizes and offsets are as placed, so every orientation is 0. Pins are ordered by
    component.

    Args:
        path: the `.nodes` file.
        outline: width and height in the file's units; default: those in `canvas.csv` of the same folder.
        units_per_mm: the file's units in a millimetre.

    Raises:
        ValueError: a file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: one cannot be read.
    """
    path = Path(path)
    nodes = _read_nodes(path)
    width, height = outline or _read_canvas(path.with_name("canvas.csv"), path.stem)
    by_name = _read_places(path.with_suffix(".pl"), nodes)
    nets, pins = _read_nets(path.with_suffix(".nets"), {name: index for index, name in enumerate(nodes)})
    places = [by_name[name] for name in nodes]
    marks = [node.mark + place.mark for node, place in zip(nodes.values(), places, strict=True)]
    size = np.array([(node.width, node.height) for node in nodes.values()])
    left, bottom = np.array([(place.x, place.y) for place in places]).T
    component, net, x, y = np.array(sorted(pins, key=lambda pin: pin[0])).T
    centre = np.column_stack([left, bottom]) + size / 2
    board = make_board(
        np.array([width, height]) / units_per_mm,
        size / units_per_mm * np.array([[NO_IMAGE not in mark] for mark in marks]),
        component,
        np.column_stack([x, 0 - y]) / units_per_mm,
        net,
        np.zeros(len(nets)),
        position=np.column_stack([centre[:, 0], height - centre[:, 1]]) / units_per_mm,
        fixed=[mark != "" for mark in marks],
        side=[place.side for place in places],
    )
    return make_netlist(board, path.stem, tuple(nodes), tuple(nets))


def _read_canvas(path: Path, stem: str) -> tuple[float, float]:
    remedy = f"add a line for {stem}, or give outline=(width, height)"
    if not path.exists():
        raise ValueError(f"{path} does not exist: expected the size of {stem} there; write it, or give outline=...")
    header, *rows = read_lines(path, "a table of canvas sizes")
    names = [name.lower() for name in header.separated()]
    wanted = ("board", "canvas_width", "canvas_height")
    header.expect(set(wanted) <= set(names), f"the columns {', '.join(wanted)}", remedy)
    header.expect("".join(names).isprintable(), f"the columns {', '.join(wanted)}, printable", remedy)
    for line in rows:
        row = line.fields(tuple(names))
        if row["board"] == stem:
            width, height = (line.real(name, row[name]) for name in wanted[1:])
            line.expect(min(width, height) > 0, f"a size above 0, found {width:g} x {height:g}")
            return width, height
    raise header.error(f"a line for {stem} below", remedy)


def _content(path: Path, kind: str) -> tuple[Line, dict[str, tuple[Line, int]], list[tuple[Line, list[str]]]]:
    """The head line, declared counts `Num... : n` by name in small letters, and the other lines with their words."""
    head, *lines = read_lines(path, f"a Bookshelf file of {kind}")
    head.expect(head.keyword.startswith(f"ucla {kind}"), f"'UCLA {kind} 1.0'", f"give a Bookshelf file of {kind}")
    counts, content = {}, []
    for line in lines:
        words = line.text.replace(":", " : ").split()
        if words[0].lower().startswith("num") and ":" in words[1:2]:
            is_count = len(words) == 3 and words[1] == ":" and words[0].isprintable()
            line.expect(is_count, f"{f'{words[0]} : count'!r}")
            counts[words[0].lower()] = (line, line.whole(words[0], words[2], 0))
        elif not words[0].startswith("#"):
            content.append((line, words))
    return head, counts, content


def _check_count(head: Line, counts: dict[str, tuple[Line, int]], name: str, found: int) -> None:
    head.expect(name.lower() in counts, f"a line '{name} : {found}' below", "add it")
    line, count = counts[name.lower()]
    line.expect(count == found, f"as many as are there, {found}, found {count}", "restore the missing lines, or this")


def _unmarked(words: list[str]) -> tuple[list[str], str]:
    """The words without the last if that marks a fixed part, and this mark in small letters, or nothing."""
    mark = words[-1].lower()
    return (words[:-1], mark) if mark.removesuffix(NO_IMAGE) in FIXED and len(words) > 1 else (words, "")


def _read_nodes(path: Path) -> dict[str, _Node]:
    """The parts by name."""
    head, counts, content = _content(path, "nodes")
    nodes: dict[str, _Node] = {}
    for line, marked in content:
        words, mark = _unmarked(marked)
        line.expect(len(nodes) < MOST["components"], f"at most {MOST['components']} parts", "give a smaller board")
        row = line.fields(("name", "width", "height"), words)
        line.expect(row["name"] not in nodes, f"a new name, found {row['name']!r} again", "rename it")
        size = (line.real("width", row["width"]), line.real("height", row["height"]))
        line.expect(min(size) >= 0, f"a size of at least 0, found {size[0]:g} x {size[1]:g}")
        nodes[row["name"]] = _Node(*size, mark)
    _check_count(head, counts, "NumNodes", len(nodes))
    head.expect(len(nodes) > 0, "at least one part below", "add it")
    return nodes


def _read_places(path: Path, nodes: dict[str, _Node]) -> dict[str, _Place]:
    """The places by name."""
    head, _, content = _content(path, "pl")
    places: dict[str, _Place] = {}
    for line, marked in content:
        words, mark = _unmarked(marked)
        row = line.fields(("name", "x", "y", ":", "side"), [*words, ":", "N"] if len(words) == 3 else words)
        name = row["name"]
        line.expect(name in nodes, f"a part of the .nodes file, found {name!r}", "correct the name, or add the part")
        line.expect(name not in places, f"each part once, found {name!r} again", "remove one of the lines")
        line.expect(row[":"] == ":", f"':' before the side, found {row[':']!r}")
        line.expect(row["side"] in SIDES, f"side {' or '.join(SIDES)}, found {row['side']!r}")
        places[name] = _Place(line.real("x", row["x"]), line.real("y", row["y"]), SIDES[row["side"]], mark)
    missing = [name for name in nodes if name not in places]
    head.expect(not missing, f"a place for each part, found none for {missing[:1]}", "add its line")
    return places


def _read_nets(path: Path, index: dict[str, int]) -> tuple[list[str], list[tuple[int, int, float, float]]]:
    """Names of the nets, and for each pin the indices of component and net, and the offset (y up)."""
    head, counts, content = _content(path, "nets")
    nets: list[str] = []
    names: set[str] = set()
    pins: list[tuple[int, int, float, float]] = []
    degrees: list[list[Any]] = []
    for line, words in content:
        if words[0].lower() == "netdegree":
            # No name in the file has a space in it.
            named = [*words, f"net {len(nets)}"] if len(words) == 3 else words
            row = line.fields(("NetDegree", ":", "degree", "name"), named)
            line.expect(row["name"] not in names, f"a new name, found {row['name']!r} again", "rename it")
            names.add(row["name"])
            nets.append(row["name"])
            degrees.append([line, line.whole("degree", row["degree"], 1), 0])
            continue
        # A part may stand there alone, or with nothing but the direction.
        is_central = len(words) <= 2 or words[2:] == [":"]
        row = line.fields(("part", "direction", ":", "x", "y"), [*words, *PIN[len(words) :]] if is_central else words)
        line.expect(len(pins) < MOST["pins"], f"at most {MOST['pins']} pins", "give a smaller board")
        line.expect(len(nets) > 0, "'NetDegree : degree name' before the first pin", "add it")
        line.expect(row["part"] in index, f"a part of the .nodes file, found {row['part']!r}", "correct the name")
        pins.append((index[row["part"]], len(nets) - 1, line.real("x", row["x"]), line.real("y", row["y"])))
        degrees[-1][2] += 1
    for line, degree, found in degrees:
        line.expect(degree == found, f"as many pins as follow, {found}, found {degree}", "restore what is missing")
    _check_count(head, counts, "NumNets", len(nets))
    _check_count(head, counts, "NumPins", len(pins))
    head.expect(len(pins) > 0, "at least one net below", "add it")
    return nets, pins
