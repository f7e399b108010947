"""The text format of Cordeau & Laporte (2003) and Cordeau (2006), as numbers: header, and nodes in the file's order."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from jaxvrp.io.text_lines import Line, read_lines

HEADER = ("vehicles", "requests", "T", "Q", "L")
COLUMNS = ("id", "x", "y", "service", "demand", "early", "late")
WHOLE = ("vehicles", "requests", "Q", "id", "demand")
LARGEST = 1_000_000
Numbers = dict[str, float]  # those of a line, by `HEADER` or `COLUMNS`


def read_numbers(path: str | os.PathLike) -> tuple[Numbers, dict[str, np.ndarray]]:
    """Read `vehicles requests T Q L`, then lines of `id x y service demand early late`.

    The lines are the depot, pickups 1 to n, drop-offs n + 1 to 2n, and, optionally, the depot again. The header's
    second number may be n or 2n. T bounds route durations, Q is the capacity, L bounds ride times. Blank lines are
    skipped.

    Returns:
        The header, with n, and by column `f64[2n + 1]`.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    header_line, *node_lines = read_lines(path, "a file in the format of Cordeau & Laporte", f"'{' '.join(HEADER)}'")
    header = _numbers(header_line, HEADER)
    nodes = [_numbers(line, COLUMNS) for line in node_lines]
    requests = _count_requests(header_line, header, len(nodes))
    for expected_id, line in enumerate(node_lines):
        _check_node(line, nodes, expected_id, requests)
    kept = nodes[: 2 * requests + 1]
    return {**header, "requests": requests}, {name: np.array([node[name] for node in kept]) for name in COLUMNS}


def begins_with_header(first: Sequence[Line]) -> bool:
    """Whether the first lines are a header, as long as it should be or above the line of a node: mostly numbers."""
    counts = [len(line.words()) for line in first]
    numbers = sum(map(first[0].is_number, first[0].words()))
    has_length = counts[0] == len(HEADER) or counts[1:] == [len(COLUMNS)]
    return has_length and 2 * numbers > counts[0] > 1


def _numbers(line: Line, names: tuple[str, ...]) -> Numbers:
    words = line.fields(names, line.words(), subject="numbers")
    return {
        name: line.whole(name, word, below=LARGEST) if name in WHOLE else line.real(name, word)
        for name, word in words.items()
    }


def _count_requests(line: Line, header: Numbers, count: int) -> int:
    """n, from the number of node lines, as the header's second number may be n or 2n."""
    line.expect(min(header.values()) > 0, f"numbers above 0 for '{' '.join(HEADER)}'")
    given = header["requests"]
    halves = [given] if given % 2 else [given, given / 2]
    for requests in map(int, halves):
        if 2 * requests + 1 <= count <= 2 * requests + 2:
            return requests
    sizes = " or ".join(f"{2 * requests + 1:.0f}" for requests in halves)
    raise line.error(
        f"{sizes} node lines for a second number of {given:.0f}, and perhaps the depot once more, found {count}",
        "restore the missing lines, or correct the number",
    )


def _check_node(line: Line, nodes: list[Numbers], identity: int, requests: int) -> None:
    """What the line of a node must say, also because of its place: depot, pickup, drop-off, or the depot again."""
    node, depot = nodes[identity], nodes[0]
    early, late, service, demand = (node[name] for name in ("early", "late", "service", "demand"))
    line.expect(node["id"] == identity, f"id {identity}, found {node['id']:.0f}", "put the lines in the order of ids")
    line.expect(late >= early, f"late not before early, found {early:g} to {late:g}", "correct the window")
    line.expect(service >= 0, f"service of at least 0, found {service:g}")
    if identity == 0:
        line.expect(service == demand == 0, "no service and no demand at the depot", "set both to 0")
    elif identity <= requests:
        line.expect(demand >= 1, f"demand of at least 1 at a pickup, found {demand:.0f}")
    elif identity <= 2 * requests:
        pickup = identity - requests
        wanted = -nodes[pickup]["demand"]
        expected = f"demand {wanted:.0f}, the negative of pickup {pickup}'s, found {demand:.0f}"
        line.expect(demand == wanted, expected, "correct one of the two")
    else:
        remedy = "make it the same, or leave the line out"
        line.expect({**node, "id": 0} == depot, "the depot of the first node line again", remedy)
