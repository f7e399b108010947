"""Tables of ways along streets from others' files: OSRM's `table`, VROOM's `matrices`, and CSV."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxvrp.geography.streets import matrix_of
from jaxvrp.io.json_files import read_json
from jaxvrp.io.messages import shown
from jaxvrp.io.text_lines import Line, read_lines

REMEDY = "give OSRM's answer to `table`, an object with durations, or a .csv of seconds"

EMPTY = ("", "nan", "null", "-")
"""What a CSV says where there is no way."""


class StreetTable(NamedTuple):
    """Ways from each of L locations to each: `seconds`, and `metres` or None, `f64[L, L]`; rows are where they begin.

    They are as given; see `jaxvrp.geography.streets.closed`. `names` are those of the locations, () if there are none.
    """

    seconds: np.ndarray
    metres: np.ndarray | None = None
    names: tuple[str, ...] = ()

    def at(self, rows: Sequence[int]) -> StreetTable:
        """The table of these locations, in this order."""
        index, metres = np.ix_(rows, rows), self.metres
        names = tuple(self.names[row] for row in rows) if self.names else ()
        return StreetTable(self.seconds[index], None if metres is None else metres[index], names)

    def in_order(self, customers: Sequence[str], where: str) -> StreetTable:
        """The table with its rows in the order of the customers, after the depot; as it is, if it names none of them.

        Raises:
            ValueError: it names some of them; one line, `where` before it.
        """
        names, known = list(self.names), set(customers) & set(self.names)
        if not known:
            return self
        depot = [row for row, name in enumerate(names) if name not in known]
        if len(known) < len(customers) or len(depot) != 1 or len(names) != len(customers) + 1:
            missing = next((name for name in customers if name not in known), None)
            others = f"none of {missing}" if missing else f"{len(names) - len(known)} others, not the depot alone"
            remedy = "name the depot and every customer once, or none"
            raise ValueError(f"{where} has a row of {min(known)}, and {others}; {remedy}")
        return self.at([*depot, *(names.index(name) for name in customers)])


def read_streets(path: str | os.PathLike) -> StreetTable:
    """The table of a file, by its ending.

    `.json`: OSRM's answer to `table` with `durations`, and `distances` if they are there; or an object with VROOM's
    `matrices`, of which that of the profile "car" counts. Else rows of seconds between commas, semicolons or tabs;
    names of locations in the first row, the first column, or both, are kept.

    Raises:
        ValueError: it holds none; one line that names the file, the field, the row and the column.
        OSError: it cannot be read.
    """
    try:
        if pathlib.Path(path).suffix.lower() == ".json":
            content = read_json(path, REMEDY)
            matrices = content.get("matrices") if isinstance(content, dict) else None
            return _streets_in(content, "") if matrices is None else streets_of(matrices, "car")
        rows, names = _rows(path)
        return StreetTable(matrix_of(rows, "the table"), names=names)
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def streets_of(matrices: Any, profile: str) -> StreetTable:
    """The table of a profile in VROOM's `matrices`; errors as of `read_streets`, without the file."""
    if not isinstance(matrices, Mapping) or profile not in matrices:
        known = ", ".join(map(str, matrices)) if isinstance(matrices, Mapping) else "none"
        raise ValueError(f"matrices has no profile {shown(profile)}, but {known}; give one of these")
    return _streets_in(matrices[profile], f"matrices.{profile}.")


def _streets_in(content: Any, where: str) -> StreetTable:
    """The table of `durations` and, perhaps, `distances`; `where` stands before names of fields in messages."""
    if not isinstance(content, Mapping) or content.get("durations") is None:
        raise ValueError(f"{where}durations is missing; ask the router for durations, from each location to each")
    seconds = matrix_of(content["durations"], f"{where}durations")
    distances = content.get("distances")
    return StreetTable(seconds, None if distances is None else matrix_of(distances, f"{where}distances", len(seconds)))


def _rows(path: str | os.PathLike) -> tuple[list[list[float | None]], tuple[str, ...]]:
    """The numbers of a CSV, None where there is none, and the names of locations before or above them, () if none."""
    lines = read_lines(path, "a table of seconds", "a row of numbers")
    words = [line.separated() for line in lines]
    # Names may be numbers; then the corner between them is none.
    is_named = not _is_way(lines[-1], words[-1][0]) or (
        len(words[-1]) == len(lines) and not _is_way(lines[0], words[0][0])
    )
    columns = len(words[-1]) - is_named
    # As many lines as columns of numbers are all data, so that a word among them is a mistake.
    has_head = len(lines) != columns and not all(_is_way(lines[0], word) for word in words[0])
    head = tuple(words[0][-columns:]) if has_head else ()
    lines, words = lines[has_head:], words[has_head:]
    names = tuple(row[0] for row in words) if is_named else head
    return [[_number(line, word) for word in row[is_named:]] for line, row in zip(lines, words, strict=True)], names


def _is_way(line: Line, word: str) -> bool:
    return word.lower() in EMPTY or line.is_number(word)


def _number(line: Line, word: str) -> float | None:
    return None if word.lower() in EMPTY else line.real("a way", word)
