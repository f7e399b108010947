"""Problems of a truck and its drone from files, and plans for them: served customers, meetings, waiting times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_and_drone.plan import (
    TruckAndDroneProblems,
    as_json,
    common_entries,
    flown_customers,
    least_legs,
    operations_of,
    routes,
    way,
)
from jaxvrp.envs.tsp_drone.env import TspDrone
from jaxvrp.envs.tsp_drone.problem import murray_chu
from jaxvrp.envs.tsp_drone.problem.agatz import begins_like_agatz, read_agatz
from jaxvrp.envs.tsp_drone.problem.instance import load
from jaxvrp.envs.tsp_drone.problem.murray_chu import ENDURANCES, FILES, NODES, read_murray_chu
from jaxvrp.envs.tsp_drone.problem.one_line import is_one_line, read_one_line
from jaxvrp.envs.tsp_drone.problem.solution import solution_report
from jaxvrp.episodes import Episode
from jaxvrp.io.problems.other_problems import other_problem
from jaxvrp.io.problems.problem_files import DamagedFileError, FileFormat, read_problems, with_given
from jaxvrp.io.schema import list_of, object_with, optional, whole_number
from jaxvrp.plausible import degrees, out_of_reach
from jaxvrp.problems import Inspection

FORMAT = "jaxvrp-tsp-drone-plan-1"

FORMATS = {
    ".txt": FileFormat("Agatz", read_agatz, begins_like_agatz),
    ".npz": FileFormat("jaxvrp.envs.tsp_drone.save", load),
}


def _of_folder(folder: Path, endurance: float | None = None, **given: Any) -> list[Instance]:
    if said := other_problem(folder / NODES):
        raise DamagedFileError(said)
    if missing := [name for name in FILES if not (folder / name).exists()]:
        raise DamagedFileError(f"{folder / NODES} needs {', '.join(missing)} beside it; give a whole folder")
    each_of = ENDURANCES if endurance is None else (endurance,)
    return [read_murray_chu(folder, endurance=each, **given) for each in each_of]


class TspDroneProblems(TruckAndDroneProblems[Instance]):
    """A truck and its drone in files: of Agatz, of a line each, of Murray and Chu, and `.npz`."""

    choices = ("allow_revisits",)

    def assumed(self, path: str | os.PathLike, **given: Any) -> dict[str, Any]:
        """What `read` assumes of a file that does not say it, or what is given instead."""
        if Path(path).name == NODES:
            return murray_chu.assumed(**given)
        is_of_lines = Path(path).suffix.lower() == ".txt" and is_one_line(path)
        return with_given({"alpha": 2.0} if is_of_lines else {}, given)

    def read(self, path: str | os.PathLike, **given: Any) -> list[Instance]:
        """The problems of a file.

        A `.txt` in Agatz's format has one, a `.txt` of lines one in each, with a drone twice as fast as the truck, and
        an `.npz` those of `save`. A `nodes.csv` of Murray and Chu, and the files beside it, have one with an endurance
        of 20 minutes and one of 40. What is `given` takes the place of what is `assumed`.

        Raises:
            ValueError: another ending, time windows, or a damaged file; one line.
            OSError: it cannot be read.
        """
        if Path(path).name == NODES:
            return _of_folder(Path(path).parent, **given)
        if Path(path).suffix.lower() == ".txt" and is_one_line(path):
            try:
                return read_one_line(path, **given)
            except ValueError as error:
                raise DamagedFileError(str(error)) from None
        published = f"{NODES} (Murray & Chu)"
        return read_problems(path, FORMATS, lambda instance: instance.exists.shape[:-1], elsewhere=[published])

    def inspect(self, problem: Instance, env: TspDrone) -> Inspection:
        """Warnings about one problem with the numbers of its file, as if its units had been mixed."""
        if problem.truck_time is None and (found := tuple(degrees(np.asarray(problem.locs, np.float64), "node 0"))):
            return Inspection(warnings=found)
        legs = least_legs(problem, flown_customers(problem))
        return Inspection(warnings=tuple(out_of_reach("the longest flight", float(problem.max_flight), 2 * legs)))

    def plan(self, problem: Instance, episode: Episode) -> dict[str, Any]:
        """The plan of an episode, a JSON object; its keys are described in `docs/solve.md`.

        What follows the end is cut.

        Raises:
            ValueError: the states are of no or of several episodes.
        """
        assert isinstance(episode.env, TspDrone)
        operations = operations_of(episode.states)
        report = solution_report(problem, operations, allow_revisits=episode.env.allow_revisits)
        return {
            **common_entries(FORMAT, report),
            "makespan": report.cost,
            "routes": routes(report.operations),
            "operations": [as_json(each) for each in operations],
            "ways": [way(leg) for leg in sorted(report.ways.legs, key=lambda leg: leg.leave)],
        }

    def recompute(self, problem: Instance, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Operations and the makespan."""
        node = whole_number(problem.num_nodes)
        operation = object_with(start=node, fly=optional(node), internal=list_of(node), end=node)
        object_with(operations=list_of(operation))(plan, "plan")
        operations = [
            Operation(each["start"], each["end"], each["fly"], tuple(each["internal"])) for each in plan["operations"]
        ]
        return {"operations": plan["operations"], "makespan": solution_report(problem, operations, strict=True).cost}


PROBLEMS = TspDroneProblems()
