"""Files that are written completely or not at all, and read only if memory holds them."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

LARGEST_TEXT = 2**23
"""Bytes: numbers of a text so large are read in two seconds."""

MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""What texts in other encodings than UTF-8 begin with, the longest first."""

LEADING = 1_000
"""Bytes of a text by which UTF-16 is known where no mark says so."""

CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f]")
"""Bytes that no text has in any encoding of one byte for a character."""

CTRL_Z = "\x1a"
"""The end of a text, as old editors write it."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet computes, rather than shows."""

UNFINISHED = ".part"
"""The ending of files that are being written."""

LEAST_ROOM = 2**16
"""Bytes that are written on trial: a picture or a plan takes about as many."""


class UnreadableError(ValueError):
    """A file that no reader of any format can read, as it is in another encoding, damaged, or something else.

    The `reason` says why, and names the file; the `remedy` is that of the reader.
    """

    def __init__(self, reason: str, remedy: str):
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy


def read_bytes(path: str | os.PathLike, largest: int) -> bytes:
    """The content of a file of at most `largest` bytes; a larger one is not read.

    Raises:
        UnreadableError: it is larger, or a device, which may be endless.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise UnreadableError(f"{path} is a device", "give a file")
        content = b"" if status.st_size > largest else file.read(largest + 1)
    if max(len(content), status.st_size) > largest:
        raise UnreadableError(f"{path} is larger than {largest / 1e6:.3g} MB", "give a smaller file")
    return content


def decode_text(content: bytes, path: str | os.PathLike, remedy: str) -> str:
    """The text of a file in UTF-8, without a byte order mark before it, and without Ctrl-Z behind it.

    Raises:
        UnreadableError: it is in another encoding, or no text, for which `remedy` is said; one line that names `path`.
    """
    if encoding := _encoding_of_two_bytes(content):
        raise UnreadableError(f"{path} is in {encoding}", "save it as UTF-8")
    try:
        text, wrong = content.decode("utf-8-sig"), content.find(0)
    except UnicodeDecodeError as error:
        text, wrong = "", error.start
        if not CONTROL.search(content):
            found = "one of Latin-1 or another encoding"
            reason = f"{path}, byte {wrong}: expected a character in UTF-8, found {found}"
            raise UnreadableError(reason, "save it as UTF-8") from None
    if wrong >= 0:
        raise UnreadableError(f"{path}, byte {wrong}: expected text, found binary data", remedy)
    ended = text.rstrip()
    return ended.rstrip(CTRL_Z) if ended.endswith(CTRL_Z) else text


def _encoding_of_two_bytes(content: bytes) -> str | None:
    """The encoding of a text with two bytes or more for a character: by its mark, or since every second one is 0."""
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return encoding
    full, empty = sorted((content[:LEADING:2], content[1:LEADING:2]), key=lambda half: half.count(0))
    return "UTF-16" if 2 * empty.count(0) > len(empty) > 1 and not CONTROL.search(full) else None


def write_whole(path: str | os.PathLike, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path`, then put it in its place; on failure the old file stays.

    Raises:
        OSError: the file cannot be written; it names `path`.
    """
    with _beside(path) as partial:
        write(partial)
        os.replace(partial, path)


def try_to_write(path: str | os.PathLike) -> None:
    """Write a little beside a file and delete it again: a full disk, say, is known before the work begins.

    Raises:
        OSError: the file could not be written; it names `path`.
    """
    with _beside(path) as partial:
        partial.write_bytes(bytes(LEAST_ROOM))


@contextlib.contextmanager
def _beside(path: str | os.PathLike) -> Iterator[Path]:
    """An unfinished file beside a path, which is deleted if it is still there; system errors name the path."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with naming(path, partial):
            yield partial
    finally:
        partial.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Delete unfinished files of killed processes; no other process may be writing into the folder.

    Raises:
        OSError: a file cannot be deleted.
    """
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: str | os.PathLike, *aliases: Path) -> Iterator[None]:
    """System errors raised inside name `path`, if they name no file, or an alias of it.

    Raises:
        OSError: such an error; opening a file names it, writing to one does not.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(error.filename) in aliases:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text in UTF-8; halves of characters, which names of files may have, are escaped. See `write_whole`."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8", errors="backslashreplace"))


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write indented JSON; see `write_whole`."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_csv(path: str | os.PathLike, rows: Iterable[Iterable[Any]]) -> None:
    """Write a table, see `write_whole`; a text that a spreadsheet would compute has an apostrophe before it."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    write_text(path, table.getvalue())


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
