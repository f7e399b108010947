"""Files that are written completely or not at all, and read only if memory holds them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LARGEST_TEXT = 2**28
"""Bytes; text files of this project are far smaller."""

UNFINISHED = ".part"
"""The ending of files that are being written."""


def read_bytes(path: str | os.PathLike, largest: int) -> bytes:
    """The content of a file of at most `largest` bytes; a larger file, or an endless one, is not kept in memory.

    Raises:
        ValueError: it is larger.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{path} is larger than {largest / 1e6:.3g} MB; give a smaller file")
    return content


def write_whole(path: str | os.PathLike, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path`, then put it in its place; on failure the old file stays.

    Raises:
        OSError: the file cannot be written; it names `path`.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with naming(path, partial):
            write(partial)
            os.replace(partial, path)
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
    """Write a text in UTF-8; see `write_whole`."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write indented JSON; see `write_whole`."""
    write_text(path, json.dumps(content, indent=2) + "\n")
