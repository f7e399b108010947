"""The format of Bogyrbayeva et al. (2023): an instance in a line, `x1 y1 x2 y2 ...`, the depot first."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.tsp_drone.problem.instance import make_instance
from jaxvrp.io.text_lines import LONGEST_LINE, read_lines
from jaxvrp.io.whole_files import write_text

MOST_OTHERS = 7
"""The most numbers in a line of other text files of problems."""


def is_one_line(path: str | os.PathLike) -> bool:
    """Whether the first line of a file has nothing but numbers, of two places or more.

    Other text files begin with a comment, one number, or (`darp`) up to seven.

    Raises:
        ValueError: it is empty, or no text; one line.
        OSError: it cannot be read.
    """
    line = read_lines(path, "a file with an instance 'x1 y1 x2 y2 ...' in each line")[0]
    words = line.words()
    return all(map(line.is_number, words)) and (len(words) > MOST_OTHERS or len(words) in (4, 6))


def read_one_line(path: str | os.PathLike, *, alpha: float = 2.0) -> list[Instance]:
    """Read all instances of a file, as NumPy arrays; the truck's speed is 1, the drone's `alpha`.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    instances = []
    for line in read_lines(path, "a file with an instance 'x1 y1 x2 y2 ...' in each line"):
        words = line.words()
        line.expect(len(words) % 2 == 0, f"an even number of coordinates, found {len(words)}")
        locs = np.array([line.real("a coordinate", word) for word in words]).reshape(-1, 2)
        instances.append(make_instance(locs, drone_pace=1.0 / alpha))
    return instances


def write_one_line(path: str | os.PathLike, instances: Sequence[Instance]) -> None:
    """Write what `read_one_line` reads, with every digit; complete, or not at all.

    The format holds places alone: the reader of the file must know the drone's speed.

    Raises:
        ValueError: the format cannot hold something; one line that names it.
        OSError: the file cannot be written.
    """
    for number, instance in enumerate(instances):
        plain = make_instance(instance.locs, drone_pace=instance.drone_pace)
        others = [name for name in vars(plain) if not np.array_equal(getattr(plain, name), getattr(instance, name))]
        if others:
            raise ValueError(
                f"instance {number} has a {others[0]} that the format cannot hold; use jaxvrp.envs.tsp_drone.save"
            )
    rows = [" ".join(repr(float(number)) for number in np.ravel(instance.locs)) for instance in instances]
    for number, row in enumerate(rows):
        if len(row) > LONGEST_LINE:
            raise ValueError(
                f"instance {number} takes {len(row)} characters, and a line is read up to {LONGEST_LINE}; "
                "use jaxvrp.envs.tsp_drone.save"
            )
    write_text(path, "".join(row + "\n" for row in rows))
