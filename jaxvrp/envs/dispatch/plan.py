"""Days from files, and plans for them: what was asked, what was answered, and the stops of each vehicle."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvrp.envs.dispatch.driven_day import DrivenDay, PlannedDay, driven_day
from jaxvrp.envs.dispatch.env import Dispatch
from jaxvrp.envs.dispatch.moment import file as moment
from jaxvrp.envs.dispatch.moment.file import Moment
from jaxvrp.envs.dispatch.problem import day_file
from jaxvrp.envs.dispatch.problem.cordeau import NOTICE, read_cordeau
from jaxvrp.envs.dispatch.problem.day_file import REMEDY, NamedDay, day_in, read_days, unservable, warned
from jaxvrp.envs.dispatch.problem.inspection import inspect
from jaxvrp.envs.dispatch.problem.instance import Instance, requests_known
from jaxvrp.envs.dispatch.problem.orders import day_of, visits_of
from jaxvrp.envs.dispatch.problem.vroom import day_of_vroom
from jaxvrp.envs.dispatch.routes.schedule import planned_travel
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.episodes import Episode, whole
from jaxvrp.geography.streets import MATRIX, STRAIGHT
from jaxvrp.io.json_files import read_json
from jaxvrp.io.messages import number
from jaxvrp.io.problems.problem_files import UnknownFormatError, with_given
from jaxvrp.orders.orders import Case
from jaxvrp.orders.visits import in_json
from jaxvrp.orders.vroom import is_vroom
from jaxvrp.players import Searched
from jaxvrp.problems import Inspection, Problems

FORMAT = "jaxvrp-dispatch-plan-1"

SEARCH = "search"


def _plan_of_day(named: NamedDay, episode: Episode) -> dict[str, Any]:
    """What was answered and driven in an episode."""
    env, states = episode.env, episode.states
    day, is_planned = driven_day(env, states), isinstance(states, PlannedDay)
    stops = _stops(named, day)
    rejected, never = [named.requests[request] for request in day.rejected], unservable(named)
    late = (
        {"late": [named.requests[request] for request in np.flatnonzero(day.report.late)]} if env.travel_noise else {}
    )
    violations = day.report.violations.items()
    return {
        "format": FORMAT,
        "cost": 0.0 - float(np.asarray(episode.timesteps.team_reward, np.float64).sum()),
        "feasible": day.report.feasible and not rejected,
        "violations": {name: {"count": each.count, "first": each.where} for name, each in violations if each.count},
        "value": day.report.value,
        "travel": named.lasting(day.travel),
        "totals": {
            "served": f"{len(day.served)} of {len(day.requests)}",
            "value": f"{day.report.value:g}",
            **_ways(named, day),
            "known": _knowledge(day.instance, is_planned),
        },
        "reasons": _reasons(rejected, never),
        "rejected": rejected,
        "unservable": list(never),
        **late,
        "routes": _routes([named.vehicles[v] for v in day.vehicles], stops),
        **({} if is_planned else {"answers": [_answer(named, day, states, request) for request in day.requests]}),
        "stops": stops,
        **(
            {"visits": in_json(visits_of(named, day.report.legs))}
            if named.start and day.instance.depot is not None
            else {}
        ),
    }


def _ways(named: NamedDay, day: DrivenDay) -> dict[str, str]:
    """How long and how far vehicles drive, and drones, where there are some, fly."""
    is_drone = day.instance.is_drone
    fleets = {"driven": [v for v in day.vehicles if not is_drone[v]], "flown": [v for v in day.vehicles if is_drone[v]]}
    found = {}
    for verb, vehicles in fleets.items():
        minutes = sum(float(day.report.travel[v]) + day.tracks[v].idle for v in vehicles)
        ways = [day.kilometres(v, named.instance) for v in vehicles]
        far = "" if None in ways else f", {number(math.fsum(way or 0.0 for way in ways))} km"
        if minutes or verb == "driven":
            found[verb] = f"{named.amount(minutes)}{far}"
    return found


def _knowledge(instance: Instance, is_planned: bool) -> str:
    """What was known when the day began, and what came of the rest, in words."""
    known, later = requests_known(instance)
    at_first = f"{known} request{'' if known == 1 else 's'} when the day begins"
    arriving = f"{later} arrive{'s' if later == 1 else ''} later"
    if is_planned and later:
        return f"{at_first}, planned ahead; {arriving}, each answered as it arrives"
    if later:
        return f"{at_first}; {arriving}; each answered as it arrives"
    return f"all {at_first}; {'planned ahead' if is_planned else 'each answered by itself'}"


def _reasons(rejected: Sequence[str], never: Mapping[str, str]) -> list[str]:
    """Why a plan leaves requests out, a line each for those that nobody can ever serve."""
    others = [name for name in rejected if name not in never]
    first = [f"{len(others)} rejected, the first is {others[0]}"] if others else []
    return [*(f"{name} can't be served: {why}" for name, why in never.items()), *first]


def _routes(vehicles: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """By vehicle, its stops in a few words."""
    return {name: [f"{row['what']} {row['request']}" for row in rows if row["vehicle"] == name] for name in vehicles}


def _plan_of_moment(found: Moment) -> dict[str, Any]:
    """What vehicles will do, and what is late."""
    rows = moment.planned_rows(found)
    travel, late = float(planned_travel(found.prepared, found.plans).sum()), moment.late(found)
    return {
        "format": FORMAT,
        "feasible": not late,
        "violations": {},
        "reasons": [words for _, words in late],
        "late": list(dict.fromkeys(name for name, _ in late)),
        "travel": found.day.lasting(travel),
        "routes": _routes(found.day.vehicles, rows),
        "stops": rows,
    }


def _answer(named: NamedDay, day: DrivenDay, states: State, request: int) -> dict[str, Any]:
    """What was asked of all vehicles when a request arrived, and what came of it."""
    found = day.served.get(request)
    feasible, added = (np.asarray(getattr(states.offers, name)[request]) for name in ("feasible", "added"))
    return {
        "request": named.requests[request],
        "arrival": named.moment(day.instance.arrival[request]),
        "offers": {named.vehicles[v]: named.lasting(added[v]) for v in day.vehicles if feasible[v]},
        "vehicle": named.vehicles[found.vehicle] if found else None,
        "pickup": named.moment(found.pickup) if found else None,
        "dropoff": named.moment(found.dropoff) if found else None,
    }


def _stops(named: NamedDay, day: DrivenDay) -> list[dict[str, Any]]:
    """The stops of vehicle after vehicle; `departs` is when it leaves for it, or begins to load for the trip."""
    rows = []
    for v in day.vehicles:
        legs = ((leg.stop, leg.load) for leg in day.report.legs if leg.vehicle == v and leg.stop is not None)
        for at, (stop, load) in enumerate(legs, 1):
            rows.append(
                {
                    "vehicle": named.vehicles[v],
                    "trip": stop.trip if day.instance.depot is not None else None,
                    "stop": at,
                    "what": moment.PICKUP if stop.is_pickup else moment.DROPOFF,
                    "request": named.requests[stop.request],
                    "departs": named.moment(stop.departs),
                    "begin": named.moment(stop.start),
                    "load": load if named.scale == 1 else load / named.scale,
                }
            )
    return rows


class DispatchProblems(Problems[NamedDay | Moment]):
    """Days, and moments of days, in files: `.json`, also of VROOM's jobs, `.npz`, and Cordeau's `.txt`."""

    table, vehicle = "stops", "vehicle"
    columns = ("vehicle", "trip", "stop", "what", "request", "departs", "begin", "load")

    def assumed(self, path: str | os.PathLike, **given: float) -> dict[str, float]:
        """What `read` assumes of a file that does not say it, or what is given instead."""
        return with_given({"notice": NOTICE}, given) if pathlib.Path(path).suffix.lower() == ".txt" else {}

    def read(self, path: str | os.PathLike, **given: float) -> Sequence[NamedDay | Moment]:
        """Days, of `read_days` or `read_cordeau`, or a moment of one; errors as of `read_days`."""
        suffix = pathlib.Path(path).suffix.lower()
        if suffix == ".txt":
            try:
                return [read_cordeau(path, **given)]
            except ValueError as error:  # `darp` reads such files, too, and says what is wrong with one
                raise UnknownFormatError(str(error)) from None
        if suffix != ".json":
            return read_days(path)
        content = read_json(path, REMEDY, (day_file.FORMAT, moment.FORMAT))
        if isinstance(content, dict) and content.get("format") == moment.FORMAT:
            return [moment.moment_in(content, path)]
        if is_vroom(content) and not content.get("shipments"):
            return [day_of_vroom(content, path)]
        return [day_in(content, path)]

    def of_case(self, case: Case) -> tuple[NamedDay, list[str]]:
        """The day of orders and a fleet; see `day_of`."""
        day, notes = day_of(case)
        return warned(day, case.title), notes

    def solvers(self, problem: NamedDay | Moment, names: Sequence[str]) -> Sequence[str]:
        """What can solve it: a moment, the search; a day, all that plays, and first the search if some of it is known.

        Without a depot, if all of it is.
        """
        if isinstance(problem, Moment):
            return [SEARCH]
        known, later = requests_known(problem.instance)
        may_search = known and (not later or problem.instance.depot is not None)
        return [name for name in names if name != SEARCH or may_search]

    def has_page(self, problem: NamedDay | Moment) -> bool:
        """A moment is planned again, and not played."""
        return not isinstance(problem, Moment)

    def instance(self, problem: NamedDay | Moment, env: Dispatch) -> Instance | Moment:
        """What an environment plays, or what the search begins with."""
        return problem if isinstance(problem, Moment) else problem.instance

    def parameters(self, problem: NamedDay | Moment, env: Dispatch) -> dict[str, Any]:
        """The scenario and the sizes of an environment that plays a day.

        Raises:
            ValueError: `env`, which a policy was trained in, is of the other scenario.
        """
        day = problem.day if isinstance(problem, Moment) else problem
        instance, requests = day.instance, max(day.instance.max_requests, 1)
        travel = STRAIGHT if instance.travel_time is None else MATRIX
        if instance.depot is None:
            if not env.num_zones_each_way:
                raise ValueError(
                    f"the day has no depot, and the policy is of scenario '{env.scenario}'; give a day with a depot"
                )
            sizes = {"max_requests": requests, "num_vehicles": instance.num_vehicles}
            return {"scenario": "ride_pooling", **sizes, "travel": travel}
        vehicles = max(int(np.count_nonzero(~np.asarray(instance.is_drone))), 1)
        sizes = {"num_vehicles": vehicles, "num_drones": instance.num_vehicles - vehicles}
        return {"scenario": "same_day", "max_requests": requests, **sizes, "travel": travel}

    def cost_words(self, problem: NamedDay | Moment, env: Dispatch, found: Searched) -> str:
        """Of a day who is served, the minutes by which others are late, and the way; of a moment the way."""
        if isinstance(problem, Moment):
            return f"{problem.day.amount(found.cost)} to drive"
        figures = {name: float(value) for name, value in found.figures.items()}
        values, flown = problem.instance.value, figures["drone_travel"]
        words = [f"{figures['served']:g} of {values.size} requests served"]
        if np.unique(values).size > 1:
            words.append(f"value {number(figures['value_served'])} of {number(float(values.sum()))}")
        if figures.get("late_minutes"):
            words.append(f"{problem.amount(figures['late_minutes'])} late")
        words.append(f"{problem.amount(figures['travel'] - flown)} driven")
        return ", ".join([*words, f"{problem.amount(flown)} flown"] if flown else words)

    def inspect(self, problem: NamedDay | Moment, env: Dispatch) -> Inspection:
        """Figures and warnings of a day, in kilometres and minutes."""
        return inspect(problem if isinstance(problem, NamedDay) else problem.day)

    def plan(self, problem: NamedDay | Moment, episode: Episode) -> dict[str, Any]:
        """The plan of an episode, or of a moment; a JSON object with names and units of the user's."""
        if isinstance(episode.states, Moment):
            return _plan_of_moment(episode.states)
        assert isinstance(problem, NamedDay)
        return _plan_of_day(problem, whole(episode))


PROBLEMS = DispatchProblems()
