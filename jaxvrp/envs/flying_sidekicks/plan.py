"""Problems of a truck with several drones from files, and plans for them: tasks, flights, waiting times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.flying_sidekicks import rules
from jaxvrp.envs.flying_sidekicks.env import FlyingSidekicks
from jaxvrp.envs.flying_sidekicks.instance import Instance, load
from jaxvrp.envs.flying_sidekicks.murray_raj import LOCATIONS, MOST_DRONES, ROADS, VEHICLES, read_all, tables_of
from jaxvrp.envs.flying_sidekicks.report import DRIVE, LAUNCH, RECOVER, SERVE, Task, flights_report, name_of_drone
from jaxvrp.envs.flying_sidekicks.rules import State
from jaxvrp.envs.truck_and_drone.plan import common_entries
from jaxvrp.episodes import Episode, until_end
from jaxvrp.io.problems.problem_files import DamagedFileError, FileFormat, read_problems
from jaxvrp.plausible import out_of_reach
from jaxvrp.problems import Inspection, Problems

FORMATS = {".npz": FileFormat("jaxvrp.envs.flying_sidekicks.save", load)}

FORMAT = "jaxvrp-flying-sidekicks-plan-1"

KINDS = {DRIVE: rules.DRIVE, SERVE: rules.SERVE, LAUNCH: rules.LAUNCH, RECOVER: rules.RECOVER}
"""Kinds of tasks by their names in plans."""


def row_of(table: str, num_drones: int, *, battery: bool) -> int:
    """Which problem of a folder is that with so many drones of a table of vehicles."""
    return (len(VEHICLES) * battery + VEHICLES.index(table)) * MOST_DRONES + num_drones - 1


def steps_of(states: State) -> list[Task]:
    """What the driver did in each step of one episode, up to its end; leaves of `states` are `[T+1, ...]`.

    Raises:
        ValueError: the states are of no or of several episodes.
    """
    names = {number: name for name, number in KINDS.items()}
    done = until_end(states).task[1:].tolist()
    return [
        Task(names[kind], node, drone if kind in (rules.LAUNCH, rules.RECOVER) else None) for kind, node, drone in done
    ]


def tasks_of(states: State) -> list[Task]:
    """As `steps_of`, with the service with which driving on begins as a task of its own."""
    tasks: list[Task] = []
    pending = None
    for step in steps_of(states):
        if step.kind == DRIVE and pending:
            tasks.append(Task(SERVE, pending))
        if step.kind in (DRIVE, SERVE):
            pending = step.node if step.kind == DRIVE else None
        tasks.append(step)
    return tasks


class SidekickProblems(Problems[Instance]):
    """A truck with several drones in files: the folders of Murray & Raj, and `.npz`."""

    table, vehicle = "events", "who"
    columns = ("who", "does", "begin", "end", "node", "drone")

    def read(self, path: str | os.PathLike, **given: Any) -> list[Instance]:
        """The problems of a `tbl_locations.csv` of Murray & Raj, and the files beside it and above, or of an `.npz`.

        Of a folder these are 32: with a fixed endurance, for each of the four tables of vehicles, with 1 to 4 drones;
        then all of them with a battery. See `row_of`.

        Raises:
            ValueError: another name, or a damaged file; one line.
            OSError: it cannot be read.
        """
        folder = Path(path).parent
        if Path(path).name != LOCATIONS:
            published = f"{LOCATIONS} (Murray & Raj)"
            return read_problems(path, FORMATS, lambda instance: instance.exists.shape[:-1], elsewhere=[published])
        needed = (folder / ROADS, *tables_of(folder))
        if missing := [str(file) for file in needed if not file.exists()]:
            raise DamagedFileError(f"{path} needs {', '.join(missing)}; give a file of a whole set")
        try:
            return read_all(folder)
        except ValueError as error:
            raise DamagedFileError(str(error)) from None

    def parameters(self, problem: Instance, env: FlyingSidekicks) -> dict[str, Any]:
        """The size of an environment that plays a problem."""
        return {"num_nodes": problem.num_nodes, "num_drones": problem.num_drones}

    def inspect(self, problem: Instance, env: FlyingSidekicks) -> Inspection:
        """Warnings about one problem with the numbers of its file, as if its units had been mixed."""
        same_node = np.eye(problem.num_nodes, dtype=bool)
        out, back = (np.where(same_node, np.inf, drain) for drain in (problem.drain_out, problem.drain_back))
        least = out.min(axis=1) + back.min(axis=2)  # to each node from any, and from it to any
        may = problem.exists & ~np.asarray(problem.no_fly) & (np.arange(problem.num_nodes) > 0)
        # Of the drone that is nearest to reaching a customer.
        drone = np.where(may, least - problem.endurance[:, None], np.inf).min(axis=1).argmin()
        needs = least[drone, may[drone]]
        return Inspection(warnings=tuple(out_of_reach("endurance", float(problem.endurance[drone]), needs)))

    def plan(self, problem: Instance, episode: Episode) -> dict[str, Any]:
        """The plan of an episode, a JSON object; its keys are described in `docs/solve.md`.

        What follows the end is cut.

        Raises:
            ValueError: the states are of no or of several episodes.
        """
        tasks = tasks_of(episode.states)
        report = flights_report(jax.tree.map(np.asarray, problem), tasks)
        flown = {
            name_of_drone(drone): [task.node for task in tasks if (task.kind, task.drone) == (LAUNCH, drone)]
            for drone in sorted({task.drone for task in tasks if task.drone is not None})
        }
        return {
            **common_entries(FORMAT, report),
            "makespan": report.cost,
            "routes": {"truck": [0, *(task.node for task in tasks if task.kind == DRIVE)], **flown},
            "tasks": [task._asdict() for task in tasks],
            "events": [event._asdict() for event in report.events],
        }


PROBLEMS = SidekickProblems()
