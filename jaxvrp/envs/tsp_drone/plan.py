"""Problems of a truck and its drone from files, and plans for them: served customers, meetings, waiting times."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.tsp_drone.env import TruckAndDrone
from jaxvrp.envs.tsp_drone.played import Leg, Plan, from_operations, operations_of
from jaxvrp.envs.tsp_drone.problem.agatz import begins_like_agatz, read_agatz
from jaxvrp.envs.tsp_drone.problem.instance import Instance, from_origin, load, origins_of
from jaxvrp.envs.tsp_drone.problem.kuo import assumed_by_kuo, read_kuo
from jaxvrp.envs.tsp_drone.problem.murray_chu import ENDURANCES, FILES, NODES, read_murray_chu
from jaxvrp.envs.tsp_drone.problem.one_line import is_one_line, read_one_line
from jaxvrp.envs.tsp_drone.problem.operations import Operation
from jaxvrp.envs.tsp_drone.problem.solution import solution_report
from jaxvrp.envs.tsp_drone.tours import TruckDroneTours
from jaxvrp.episodes import Episode
from jaxvrp.io import plan_files
from jaxvrp.io.origin import told, told_entries
from jaxvrp.io.other_problems import other_problem
from jaxvrp.io.problem_files import DamagedFileError, FileFormat, UnknownFormatError, read_problems, with_given
from jaxvrp.show.schema import list_of, object_with, optional, whole_number
from jaxvrp.show.sheets import plan_sheets
from jaxvrp.toolbox import Sheet

SAVED = {".npz": FileFormat("jaxvrp.envs.tsp_drone.save", load)}
FORMATS = {".txt": FileFormat("Agatz", read_agatz, begins_like_agatz), **SAVED}

FORMAT = "jaxvrp-tsp-drone-plan-1"

COLUMNS = ("who", "leave", "arrive", "from", "to", "serves", "with_drone")
"""Of a way, and of the table."""

TOUR_COLUMNS = ("tour", *COLUMNS)
"""Likewise, with time windows."""


def assumed(path: str | os.PathLike, **given: Any) -> dict[str, Any]:
    """What `read_instances` assumes of a file that does not say it, or what is given instead."""
    if Path(path).name == NODES:
        return with_given({"endurance": ENDURANCES, "launch_time": 1.0, "recovery_time": 1.0}, given)
    is_of_lines = Path(path).suffix.lower() == ".txt" and is_one_line(path)
    return with_given({"alpha": 2.0} if is_of_lines else {}, given)


def assumed_of_tours(path: str | os.PathLike, **given: Any) -> dict[str, Any]:
    """What `read_tours` assumes of a file that does not say it, or what is given instead."""
    return assumed_by_kuo(given) if Path(path).suffix.lower() == ".csv" else {}


def read_instances(path: str | os.PathLike, **given: float) -> list[Instance]:
    """The problem of a `.txt` in Agatz's format, those of a `.txt` with one in each line, or of an `.npz` of `save`;
    of the `nodes.csv` of Murray and Chu, and the files beside it, those with an endurance of 20 and of 40 minutes.

    In a file of lines the drone is twice as fast as the truck. What is `given` takes the place of what is `assumed`.

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
    return _of_kind(path, FORMATS, has_windows=False)


def _of_folder(folder: Path, endurance: float | None = None, **given: float) -> list[Instance]:
    if said := other_problem(folder / NODES):
        raise DamagedFileError(said)
    if missing := [name for name in FILES if not (folder / name).exists()]:
        raise DamagedFileError(f"{folder / NODES} needs {', '.join(missing)} beside it; give a whole folder")
    each_of = ENDURANCES if endurance is None else (endurance,)
    return [read_murray_chu(folder, endurance=each, **given) for each in each_of]


def read_tours(path: str | os.PathLike, **given: Any) -> list[Instance]:
    """The problem with time windows of a `.csv` in Kuo's format, or those of an `.npz` of `save`.

    What is `given` takes the place of what is `assumed_of_tours`.

    Raises:
        ValueError, OSError: as `read_instances`; also where there are no time windows.
    """
    formats = {".csv": FileFormat("Kuo", functools.partial(read_kuo, **given)), **SAVED}
    return _of_kind(path, formats, has_windows=True)


def _of_kind(path: str | os.PathLike, formats: dict[str, FileFormat], *, has_windows: bool) -> list[Instance]:
    found = read_problems(path, formats, lambda instance: instance.exists.shape[:-1])
    if any(instance.has_windows != has_windows for instance in found):
        env = "tsp_drone" if has_windows else "truck_drone_tours"
        raise UnknownFormatError(f"{path} has {'no ' * has_windows}time windows; make '{env}' to solve it")
    return found


