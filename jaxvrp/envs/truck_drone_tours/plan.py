"""Problems of tandems with time windows from files, and plans for them: tours, ways, money."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone.operations import tours_of
from jaxvrp.envs.truck_and_drone.plan import (
    COLUMNS,
    TruckAndDroneProblems,
    as_json,
    common_entries,
    flown_customers,
    least_legs,
    operations_of,
    routes,
    way,
)
from jaxvrp.envs.truck_drone_tours.env import TruckDroneTours
from jaxvrp.envs.truck_drone_tours.problem.instance import Instance, load
from jaxvrp.envs.truck_drone_tours.problem.kuo import assumed_by_kuo, read_kuo
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report
from jaxvrp.episodes import Episode
from jaxvrp.io.problems.plan_files import Sheet
from jaxvrp.io.problems.problem_files import FileFormat, read_problems
from jaxvrp.plausible import degrees, extent, out_of_reach, paces
from jaxvrp.problems import Inspection

FORMAT = "jaxvrp-truck-drone-tours-plan-1"


class ToursProblems(TruckAndDroneProblems[Instance]):
    """Tandems with time windows in files: of Kuo, and `.npz`."""

    columns = ("tour", *COLUMNS)

    def assumed(self, path: str | os.PathLike, **given: Any) -> dict[str, Any]:
        """What `read` assumes of a file that does not say it, or what is given instead."""
        return assumed_by_kuo(given) if Path(path).suffix.lower() == ".csv" else {}

    def read(self, path: str | os.PathLike, **given: Any) -> list[Instance]:
        """The problem with time windows of a `.csv` in Kuo's format, or those of an `.npz` of `save`.

        What is `given` takes the place of what is `assumed`.

        Raises:
            ValueError: another ending, no time windows, or a damaged file; one line.
            OSError: it cannot be read.
        """
        kuo, saved = functools.partial(read_kuo, **given), FileFormat("jaxvrp.envs.truck_drone_tours.save", load)
        formats = {".csv": FileFormat("Kuo", kuo), ".npz": saved}
        return read_problems(path, formats, lambda instance: instance.exists.shape[:-1])

    def weighed(self, problem: Instance, env: TruckDroneTours) -> TruckDroneTours:
        """The environment in which a customer that is left costs more than all ways of a problem."""
        reach = np.linalg.norm(problem.locs - problem.locs[0], axis=1).max()
        price = max(float(problem.truck_price), float(problem.drone_price))
        return env.replace(unserved_price=float(4.0 * problem.num_nodes * reach * price) or 1.0)

    def inspect(self, problem: Instance, env: TruckDroneTours) -> Inspection:
        """Warnings about one problem with the numbers of its file, as if its units had been mixed."""
        places = np.asarray(problem.locs, np.float64)
        if found := tuple(degrees(places, "node 0")):
            return Inspection(warnings=found)
        speeds = {f"{kind} speed": 1.0 / float(getattr(problem, f"{kind}_pace")) for kind in ("truck", "drone")}
        horizon, shown = float(problem.closes[0] - problem.opens[0]), "{:.4g}".format
        fast = paces(speeds, lambda speed: f"{shown(speed)} in a unit of time", extent(places), horizon, shown)
        flown = flown_customers(problem)
        needs = 2 * float(problem.drone_pace) * least_legs(problem, flown) + problem.service[flown]
        return Inspection(warnings=(*fast, *out_of_reach("endurance", float(problem.endurance), needs)))

    def plan(self, problem: Instance, episode: Episode) -> dict[str, Any]:
        """The plan of an episode, a JSON object; its keys are described in `docs/solve.md`.

        What follows the end is cut.

        Raises:
            ValueError: the states are of no or of several episodes.
        """
        tours = tours_of(operations_of(episode.states))
        report, numbered = tours_report(problem, tours), list(enumerate(tours, 1))
        return {
            **common_entries(FORMAT, report),
            "routes": {name: route for number, tour in numbered for name, route in routes(tour, f" {number}").items()},
            "tours": [[as_json(each) for each in tour] for tour in tours],
            "ways": [
                {"tour": leg.tour + 1, **way(leg)}
                for leg in sorted(report.ways.legs, key=lambda leg: (leg.tour, leg.leave))
            ],
        }

    def sheets(self, problem: Instance, plan: Mapping[str, Any]) -> Sequence[Sheet]:
        """A sheet for each truck and each drone of tandems, named as in the routes."""
        ways = [{**way, "who": f"{way['who']} {way['tour']}"} for way in plan["ways"]]
        shown = [{name: value for name, value in way.items() if name != "tour"} for way in ways]
        return super().sheets(problem, {"ways": shown, "routes": plan["routes"]})


PROBLEMS = ToursProblems()
