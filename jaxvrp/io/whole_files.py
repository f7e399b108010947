"""Files that are written completely or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_whole(path: str | os.PathLike, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path`, then put it in its place; on failure the old file stays.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text in UTF-8; see `write_whole`."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write indented JSON; see `write_whole`."""
    write_text(path, json.dumps(content, indent=2) + "\n")
