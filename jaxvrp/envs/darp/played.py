"""One played episode or plan as pictures, plans and replays need it: legs, loads, and what became of each request."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.problem.solution import SolutionReport, Violation, solution_report
from jaxvrp.envs.darp.rules import SLACK, State
from jaxvrp.episodes import until_end
from jaxvrp.io import plan_files


@dataclasses.dataclass(frozen=True)
class Leg:
    """A drive from one node to the next.

    Attributes:
        vehicle: the vehicle that drove; vehicles drive one after the other.
        origin, node: from where to where, 0 is the depot.
        leave: time at which the vehicle left `origin`.
        begin: time at which service began at `node`, or at which the vehicle was back at the depot.
        load_before, load: passengers on the way, and after the service at `node`; at the depot `load` is 0.
        wrong: whether the vehicle comes home with passengers or after the depot's deadline.
    """

    vehicle: int
    origin: int
    node: int
    leave: float
    begin: float
    load_before: int
    load: int
    wrong: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A plan and what `solution_report` says about it. Request r has its pickup at 2r - 1 and its drop-off at 2r.

    Attributes:
        instance: one problem as NumPy arrays.
        report: costs, violations, the times of service.
        legs: all drives, vehicle after vehicle, with the legs home.
        requests: `i64[n]`, the requests that are no padding.
        visited_by: `i64[N+1]`, the vehicle that visited a node first, -1 for none.
        moment: `i64[N+1]`, legs driven when a node had just been visited for the first time, 0 for never.
        delivered: `bool[N/2+1]`, by request: brought by the vehicle that had picked it up.
        begin: `f64[N+1]`, when service began, nan for never.
        late: `f64[N+1]`, time after the deadline, 0 if on time or never visited.
        ride: `f64[N/2+1]`, ride times by request, nan unless delivered.
        too_long: `bool[N/2+1]`, whether these exceed the limit.
    """

    instance: Instance
    report: SolutionReport
    legs: tuple[Leg, ...]
    requests: np.ndarray
    visited_by: np.ndarray
    moment: np.ndarray
    delivered: np.ndarray
    begin: np.ndarray
    late: np.ndarray
    ride: np.ndarray
    too_long: np.ndarray

    @property
    def num_vehicles(self) -> int:
        """Vehicles that are no padding."""
        return int((self.instance.capacity > 0).sum())

    @property
    def used(self) -> list[int]:
        """Vehicles that left the depot."""
        return sorted({leg.vehicle for leg in self.legs})

    def capacity(self, vehicle: int) -> int | None:
        """Passengers; None for a vehicle that does not exist."""
        exists = vehicle < self.instance.num_agents and self.instance.capacity[vehicle] > 0
        return int(self.instance.capacity[vehicle]) if exists else None

    def trouble(self, request: int) -> str:
        """What went wrong with a request, in a few words; empty if nothing did."""
        pickup, drop_off = 2 * request - 1, 2 * request
        if not self.delivered[request]:
            return "never dropped off" if self.moment[pickup] else "not served"
        late = max(self.late[pickup], self.late[drop_off])
        words = [f"late by {late:.3g}"] if late else []
        if self.too_long[request]:
            words.append(f"rides {self.ride[request]:.3g}, limit {float(self.instance.max_ride_time):.3g}")
        return ", ".join(words)

    def binds(self, node: int) -> bool:
        """Whether a node has a time window that says more than the depot's."""
        early, late = self.instance.earliest, self.instance.deadline
        return bool(early[node] > early[0] or late[node] < late[0])

    def span(self) -> tuple[float, float]:
        """The times worth showing: all that happened, the windows that bind, and the depot's if it closes soon."""
        nodes = (2 * self.requests[:, None] - np.array([1, 0])).ravel()
        closing = float(self.instance.deadline[0])
        ends = self.instance.deadline[nodes]
        first = min([float(self.instance.earliest[0]), *(leg.leave for leg in self.legs)])
        last = max([first + 1e-6, *ends[np.isfinite(ends) & (ends < closing)], *(leg.begin for leg in self.legs)])
        return first, closing if last < closing <= last + 0.35 * (last - first) else last


