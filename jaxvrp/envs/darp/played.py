"""One played episode or plan as pictures, plans and replays need it: legs, loads, and what became of each request."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.plan import actions_of
from jaxvrp.envs.darp.problem.instance import Instance, name_of
from jaxvrp.envs.darp.problem.solution import Leg, SolutionReport, solution_report
from jaxvrp.envs.darp.rules import State


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
    report = solution_report(instance, actions, tolerance=tolerance)
    instance = jax.tree.map(np.asarray, instance)
    moment = np.zeros(instance.num_nodes + 1, np.int64)
    for driven, leg in reversed([*enumerate(report.legs, 1)]):
        moment[leg.node] = driven if leg.node else 0
    return Plan(
        instance=instance,
        report=report,
        legs=report.legs,
        requests=np.flatnonzero(instance.demand[1::2] > 0) + 1,
        visited_by=report.served_by,
        moment=moment,
        delivered=report.delivered,
        begin=report.service_start,
        late=report.late,
        ride=report.ride,
        too_long=report.too_long,
    )


def plan_of(states: State) -> Plan:
    """The plan of one episode, states as for `actions_of`."""
    instance = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.instance)
    return from_actions(instance, actions_of(states))


def verdict(report: SolutionReport, most: int = 3) -> str:
    """'feasible', or the first `most` kinds of violations."""
    return report.verdict(most)


__all__ = ["Leg", "Plan", "actions_of", "from_actions", "name_of", "plan_of", "verdict"]
