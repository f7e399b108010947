"""The files that problems of a truck and its drone come in, by their endings."""

from __future__ import annotations

import os

from jaxvrp.envs.tsp_drone.problem.agatz import read_agatz
from jaxvrp.envs.tsp_drone.problem.instance import Instance, load
from jaxvrp.io.problem_files import FileFormat, read_problems

FORMATS = {".txt": FileFormat("Agatz", read_agatz), ".npz": FileFormat("jaxvrp.envs.tsp_drone.save", load)}


def read_instances(path: str | os.PathLike) -> list[Instance]:
    """The problem of a `.txt` in Agatz's format, or those of an `.npz` of `jaxvrp.envs.tsp_drone.save`.

    Raises:
        ValueError: another ending, or a damaged file; one line.
        OSError: it cannot be read.
    """
    return read_problems(path, FORMATS, lambda instance: instance.exists.shape[:-1])
