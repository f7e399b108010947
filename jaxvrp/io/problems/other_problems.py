"""Files of well-known problems that are not solved here: which problem each is, and what solves it."""

from __future__ import annotations

import os
import re
from pathlib import Path

NODES = "nodes.csv"
"""Of Murray & Chu: their files have one form for two problems, which the folders alone name."""

PARALLEL = r"PDSTSP|^20140813T\d{6}$"
"""Names of folders of their problem with parallel drones: of a part of the set, or of a problem, by its day."""

HEAD = 8192
"""Bytes of a file that are looked at."""

OTHERS = {
    "CVRP": ("a capacitated vehicle routing problem", "PyVRP"),
    "VRPTW": ("a vehicle routing problem with time windows", "PyVRP"),
    "EVRPTW": ("an electric vehicle routing problem with time windows", "OR-Tools"),
    "MDVRP": ("a vehicle routing problem with several depots or periods", "PyVRP"),
    "PDPTW": ("a pickup and delivery problem with time windows", "OR-Tools"),
    "PDSTSP": ("a parallel drone scheduling problem, whose drones shuttle from the depot", "OR-Tools"),
    "TSP": ("a travelling salesman problem", "OR-Tools"),
}
"""By the field's abbreviation, the problem in words, and software that solves it."""

COLUMN_NAMES = {"EVRPTW": r"StringID\s+Type", "VRPTW": r"ready.?(time|date).*due.?(time|date)"}
"""Words of a line that names columns, in Schneider's format, and in Solomon's."""

ROUTE = r"^route\s*#?\s*\d+\s*:\s*\d"
"""The line of a solution, as CVRPLIB and SINTEF have them."""


def refusal(path: str | os.PathLike, kind: str) -> str:
    """The line that refuses a file of one of `OTHERS`, or of another `kind` that its header names."""
    words, software = OTHERS.get(kind, ("a problem of another kind", "OR-Tools"))
    return f"{path} is {words} ({kind}), which is not solved here; {software} solves it"


def other_problem(path: str | os.PathLike) -> str | None:
    """The line that refuses a file which is known not to be solved here; None if it is not known.

    Raises:
        OSError: it cannot be read.
    """
    if not Path(path).is_file():  # a pipe may have been read to its end
        return None
    if Path(path).name == NODES and any(re.search(PARALLEL, part.upper()) for part in Path(path).resolve().parts):
        return refusal(path, "PDSTSP")
    with Path(path).open("rb") as file:
        rows = file.read(HEAD).decode("latin-1").splitlines()
    text = "\n".join(row.strip() for row in rows if row.strip())
    if re.search(ROUTE, text, re.IGNORECASE | re.MULTILINE):
        return f"{path} is a solution, a list of routes; give the file of its problem"
    kind = _named(text) or _by_widths(text)
    return kind and refusal(path, kind)


def _named(text: str) -> str | None:
    """The kind that a header in the manner of TSPLIB, or a line of names of columns, says."""
    header = dict(re.findall(r"^[^\w\n]*([A-Z_]+)\s*:\s*(\w+)", text.upper(), re.MULTILINE))
    if header.keys() & {"DIMENSION", "SIZE"}:
        return header.get("TYPE", "CVRP" if "CAPACITY" in header else "TSP")[:12]
    return next((kind for kind, words in COLUMN_NAMES.items() if re.search(words, text, re.IGNORECASE)), None)


def _by_widths(text: str) -> str | None:
    """The kind that shows in how many numbers the lines have: the formats of Li & Lim, Cordeau, and the OR-Library."""
    rows = [line.split() for line in text.splitlines()[:-1]]  # the last one may be cut
    if not all(re.fullmatch(r"[-+\d.eE]+", word) for row in rows for word in row):
        return None
    widths = [len(row) for row in rows]
    match widths[:2], set(widths[2:]):
        case [3, 9], rest if rest <= {9}:
            return "PDPTW"
        case [4, 2], rest if rest == {3}:
            return "CVRP"
        case [4, 2], rest if max(rest, default=0) >= 7:
            return "VRPTW" if rows[0][0] == "4" else "MDVRP"
    return None
