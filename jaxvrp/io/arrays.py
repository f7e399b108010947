"""Named arrays in `.npz` files, written whole and read back exactly."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.io.whole_files import write_whole


def save_arrays(path: str | os.PathLike, form: str, arrays: dict[str, Any]) -> None:
    """Write named arrays as `.npz`, with `form` as the name of the format."""

    def write(partial: Path) -> None:
        # By its name, NumPy would add a suffix.
        with partial.open("wb") as file:
            np.savez(file, format=np.array(form), **arrays)

    write_whole(path, write)


def load_arrays(
    path: str | os.PathLike, form: str, ranks: dict[str, int], *, what: str, remedy: str
) -> dict[str, np.ndarray]:
    """Read what `save_arrays` wrote.

    Args:
        path: the file.
        form: the name of the format.
        ranks: the names, and how many axes each array has behind the batch axes that all share with the first.
        what: should be in the file, for the message.
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
        raise ValueError(f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, not {what}; {remedy}")
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