def parameters_of(instance: Instance, env: TruckAndDrone) -> dict[str, Any]:
    """The size of an environment that plays a problem."""
    del env
    return {"num_nodes": instance.num_nodes}


def weighed(instance: Instance, env: TruckDroneTours) -> TruckDroneTours:
    """The environment in which a customer that is left costs more than all ways of a problem."""
    reach = np.linalg.norm(instance.locs - instance.locs[0], axis=1).max()
    price = max(float(instance.truck_price), float(instance.drone_price))
    return env.replace(unserved_price=float(4.0 * instance.num_nodes * reach * price) or 1.0)


def instance_of(instance: Instance, env: TruckAndDrone) -> Instance:
    """A problem as the environment plays it, from its origin."""
    del env
    return from_origin(instance)


def label_episode(instance: Instance, episode: dict[str, Any]) -> dict[str, Any]:
    """The episode with the times and places of the problem's file."""
    clock, place = (origin.tolist() for origin in origins_of(instance).values())
    origins = {**dict.fromkeys(("served_at", "leave", "arrive", "since", "until", "clock"), clock), "position": place}
    moved = {name: told_entries(episode[name], origins) for name in ("nodes", "legs", "waits", "steps")}
    return {**episode, **moved, "makespan": told(episode["makespan"], clock)}


def plan_of(instance: Instance, episode: Episode) -> dict[str, Any]:
    """The plan of an episode, a JSON object; its keys are described in `docs/solve.md`.

    What follows the end is cut.

    Raises:
        ValueError: the states are of no or of several episodes.
    """
    env, operations = episode.env, operations_of(episode.states)
    plan = from_operations(jax.tree.map(np.asarray, instance), operations, allow_revisits=env.allow_revisits)
    common = {
        "format": FORMAT,
        "feasible": plan.report.feasible,
        "violations": plan_files.broken(plan.report.violations),
    }
    legs = sorted(plan.legs, key=lambda leg: (leg.tour, leg.leave))
    if instance.has_windows:
        numbered = list(enumerate(plan.tours, 1))
        return {
            **common,
            "cost": plan.report.cost,
            "routes": {name: route for number, tour in numbered for name, route in _routes(tour, f" {number}").items()},
            "tours": [[_as_json(each) for each in tour] for tour in plan.tours],
            "ways": [{"tour": leg.tour + 1, **_way(plan, leg)} for leg in legs],
        }
    return {
        **common,
        "makespan": plan.report.cost,
        "routes": _routes(plan.tours[0]),
        "operations": [_as_json(each) for each in operations],
        "ways": [_way(plan, leg) for leg in legs],
    }


def sheets_of(instance: Instance, plan: Mapping[str, Any]) -> list[Sheet]:
    """A sheet for each truck and each drone of tandems, named as in the routes."""
    del instance
    ways = [{**way, "who": f"{way['who']} {way['tour']}"} for way in plan["ways"]]
    shown = [{name: value for name, value in way.items() if name != "tour"} for way in ways]
    return plan_sheets({"ways": shown, "routes": plan["routes"]})


def _routes(operations: Sequence[Operation], number: str = "") -> dict[str, list[int]]:
    """Stops of the truck, and customers of the drone."""
    stops = [node for each in operations for node in (*each.internal, each.end)]
    # A meeting where the truck stayed is no stop.
    driven = [node for before, node in itertools.pairwise((0, *stops)) if node != before]
    flown = [each.fly for each in operations if each.fly is not None]
    return {f"truck{number}": [0, *driven], f"drone{number}": flown}


def _as_json(operation: Operation) -> dict[str, Any]:
    start, end, fly, internal = operation
    return {"start": start, "fly": fly, "internal": list(internal), "end": end}


def _way(plan: Plan, leg: Leg) -> dict[str, Any]:
    return {
        "who": leg.who,
        "leave": leg.leave,
        "arrive": leg.arrive,
        "from": leg.origin,
        "to": leg.node,
        "serves": plan.serves(leg),
        "with_drone": bool(leg.carries),
    }


def recompute(instance: Instance, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Operations and the makespan; see `jaxvrp.InstanceFiles.recompute`."""
    node = whole_number(instance.num_nodes)
    operation = object_with(start=node, fly=optional(node), internal=list_of(node), end=node)
    object_with(operations=list_of(operation))(plan, "plan")
    operations = [
        Operation(each["start"], each["end"], each["fly"], tuple(each["internal"])) for each in plan["operations"]
    ]
    return {"operations": plan["operations"], "makespan": solution_report(instance, operations, strict=True).cost}
