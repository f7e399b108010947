"""The files that dial-a-ride problems come in, by their endings."""

from __future__ import annotations

import os

from jaxvrp.envs.darp.problem.cordeau import read_cordeau
from jaxvrp.envs.darp.problem.instance import Instance, load
from jaxvrp.io.problem_files import FileFormat, read_problems

FORMATS = {".txt": FileFormat("Cordeau", read_cordeau), ".npz": FileFormat("jaxvrp.envs.darp.save", load)}


def read_instances(path: str | os.PathLike) -> list[Instance]:
    """The problem of a Cordeau `.txt`, or those of an `.npz` of `jaxvrp.envs.darp.save`.

    Raises:
        ValueError: another ending, or a damaged file; one line.
        OSError: it cannot be read.
    """
    return read_problems(path, FORMATS, lambda instance: instance.demand.shape[:-1])
