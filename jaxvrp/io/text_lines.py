"""Lines of a text file with their numbers, so that errors name the line; in the dialects of editors and spreadsheets.

Of whatever format a file is, its last line may be `EOF`, rows may end in empty fields, fields may be separated by
semicolons or tabs, with a comma before the decimals then, exponents may be Fortran's (`1.5D+02`), and names of columns
may be in capitals.
"""

from __future__ import annotations

import csv
import dataclasses
import decimal
import math
import os
import re
from pathlib import Path

from jaxvrp.io.limits import LARGEST
from jaxvrp.io.messages import printable
from jaxvrp.io.whole_files import LARGEST_TEXT, UnreadableError, decode_text, read_bytes

LONGEST_LINE = 131_072
"""Characters, as many as the `csv` module takes of a field."""

MOST_LINES = 100_000
"""Of a file."""

LONGEST_MESSAGE = 300
"""Characters of the part of a message that says what was expected and found."""

QUOTED = re.compile('"[^"]*"')

END = "EOF"
"""The last line of some files, in capitals or not."""

SEPARATOR_ROW = "sep="
"""What the first line begins with that tells a spreadsheet the separator."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank: its file, number from 1, and text without the space around it."""

    path: Path
    number: int
    text: str

    def error(self, expected: str, remedy: str = "correct it") -> ValueError:
        """The error about this line; long words are cut."""
        return ValueError(f"{self.path}, line {self.number}: expected {printable(expected, LONGEST_MESSAGE)}; {remedy}")

    def expect(self, holds: bool, expected: str, remedy: str = "correct it") -> None:
        """Raise the error about this line unless it `holds`."""
        if not holds:
            raise self.error(expected, remedy)

    @property
    def keyword(self) -> str:
        """The text in small letters, with single spaces: what it says where it has to be one of some words."""
        return " ".join(self.text.lower().split())

    def fields(self, names: tuple[str, ...], words: list[str] | None = None, subject: str = "fields") -> dict[str, str]:
        """The words by name; without `words`, those that are `separated`. `subject` is what the message calls them."""
        words = self.separated(len(names)) if words is None else words
        wanted = f"the {len(names)} {subject} '{' '.join(names)}', found {len(words)}"
        self.expect(len(words) == len(names), wanted, "add or remove what is wrong")
        return dict(zip(names, words, strict=True))

    def words(self) -> list[str]:
        """The words between spaces, with or without commas or semicolons; of a line without spaces, its fields."""
        spaced = self.text.split()
        words = spaced if len(spaced) > 1 else self.separated()
        return [word for each in words if (word := each.strip(",;"))] or [self.text]

    def only_word(self) -> str:
        """The single word; of several, the text, which is no number."""
        words = self.words()
        return words[0] if len(words) == 1 else self.text

    def separated(self, count: int | None = None) -> list[str]:
        """The fields between commas, semicolons or tabs, quoted where needed; those that make `count`, if any do.

        Fields at the end that are empty are left out, but for those that belong to the `count`.
        """
        bare = QUOTED.sub("", self.text)
        other = max(";\t", key=bare.count)
        # A comma that stands before decimals stands there at most once in each field.
        likely = (other, ",") if bare.count(",") <= bare.count(other) + 1 else (",", other)
        found = [self._split(mark, count or 0) for mark in likely if mark in bare] or [self._split(",", 0)]
        return next((words for words in found if len(words) == count), found[0])

    def _split(self, mark: str, least: int) -> list[str]:
        """The fields between such marks, without empty ones at the end beyond the `least`."""
        try:
            words = next(csv.reader([self.text], delimiter=mark, strict=True, skipinitialspace=True))
        except csv.Error as error:
            raise self.error(f"fields between commas ({error})", "correct the quotes") from None
        words = [word.strip() for word in words]
        while len(words) > least and not words[-1]:
            words.pop()
        return words

    def real(self, name: str, word: str) -> float:
        """A number whose absolute value is less than `LARGEST`."""
        value = self._number(word)
        if not abs(value) < LARGEST:  # the message takes longer than the number
            raise self.error(f"a number below {LARGEST:.0f} for {name}, found {word[:20]!r}")
        return value

    def exact(self, name: str, word: str) -> decimal.Decimal:
        """Likewise, with every digit."""
        self.real(name, word)
        return decimal.Decimal(self._plain(word))

    def whole(self, name: str, word: str, minimum: int | None = None, below: int | None = None) -> int:
        """A whole number, at least `minimum`, its absolute value less than `below`."""
        value = self.real(name, word) if below is None else self._number(word)
        in_range = (minimum is None or value >= minimum) and (below is None or abs(value) < below)
        if not (in_range and value.is_integer()):
            wanted = "a whole number" + ("" if below is None else f" below {below}")
            wanted += "" if minimum is None else f" of at least {minimum}"
            raise self.error(f"{wanted} for {name}, found {word[:20]!r}")
        return int(value)

    def is_number(self, word: str) -> bool:
        """Whether a word says a number."""
        return not math.isnan(self._number(word))

    def _number(self, word: str) -> float:
        """The number that a word says; nan if it is no number."""
        try:
            return float(word)
        except ValueError:
            pass
        try:
            return float(self._plain(word))
        except ValueError:
            return math.nan

    def _plain(self, word: str) -> str:
        """A word as Python writes numbers: `1.5e2` for `1.5D2`, and for `1,5E2` between semicolons or tabs."""
        has_decimal_comma = word.count(",") == 1 and any(mark in self.text for mark in ";\t")
        return (word.replace(",", ".") if has_decimal_comma else word).lower().replace("d", "e")


def is_blank(row: str) -> bool:
    """Whether a row says nothing; a spreadsheet writes separators alone."""
    return not row.replace(",", "").replace(";", "").strip()


def read_lines(path: str | os.PathLike, expected: str, first_line: str | None = None, *, least: int = 1) -> list[Line]:
    """The lines of a UTF-8 file that are not blank; at least one, or none if `least` is 0.

    Messages ask for what is `expected`; of an empty file, for the `first_line`, if given.

    Raises:
        ValueError: it is empty, or binary, or larger than any such file; or a line has no end.
        OSError: it cannot be read.
    """
    path = Path(path)
    text = decode_text(read_bytes(path, LARGEST_TEXT), path, f"give {expected}")
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n", MOST_LINES)
    if "\n" in rows[-1]:
        raise UnreadableError(f"{path} has more than {MOST_LINES} lines", "give a smaller file")
    lines = [Line(path, number, row.strip()) for number, row in enumerate(rows, 1) if not is_blank(row)]
    if lines and lines[-1].text.rstrip(",; ").upper() == END:
        del lines[-1]
    if lines and lines[0].text.strip('"').lower().startswith(SEPARATOR_ROW):
        del lines[0]
    if len(lines) < least:
        remedy = "give one" if first_line is None else f"give {expected}"
        raise ValueError(f"{path}, line 1: expected {first_line or expected}, found an empty file; {remedy}")
    for line in lines:
        line.expect(len(line.text) <= LONGEST_LINE, f"at most {LONGEST_LINE} characters", f"give {expected}")
    return lines
