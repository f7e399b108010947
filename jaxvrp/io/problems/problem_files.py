"""Problems in files of several formats: the ending selects the reader, and a number selects one of several problems."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax

from jaxvrp.io.limits import LARGEST, LEAST
from jaxvrp.io.messages import shown
from jaxvrp.io.text_lines import Line, read_lines
from jaxvrp.io.whole_files import UnreadableError

Problem = TypeVar("Problem")

NEVER_0 = ("speed", "alpha", "endurance")
"""How names of numbers end that may be given, and never are 0."""


class UnknownFormatError(ValueError):
    """The format of a file is unknown; every other ValueError is a mistake in a file of a known format."""


class DamagedFileError(ValueError):
    """A mistake in a file whose content shows its format: readers of other formats have nothing to say about it."""


class FileFormat(NamedTuple):
    """A format of problem files: its name in messages, and the function that reads a problem, or a batch `[B]`.

    Of a text file, whether its first two lines `show` the format; None where another ending does.
    """

    name: str
    read: Callable[[str | os.PathLike], Any]
    show: Callable[[Sequence[Line]], bool] | None = None


def read_problems(
    path: str | os.PathLike,
    formats: Mapping[str, FileFormat],
    batch_of: Callable[[Any], tuple[int, ...]],
    *,
    elsewhere: Sequence[str] = (),
) -> list[Any]:
    """All problems of a file.

    Args:
        path: of the file.
        formats: by ending, in small letters.
        batch_of: the leading axes of what was read; none, if it is one problem.
        elsewhere: for messages, which other files the caller reads itself.

    Raises:
        ValueError: a damaged file, a `DamagedFileError` if it shows its format, or a batch with several axes; a line.
        UnknownFormatError: another ending, or text that shows another format.
        OSError: it cannot be read.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in formats:
        known = [f"{ending} ({each.name})" for ending, each in formats.items()]
        raise UnknownFormatError(f"{path} is neither {' nor '.join([*known, *elsewhere])}")
    found = _read(path, formats[suffix])
    batch = batch_of(found)
    if not batch:
        return [found]
    if len(batch) > 1:
        raise ValueError(f"{path} holds a batch of shape {batch}; save one with a single axis")
    return [jax.tree.map(lambda leaf, row=row: leaf[row], found) for row in range(batch[0])]


def _read(path: str | os.PathLike, file_format: FileFormat) -> Any:
    try:
        return file_format.read(path)
    except UnreadableError:
        raise
    except ValueError as error:
        first = read_lines(path, "a text", least=0)[:2] if file_format.show else []
        if not (file_format.show and first):
            raise
        kind = DamagedFileError if file_format.show(first) else UnknownFormatError
        raise kind(str(error)) from None


def with_given(assumed: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader assumes, with the numbers that a user gives instead.

    Raises:
        ValueError: one of them is no number from 0; one line.
    """
    for name, value in given.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 <= value < LARGEST):
            raise ValueError(f"{name} is {shown(value)}; it must be a number from 0, below {LARGEST:g}")
        if value < LEAST and name.endswith(NEVER_0):
            raise ValueError(f"{name} is {shown(value)}; it must be at least {LEAST:g}")
    return {**assumed, **given}


def only_problem(problems: Sequence[Problem], row: int | None, path: str | os.PathLike) -> Problem:
    """One of the problems of a file: the one with index `row`, on command lines `--index`, None for the single one.

    Raises:
        ValueError: there is no such problem, or no row says which one is meant; one line.
    """
    if len(problems) == 1:
        if row is not None:
            raise ValueError(f"instance {row} is chosen, but {path} holds a single instance; leave the choice out")
        return problems[0]
    if row is None or row >= len(problems):
        raise ValueError(f"{path} holds {len(problems)} instances; choose one with --index 0 to {len(problems) - 1}")
    return problems[row]
