"""Problems of a truck and its drone from files, and plans for them: served customers, meetings, waiting times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.played import from_operations, operations_of
from jaxvrp.envs.tsp_drone.problem.agatz import read_agatz
from jaxvrp.envs.tsp_drone.problem.instance import Instance, load
from jaxvrp.envs.tsp_drone.problem.kuo import read_kuo
from jaxvrp.envs.tsp_drone.problem.one_line import is_one_line, read_one_line
from jaxvrp.envs.tsp_drone.rules import State
from jaxvrp.io import plan_files
from jaxvrp.io.problem_files import DamagedFileError, FileFormat, read_problems

FORMATS = {
    ".txt": FileFormat("Agatz", read_agatz),
    ".csv": FileFormat("Kuo", read_kuo),
    ".npz": FileFormat("jaxvrp.envs.tsp_drone.save", load),
}

FORMAT = "jaxvrp-tsp-drone-plan-1"

COLUMNS = ("who", "leave", "arrive", "from", "to", "serves", "with_drone")
"""Of a way, and of the table."""


def read_instances(path: str | os.PathLike) -> list[Instance]:
    """The problem of a `.txt` of Agatz or a `.csv` of Kuo, those of a `.txt` with one in each line, or of an `.npz`.

    In a file of lines the drone is twice as fast as the truck.

    Raises:
        ValueError: another ending, or a damaged file; one line.
        OSError: it cannot be read.
    """
    if Path(path).suffix.lower() == ".txt" and is_one_line(path):
        try:
            return read_one_line(path)
        except ValueError as error:
            raise DamagedFileError(str(error)) from None
    return read_problems(path, FORMATS, lambda instance: instance.exists.shape[:-1])


def parameters_of(instance: Instance, env: TspDrone) -> dict[str, Any]:
    """The size of an environment that plays a problem."""
    del env
    return {"num_nodes": instance.num_nodes}


def plan_of(instance: Instance, env: TspDrone, states: State) -> dict[str, Any]:
    """The plan of an episode, a JSON object; its keys are described in `docs/solve.md`.

    Leaves of `states` are `[T+1, ...]`, of one episode; what follows its end is cut.

    Raises:
        ValueError: the states are of no or of several episodes.
    """
    operations = operations_of(states)
    plan = from_operations(jax.tree.map(np.asarray, instance), operations, allow_revisits=env.allow_revisits)
    truck = [leg.node for leg in plan.legs if leg.who == "truck"]
    return {
        "format": FORMAT,
        "makespan": plan.report.cost,
        "feasible": plan.report.feasible,
        "violations": plan_files.broken(plan.report.violations),
        "routes": {"truck": [0, *truck], "drone": [each.fly for each in operations if each.fly is not None]},
        "operations": [
            {"start": each.start, "fly": each.fly, "internal": list(each.internal), "end": each.end}
            for each in operations
        ],
        "ways": [
            {
                "who": leg.who,
                "leave": leg.leave,
                "arrive": leg.arrive,
                "from": leg.origin,
                "to": leg.node,
                "serves": plan.serves(leg),
                "with_drone": leg.carries,
            }
            for leg in sorted(plan.legs, key=lambda leg: leg.leave)
        ],
    }
