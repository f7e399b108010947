"""Dial-a-ride problems from files, and plans for them: the stops of each vehicle, their times and loads."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index, read_instances, to_cordeau_index
from jaxvrp.envs.darp.problem.inspection import warnings_of
from jaxvrp.envs.darp.problem.instance import Instance, end_of, from_origin, prohibitive, stack
from jaxvrp.envs.darp.problem.solution import SolutionReport, routes_to_actions, solution_report
from jaxvrp.envs.darp.problem.vroom import MAX_RIDE_TIME, Shipments, entries_of, instance_of_vroom
from jaxvrp.envs.darp.rules import State
from jaxvrp.episodes import Episode, until_end
from jaxvrp.geography.streets import MATRIX, STRAIGHT
from jaxvrp.io.json_files import read_json
from jaxvrp.io.problems.problem_files import with_given
from jaxvrp.io.schema import list_of, object_with, whole_number
from jaxvrp.io.units import SECONDS
from jaxvrp.orders.vroom import NAMELESS, is_vroom
from jaxvrp.players import Searched
from jaxvrp.problems import Inspection, Problems

FORMAT = "jaxvrp-darp-plan-1"

UNSERVED = "unserved"
"""The one constraint that a plan may break."""

SHIPMENTS = ".json"
"""The ending of files of shipments; no other file here has it."""


def report_of(states: State, problem: Instance | None = None) -> tuple[Instance, SolutionReport]:
    """The problem of an episode, NumPy arrays, and what `solution_report` says of it.

    States are as for `actions_of`; their own instance counts where the problem that was read is not given.
    """
    state_instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    instance = state_instance if problem is None else jax.tree.map(np.asarray, problem)
    return instance, solution_report(instance, actions_of(states))


def actions_of(states: State) -> np.ndarray:
    """The actions that were executed in one episode, up to its end, `i64[actions]`, as for `solution_report`.

    A vehicle that stays at the depot has a 0 of its own, and so has a padded vehicle that is passed over. States are of
    steps 0..T, leaves `[T+1]`; the episode ends with the first that is `done`, or before `step` stands still or falls
    back (a reset). A ValueError says that they have no leading time axis, or more than one.
    """
    states = until_end(states)
    actions: list[int] = []
    vehicle = 0
    for agent, node in zip(states.current_agent[:-1].tolist(), states.current_node[1:].tolist(), strict=True):
        actions += [0] * (agent - vehicle) + [node]
        vehicle = agent + (node == 0)
    return np.array(actions, np.int64)


class DarpProblems(Problems[Instance]):
    """Dial-a-ride in files: Cordeau's `.txt`, `.npz`, and VROOM's shipments in `.json`."""

    table, vehicle = "stops", "vehicle"
    columns = ("vehicle", "stop", "node", "what", "request", "leave", "begin", "load", "late")
    is_stacked = True

    def assumed(self, path: str | os.PathLike, **given: float) -> dict[str, float]:
        """What `read` assumes of VROOM's shipments, or what is given instead."""
        return with_given({"max_ride_time": MAX_RIDE_TIME}, given) if Path(path).suffix.lower() == SHIPMENTS else {}

    def read(self, path: str | os.PathLike, **given: Any) -> list[Instance]:
        """The problems of a file; errors as of `read_instances` and `instance_of_vroom`."""
        content = _content_of(path)
        if content is None:
            return read_instances(path, elsewhere=[f"{SHIPMENTS} with shipments (VROOM)"])
        return [instance_of_vroom(content, path, **given)]

    def parameters(self, problem: Instance, env: Darp) -> dict[str, Any]:
        """The sizes of an environment that plays a problem, or a batch, and whether it enforces finite limits of it."""
        return {
            "num_nodes": problem.num_nodes,
            "num_agents": problem.num_agents,
            "travel": STRAIGHT if problem.travel_time is None else MATRIX,
            "limits": bool(np.isfinite([problem.max_ride_time, problem.max_route_duration]).any()),
        }

    def weighed(self, problem: Instance, env: Darp) -> Darp:
        """The environment in which a node that is left costs more than the longest plan for a problem, or a batch."""
        return env.replace(penalty_unvisited=float(prohibitive(problem).max()))

    def instance(self, problem: Instance, env: Darp) -> Instance:
        """A problem as the environment plays it, from its origin; of a batch, problems already are."""
        return from_origin(_bare(problem)) if np.ndim(problem.demand) == 1 else problem

    def stack(self, problems: Sequence[Instance]) -> Instance:
        """A batch of problems as the environment plays them."""
        return stack([from_origin(_bare(problem)) for problem in problems])

    def cost_words(self, problem: Instance, env: Darp, found: Searched) -> str:
        """For shipments, how many are served and how long vehicles drive; else the cost as a number."""
        if not isinstance(problem, Shipments):
            return super().cost_words(problem, env, found)
        unvisited, seconds = divmod(found.cost, float(env.penalty_unvisited))
        served, requests = (problem.num_nodes - int(unvisited)) // 2, problem.num_nodes // 2
        return f"{served} of {requests} requests served, {seconds / SECONDS:.1f} min driven"

    def inspect(self, problem: Instance, env: Darp) -> Inspection:
        """Warnings about one problem with the numbers of its file."""
        return Inspection(warnings=tuple(warnings_of(problem)))

    def plan(self, problem: Instance, episode: Episode) -> dict[str, Any]:
        """The plan of an episode, a JSON object; its keys are described in `docs/solve.md`.

        Nodes have the numbers of published files: n requests are picked up at 1 to n, and dropped off at n + 1 to 2n.
        """
        requests = _last_request(problem)

        def published(node: int) -> int:
            return int(to_cordeau_index(node, requests))

        _, report = report_of(episode.states, problem)
        served = [int(request) for request in np.flatnonzero(report.delivered)]
        stops = [
            {
                "vehicle": vehicle,
                "stop": number,
                "node": published(leg.node),
                "what": end_of(leg.node) if leg.node else "depot",
                "request": (leg.node + 1) // 2 or None,
                "leave": leg.leave,
                "begin": leg.begin,
                "load": leg.load,
                "late": float(report.late[leg.node]) if leg.node else 0.0,
            }
            for vehicle, legs in itertools.groupby(report.legs, key=lambda leg: leg.vehicle)
            for number, leg in enumerate(legs, 1)
        ]
        not_served = [
            request
            for request in range(1, report.delivered.size)
            if problem.demand[2 * request - 1] > 0 and not report.delivered[request]
        ]
        return {
            "format": FORMAT,
            **report.cost_entry,
            "distance": report.cost,
            "feasible": report.feasible,
            "violations": {
                name: {**found, "first_node": published(found["first_node"])} for name, found in report.broken.items()
            },
            "not_served": not_served,
            "routes": [[published(node) for node in route] for route in report.routes],
            "rides": {str(request): float(report.ride[request]) for request in served},
            "stops": stops,
            **(entries_of(problem, report.legs, not_served) if isinstance(problem, Shipments) else {}),
        }

    def recompute(self, problem: Instance, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Routes, distance, and how many nodes are not visited."""
        requests = _last_request(problem)
        object_with(routes=list_of(list_of(whole_number(2 * requests + 1, least=1))))(plan, "plan")
        routes = [from_cordeau_index(route, requests).tolist() for route in plan["routes"]]
        actions = routes_to_actions(routes, problem.num_agents)
        report = solution_report(problem, actions)
        broken = [
            f"{name} {found.count}" for name, found in report.violations.items() if found.count and name != UNSERVED
        ]
        if broken:
            raise ValueError(f"it breaks {', '.join(broken)}")
        return {"routes": plan["routes"], "distance": report.cost, UNSERVED: report.violations[UNSERVED].count}


def _last_request(problem: Instance) -> int:
    """The number of the last request that is no padding."""
    return int(np.flatnonzero(problem.demand > 0).max(initial=0) + 1) // 2


def _bare(problem: Instance) -> Instance:
    return problem.bare if isinstance(problem, Shipments) else problem


def _content_of(path: str | os.PathLike) -> Any:
    """The JSON value of a file of VROOM's shipments; None for any other file."""
    if Path(path).suffix.lower() != SHIPMENTS:
        return None
    try:
        content = read_json(path, "give a problem with shipments as VROOM reads it", NAMELESS)
    except ValueError:  # whoever reads other files says what is wrong
        return None
    return content if is_vroom(content) and content.get("shipments") else None


PROBLEMS = DarpProblems()
