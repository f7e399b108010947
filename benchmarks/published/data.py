"""The folder of published instances, which are not part of this project, and tables in it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from jaxvrp.io.text_lines import Line, read_lines

VARIABLE = "JAXVRP_DATA"


def data_folder() -> Path:
    """The folder that the environment variable `JAXVRP_DATA` names, else `../shared/data`; it need not exist."""
    return Path(os.environ.get(VARIABLE, "../shared/data"))


def read_table(path: str | os.PathLike, wanted: str, columns: Collection[str]) -> Iterator[tuple[Line, dict[str, str]]]:
    """Each line below a header that has at least these columns, and its words by column.

    Names of columns are found in capitals, too.

    Raises:
        ValueError: no such table; one line. Also of a line, when it comes.
        OSError: it cannot be read.
    """
    head, *lines = read_lines(path, wanted)
    known = {name.lower(): name for name in columns}
    names = tuple(known.get(name.lower(), name) for name in head.separated())
    head.expect(set(columns) <= set(names), f"columns {', '.join(columns)}")
    return ((line, line.fields(names)) for line in lines)
