"""Lines of a text file that know where they stand, so that a broken one can be named."""

from __future__ import annotations

import csv
import dataclasses
import math
import os
from pathlib import Path

LARGEST = 1e12


@dataclasses.dataclass(frozen=True)
class Line:
    """A line that is not blank: its file, number from 1, and text without the space around it."""

    path: Path
    number: int
    text: str

    def error(self, expected: str, remedy: str = "correct it") -> ValueError:
        """The error about this line."""
        return ValueError(f"{self.path}, line {self.number}: expected {expected}; {remedy}")

    def expect(self, holds: bool, expected: str, remedy: str = "correct it") -> None:
        """Raise the error about this line unless it `holds`."""
        if not holds:
            raise self.error(expected, remedy)

    def fields(self, names: tuple[str, ...], words: list[str] | None = None) -> dict[str, str]:
        """The words by name; comma-separated, quoted where needed, unless given."""
        words = self._comma_separated() if words is None else words
        wanted = f"the {len(names)} fields '{' '.join(names)}', found {len(words)}"
        self.expect(len(words) == len(names), wanted, "add or remove what is wrong")
        return dict(zip(names, words, strict=True))

    def _comma_separated(self) -> list[str]:
        try:
            return next(csv.reader([self.text], strict=True))
        except csv.Error as error:
            raise self.error(f"fields between commas ({error})", "correct the quotes") from None

    def real(self, name: str, word: str) -> float:
        """A finite number."""
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        self.expect(abs(value) < LARGEST, f"a number below {LARGEST:.0f} for {name}, found {word[:20]!r}")
        return value

    def whole(self, name: str, word: str, minimum: int | None = None) -> int:
        """A whole number."""
        value = self.real(name, word)
        enough = minimum is None or value >= minimum
        wanted = "a whole number" + ("" if minimum is None else f" of at least {minimum}")
        self.expect(value.is_integer() and enough, f"{wanted} for {name}, found {word[:20]!r}")
        return int(value)


def read_lines(path: str | os.PathLike, what: str) -> list[Line]:
    """The lines of a UTF-8 file that are not blank.

    Args:
        path: the file.
        what: it should be, for the message.

    Raises:
        ValueError: it is empty, or binary.
        OSError: it cannot be read.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, byte {error.start}: expected text, found binary data; give {what}") from None
    lines = [Line(path, number, row.strip()) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
    if not lines:
        raise ValueError(f"{path}, line 1: expected {what}, found an empty file; give one")
    return lines