def from_actions(instance: Instance, actions: ArrayLike, tolerance: float = 1e-4) -> Plan:
    """Follow a plan through its legs.

    Args:
        instance: one problem, NumPy or JAX.
        actions: whole numbers `[T]`, as for `solution_report`.
        tolerance: by how much limits may be exceeded, as for `solution_report`.

    Raises:
        ValueError: `actions` are no whole numbers, `instance` is a batch.
    """
    report = solution_report(instance, actions, tolerance=tolerance)
    instance = jax.tree.map(np.asarray, instance)
    walk = _Walk(instance, report, tolerance)
    begin, pickups = report.service_start, slice(1, None, 2)
    late = np.nan_to_num(begin - instance.deadline, nan=0.0, neginf=0.0)
    ride = np.full(walk.delivered.size, np.nan)
    ride[1:] = begin[2::2] - begin[pickups] - instance.service_time[pickups]
    ride[~walk.delivered] = np.nan
    return Plan(
        instance=instance,
        report=report,
        legs=tuple(walk.legs),
        requests=np.flatnonzero(instance.demand[pickups] > 0) + 1,
        visited_by=walk.visited_by,
        moment=walk.moment,
        delivered=walk.delivered,
        begin=begin,
        late=np.where(late > tolerance, late, 0.0),
        ride=ride,
        too_long=ride > float(instance.max_ride_time) + tolerance,
    )


def plan_of(states: State) -> Plan:
    """The plan of one episode, up to its end.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    actions = actions_of(states)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    return from_actions(instance, actions, SLACK)


def actions_of(states: State) -> np.ndarray:
    """The actions that were executed in one episode, up to its end.

    Args:
        states: of steps 0..T, leaves with leading axis `[T+1]`. The episode ends with the first that is `done`, or
            before `step` stands still or falls back (a reset).

    Returns:
        `i64[actions]`, for `solution_report`: a vehicle that stays at the depot has a 0 of its own, and so has a padded
        vehicle that is passed over.

    Raises:
        ValueError: the states have no leading time axis, or more than one.
    """
    states = until_end(states)
    actions: list[int] = []
    vehicle = 0
    for agent, node in zip(states.current_agent[:-1].tolist(), states.current_node[1:].tolist(), strict=True):
        actions += [0] * (agent - vehicle) + [node]
        vehicle = agent + (node == 0)
    return np.array(actions, np.int64)


class _Walk:
    """Drives the routes of a report, in its order and with its times."""

    def __init__(self, instance: Instance, report: SolutionReport, tolerance: float):
        self.instance, self.begin, self.tolerance = instance, report.service_start, tolerance
        self.legs: list[Leg] = []
        self.visited_by = np.full(instance.num_nodes + 1, -1)
        self.moment = np.zeros(instance.num_nodes + 1, np.int64)
        self.delivered = np.zeros(instance.num_nodes // 2 + 1, bool)
        for vehicle, route in enumerate(report.routes):
            self._drive(vehicle, route)

    def _drive(self, vehicle: int, route: Sequence[int]) -> None:
        aboard: set[int] = set()
        nodes = [0, *route, 0] if route else []
        for origin, node in itertools.pairwise(nodes):
            load = self._load(aboard)
            leave, begin = self._times(vehicle, origin, node)
            if node and self.visited_by[node] < 0:
                self.visited_by[node], self.moment[node] = vehicle, len(self.legs) + 1
                self._serve(node, aboard)
            after = self._load(aboard) if node else 0
            wrong = node == 0 and (load > 0 or begin > self.instance.deadline[0] + self.tolerance)
            self.legs.append(Leg(vehicle, origin, node, leave, begin, load, after, bool(wrong)))

    def _load(self, aboard: set[int]) -> int:
        return int(self.instance.demand[list(aboard)].sum())

    def _serve(self, node: int, aboard: set[int]) -> None:
        if node % 2:
            aboard.add(node)
        elif node - 1 in aboard:
            aboard.remove(node - 1)
            self.delivered[node // 2] = True

    def _times(self, vehicle: int, origin: int, node: int) -> tuple[float, float]:
        """When the vehicle leaves and when service begins; the report tells the latter for first visits."""
        length = np.linalg.norm(np.diff(self.instance.locs[[origin, node]].astype(np.float64), axis=0))
        travel = float(length / self.instance.vehicle_speed)
        travel = float(np.round(travel)) if self.instance.round_travel_time else travel
        known = float(self.begin[node]) if node and self.visited_by[node] < 0 else None
        if self.legs and self.legs[-1].vehicle == vehicle:
            leave = self.legs[-1].begin + float(self.instance.service_time[origin])
        else:
            leave = float(self.instance.earliest[0]) if known is None else known - travel
        return leave, leave + travel if known is None else known


def name_of(node: int) -> str:
    """A node in words, by the number of its request."""
    if node == 0:
        return "depot"
    return f"{'pickup' if node % 2 else 'drop-off'} {(node + 1) // 2}"


def verdict(report: SolutionReport, most: int = 3) -> str:
    """'feasible', or the first `most` kinds of violations."""
    return plan_files.verdict(report.violations, _first_node, most)


def _first_node(name: str, found: Violation) -> str:
    """Where a constraint is broken first, in words."""
    return f"node {found.first_node}" if name == "unknown_node" else name_of(int(found.first_node or 0))
