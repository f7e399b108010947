"""One played episode or plan as pictures, plans and replays need it: legs, loads, and what became of each request."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.problem.solution import SolutionReport, solution_report, tolerance_of
from jaxvrp.envs.darp.rules import State
from jaxvrp.episodes import until_end
from jaxvrp.io import plan_files
from jaxvrp.io.violations import Violation


@dataclasses.dataclass(frozen=True)
class Leg:
    """A drive from one node to the next."""

    vehicle: int  # vehicles drive one after the other
    origin: int  # from where, 0 is the depot
    node: int  # to where
    leave: float  # when the vehicle left `origin`
    begin: float  # when service began at `node`, or the vehicle was back at the depot
    load_before: int  # passengers on the way
    load: int  # passengers after the service at `node`; 0 at the depot
    wrong: bool  # whether the vehicle comes home with passengers or after the depot's deadline


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A plan and what `solution_report` says about it. Request r has its pickup at 2r - 1 and its drop-off at 2r."""

    instance: Instance  # one problem as NumPy arrays
    report: SolutionReport  # costs, violations, the times of service
    legs: tuple[Leg, ...]  # all drives, vehicle after vehicle, with the legs home
    requests: np.ndarray  # `i64[n]`, the requests that are no padding
    visited_by: np.ndarray  # `i64[N+1]`, the vehicle that visited a node first, -1 for none
    moment: np.ndarray  # `i64[N+1]`, legs driven when a node had just been visited for the first time, 0 for never
    delivered: np.ndarray  # `bool[N/2+1]`, by request: brought by the vehicle that had picked it up
    begin: np.ndarray  # `f64[N+1]`, when service began, nan for never
    late: np.ndarray  # `f64[N+1]`, time after the deadline, 0 if on time or never visited
    ride: np.ndarray  # `f64[N/2+1]`, ride times by request, nan unless delivered
    too_long: np.ndarray  # `bool[N/2+1]`, whether these exceed the limit

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

    def span(self) -> tuple[float, float]:
        """The times worth showing: all that happened, the windows that bind, and the depot's if it closes soon."""
        nodes = (2 * self.requests[:, None] - np.array([1, 0])).ravel()
        closing = float(self.instance.deadline[0])
        ends = self.instance.deadline[nodes]
        first = min([float(self.instance.earliest[0]), *(leg.leave for leg in self.legs)])
        last = max([first + 1e-6, *ends[np.isfinite(ends) & (ends < closing)], *(leg.begin for leg in self.legs)])
        return first, closing if last < closing <= last + 0.35 * (last - first) else last


def from_actions(instance: Instance, actions: ArrayLike, tolerance: float | None = None) -> Plan:
    """Follow a plan, arguments and errors as of `solution_report`, through its legs."""
    tolerance = tolerance_of(instance) if tolerance is None else tolerance
    report = solution_report(instance, actions, tolerance=tolerance)
    instance = jax.tree.map(np.asarray, instance)
    legs: list[Leg] = []
    visited_by = np.full(instance.num_nodes + 1, -1)
    moment = np.zeros(instance.num_nodes + 1, np.int64)
    delivered = np.zeros(instance.num_nodes // 2 + 1, bool)
    for vehicle, route in enumerate(report.routes):
        aboard: set[int] = set()
        load, leave = 0, None
        for origin, node in itertools.pairwise([0, *route, 0] if route else []):
            is_first_visit = node > 0 and visited_by[node] < 0
            length = np.linalg.norm(np.diff(instance.locs[[origin, node]].astype(np.float64), axis=0))
            travel = float(length / instance.vehicle_speed)
            travel = float(np.round(travel)) if instance.round_travel_time else travel
            if leave is None:
                leave = float(report.service_start[node]) - travel if is_first_visit else float(instance.earliest[0])
            start = float(report.service_start[node]) if is_first_visit else leave + travel
            if is_first_visit:
                visited_by[node], moment[node] = vehicle, len(legs) + 1
                if node % 2:
                    aboard.add(node)
                elif node - 1 in aboard:
                    aboard.remove(node - 1)
                    delivered[node // 2] = True
            before, load = load, int(instance.demand[list(aboard)].sum()) if node else 0
            wrong = node == 0 and (before > 0 or start > instance.deadline[0] + tolerance)
            legs.append(Leg(vehicle, origin, node, leave, start, before, load, bool(wrong)))
            leave = start + float(instance.service_time[node])
    begin, pickups = report.service_start, slice(1, None, 2)
    late = np.nan_to_num(begin - instance.deadline, nan=0.0, neginf=0.0)
    ride = np.full(delivered.size, np.nan)
    ride[1:] = begin[2::2] - begin[pickups] - instance.service_time[pickups]
    ride[~delivered] = np.nan
    return Plan(
        instance=instance,
        report=report,
        legs=tuple(legs),
        requests=np.flatnonzero(instance.demand[pickups] > 0) + 1,
        visited_by=visited_by,
        moment=moment,
        delivered=delivered,
        begin=begin,
        late=np.where(late > tolerance, late, 0.0),
        ride=ride,
        too_long=ride > float(instance.max_ride_time) + tolerance,
    )


def plan_of(states: State) -> Plan:
    """The plan of one episode, states as for `actions_of`."""
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    return from_actions(instance, actions_of(states))


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


def name_of(node: int) -> str:
    """A node in words, by the number of its request."""
    return f"{'pickup' if node % 2 else 'drop-off'} {(node + 1) // 2}" if node else "depot"


def verdict(report: SolutionReport, most: int = 3) -> str:
    """'feasible', or the first `most` kinds of violations."""

    def first_node(name: str, found: Violation) -> str:
        return f"node {found.first_node}" if name == "unknown_node" else name_of(int(found.first_node or 0))

    return plan_files.verdict(report.violations, first_node, most)
