"""Lines of a text file with their numbers, so that errors name the line."""

from __future__ import annotations

import csv
import dataclasses
import math
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from jaxvrp.io.limits import LARGEST
from jaxvrp.io.whole_files import LARGEST_TEXT, read_bytes

LONGEST_LINE = 10_000
"""Characters; the `csv` module takes fields of up to 131 072."""

LONGEST_MESSAGE = 300
"""Characters of the part of a message that says what was expected and found."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line that is not blank: its file, number from 1, and text without the space around it."""

    path: Path
    number: int
    text: str

    def error(self, expected: str, remedy: str = "correct it") -> ValueError:
        """The error about this line; long words are cut."""
        wanted = expected if len(expected) <= LONGEST_MESSAGE else f"{expected[: LONGEST_MESSAGE - 4]} ..."
        return ValueError(f"{self.path}, line {self.number}: expected {wanted}; {remedy}")

    def expect(self, holds: bool, expected: str, remedy: str = "correct it") -> None:
        """Raise the error about this line unless it `holds`."""
        if not holds:
            raise self.error(expected, remedy)

    def fields(self, names: tuple[str, ...], words: list[str] | None = None, what: str = "fields") -> dict[str, str]:
        """The words by name; without `words`, those between commas. `what` they are called in the message."""
        words = self.comma_separated() if words is None else words
        wanted = f"the {len(names)} {what} '{' '.join(names)}', found {len(words)}"
        self.expect(len(words) == len(names), wanted, "add or remove what is wrong")
        return dict(zip(names, words, strict=True))

    def comma_separated(self) -> list[str]:
        """The words between commas, quoted where needed."""
        try:
            return next(csv.reader([self.text], strict=True))
        except csv.Error as error:
            raise self.error(f"fields between commas ({error})", "correct the quotes") from None

    def real(self, name: str, word: str) -> float:
        """A number whose absolute value is less than `LARGEST`."""
        value = _number(word)
        self.expect(abs(value) < LARGEST, f"a number below {LARGEST:.0f} for {name}, found {word[:20]!r}")
        return value

    def whole(self, name: str, word: str, minimum: int | None = None, below: int | None = None) -> int:
        """A whole number, at least `minimum`, its absolute value less than `below`."""
        value = self.real(name, word) if below is None else _number(word)
        in_range = (minimum is None or value >= minimum) and (below is None or abs(value) < below)
        wanted = "a whole number" + ("" if below is None else f" below {below}")
        wanted += "" if minimum is None else f" of at least {minimum}"
        self.expect(value.is_integer() and in_range, f"{wanted} for {name}, found {word[:20]!r}")
        return int(value)


def _number(word: str) -> float:
    """The number that a word says; nan if it is no number."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def read_table(path: str | os.PathLike, what: str, columns: Collection[str]) -> Iterator[tuple[Line, dict[str, str]]]:
    """Each line below a header that has at least these columns, and its words by column.

    Raises:
        ValueError: no such table; one line. Also of a line, when it comes.
        OSError: it cannot be read.
    """
    head, *lines = read_lines(path, what)
    names = tuple(head.comma_separated())
    head.expect(set(columns) <= set(names), f"columns {', '.join(columns)}")
    return ((line, line.fields(names)) for line in lines)


def read_lines(path: str | os.PathLike, what: str, first_line: str | None = None) -> list[Line]:
    """The lines of a UTF-8 file that are not blank; at least one.

    `what` is expected, in messages; of an empty file `first_line` is, if given.

    Raises:
        ValueError: it is empty, or binary, or larger than any such file; or a line has no end.
        OSError: it cannot be read.
    """
    path = Path(path)
    try:
        text = read_bytes(path, LARGEST_TEXT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, byte {error.start}: expected text, found binary data; give {what}") from None
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [Line(path, number, row.strip()) for number, row in enumerate(rows, 1) if row.strip()]
    if not lines:
        remedy = "give one" if first_line is None else f"give {what}"
        raise ValueError(f"{path}, line 1: expected {first_line or what}, found an empty file; {remedy}")
    for line in lines:
        line.expect(len(line.text) <= LONGEST_LINE, f"at most {LONGEST_LINE} characters", f"give {what}")
    return lines
