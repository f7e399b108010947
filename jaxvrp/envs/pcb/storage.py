"""Files that are written completely or not at all, and read back exactly."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np


def write_whole(path: str | os.PathLike, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place; on failure the old file stays.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            write(file)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def save_arrays(path: str | os.PathLike, form: str, arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays as `.npz`, with `form` as the name of the format."""
    write_whole(path, lambda file: np.savez(file, format=np.array(form), **arrays))


def load_arrays(path: str | os.PathLike, form: str, ranks: dict[str, int], remedy: str) -> dict[str, np.ndarray]:
    """Read what `save_arrays` wrote.

    Args:
        path: the file.
        form: the name of the format.
        ranks: the names, and how many axes each array has behind the batch axes that all share.
        remedy: ends every message.

    Raises:
        ValueError: the file is damaged, or something else; one line that names it.
        OSError: it cannot be read.
    """
    try:
        arrays = _read_arrays(path)
    except (ValueError, EOFError, zipfile.BadZipFile, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is no readable .npz file ({error}); {remedy}") from None
    if str(arrays.pop("format", "")) != form or arrays.keys() != ranks.keys():
        raise ValueError(f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, not the format {form}; {remedy}")
    first, rank = next(iter(ranks.items()))
    batch = arrays[first].shape[: arrays[first].ndim - rank]
    for name, array in arrays.items():
        if array.ndim != len(batch) + ranks[name] or array.shape[: len(batch)] != batch:
            raise ValueError(f"{path}: {name} has shape {array.shape}, which does not fit {first}'s; {remedy}")
    return arrays


def _read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    # From memory: np.load leaves a damaged file open.
    content = Path(path).read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return dict(file)
