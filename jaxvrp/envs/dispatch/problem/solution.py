"""A driven day, checked: every stop's time computed again in plain NumPy, every promise and every limit looked at."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jaxvrp.envs.dispatch.problem.instance import Instance, Spot, minutes_along, slack_of


class Stop(NamedTuple):
    """A stop of a driven day: of which vehicle, for which request, if it was its pickup, and when service began.

    With a depot all stops are drop-offs; stops of one `trip` of a vehicle were loaded together.
    """

    vehicle: int
    request: int
    is_pickup: bool
    start: float
    trip: int = 0
    departs: float = 0.0
    """When the vehicle left for it, or began to load for its trip."""
    way: float | None = None
    """Minutes that it drove there from where it was then; None: from its last stop."""


class Leg(NamedTuple):
    """A way that the check computed again: to a stop, or (None) home to the depot at the end of a trip.

    `leaves`, `arrival` and `ended` are when the vehicle sets out, is there, and has ended the service there;
    `load_before` and `load` are on board on the way, and after the service.
    """

    vehicle: int
    stop: Stop | None
    leaves: float
    arrival: float
    ended: float
    load_before: int
    load: int


@dataclasses.dataclass(frozen=True)
class Finding:
    """How often a constraint is broken, and where first."""

    count: int = 0
    where: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """What the check of a day found.

    Attributes:
        served: `bool[R]`.
        value: of what was served.
        travel: `f[V]`, minutes driven to stops, and home to the depot; without what idle vehicles drove.
        late: `bool[R]`, requests that were picked up or dropped off after a deadline.
        late_stops: the stops at which they were.
        violations: by constraint.
        legs: all ways, those of each vehicle in their order; without what idle vehicles drove.
    """

    served: np.ndarray
    value: float
    travel: np.ndarray
    late: np.ndarray
    late_stops: frozenset[Stop]
    violations: dict[str, Finding]
    legs: tuple[Leg, ...]

    @property
    def feasible(self) -> bool:
        """Whether no constraint is broken."""
        return not any(found.count for found in self.violations.values())

    def summary(self) -> str:
        """One line for each broken constraint; else that there is none."""
        broken = [
            f"{name}: {found.count}, first {found.where}" for name, found in self.violations.items() if found.count
        ]
        kept = f"{int(self.late.sum())} late" if self.late.any() else "all promises kept"
        return "\n".join(broken) or f"{kept}; {int(self.served.sum())} served"


class _Findings:
    """Collects what is wrong, and ways; `tolerance` is granted on each comparison, in minutes."""

    NAMES = (
        "twice",
        "unpaired",
        "order",
        "before_arrival",
        "time",
        "earliest",
        "deadline",
        "capacity",
        "trip",
        "horizon",
    )

    BY_NOISE = ("deadline", "trip", "horizon")
    """What travel that takes longer than planned can break."""

    def __init__(self, tolerance: float, noisy: bool) -> None:
        self.tolerance, self.legs = tolerance, list[Leg]()
        self.found = {name: Finding() for name in self.NAMES if not (noisy and name in self.BY_NOISE)}

    def add(self, name: str, where: str) -> None:
        if name in self.found:
            known = self.found[name]
            self.found[name] = Finding(known.count + 1, known.where or where)


def solution_report(
    instance: Instance, stops: list[Stop], *, factors: np.ndarray | None = None, tolerance: float | None = None
) -> Report:
    """Check a driven day without the rules of the environment.

    Args:
        instance: the day, without leading axes.
        stops: all stops that vehicles made, those of each vehicle in their order.
        factors: with noise, those of `jaxvrp.envs.dispatch.leg_factors`. Then it is no violation to be late.
        tolerance: minutes that are granted on each comparison; by default 0.01 on a generated day.
    """
    day = jax.tree.map(np.asarray, instance)
    tolerance = 10.0 * float(slack_of(day)) if tolerance is None else tolerance
    findings, travel = _Findings(tolerance, factors is not None), np.zeros(day.num_vehicles)
    _check_pairs(day, stops, findings)
    for v in range(day.num_vehicles):
        driven = [stop for stop in stops if stop.vehicle == v]
        check = _check_rides if day.depot is None else _check_trips
        of_legs = itertools.repeat(1.0) if factors is None else iter(factors[v].tolist())
        travel[v] = check(day, v, driven, of_legs, findings)
    served, late = np.zeros(day.max_requests, bool), np.zeros(day.max_requests, bool)
    served[[stop.request for stop in stops if not stop.is_pickup]] = True
    late_stops = frozenset(stop for stop in stops if stop.start > _limit(day, stop, "deadline") + tolerance)
    late[[stop.request for stop in late_stops]] = True
    value = float(day.value[served].sum())
    return Report(served, value, travel, late, late_stops, findings.found, tuple(findings.legs))


def _limit(day: Instance, stop: Stop, edge: str) -> float:
    """The `earliest` time of service at a stop, or its `deadline`."""
    return float(getattr(day, f"{'pickup' if stop.is_pickup else 'dropoff'}_{edge}")[stop.request])


def _check_pairs(day: Instance, stops: list[Stop], findings: _Findings) -> None:
    tolerance = findings.tolerance
    by_request: dict[int, list[Stop]] = {}
    for stop in stops:
        by_request.setdefault(stop.request, []).append(stop)
    for request, ends in by_request.items():
        drops, picks = [s for s in ends if not s.is_pickup], [s for s in ends if s.is_pickup]
        where = f"request {request}"
        if len(drops) > 1 or len(picks) > 1 or day.load[request] == 0:
            findings.add("twice", where)
        if len(drops) != 1 or len(picks) != (day.depot is None) or len({stop.vehicle for stop in ends}) != 1:
            findings.add("unpaired", where)
        elif picks and picks[0].start > drops[0].start + tolerance:
            findings.add("order", where)
    for stop in itertools.chain.from_iterable(by_request.values()):
        where = f"{'pickup' if stop.is_pickup else 'dropoff'} of request {stop.request}"
        if stop.departs < day.arrival[stop.request] - tolerance and (stop.is_pickup or day.depot is not None):
            findings.add("before_arrival", where)
        if stop.start < _limit(day, stop, "earliest") - tolerance:
            findings.add("earliest", where)
        if stop.start > _limit(day, stop, "deadline") + tolerance:
            findings.add("deadline", where)


def spot_of(day: Instance, stop: Stop) -> Spot:
    """Where a stop is."""
    return day.spot_of(stop.request, stop.is_pickup)


def _arrival(day: Instance, stop: Stop, computed: float) -> float:
    """When a vehicle was at a stop: when service began, unless it had to wait for it."""
    return stop.start if stop.start > _limit(day, stop, "earliest") else min(stop.start, computed)


def _check_rides(day: Instance, v: int, stops: list[Stop], factors: Iterator[float], findings: _Findings) -> float:
    """Times and loads of a vehicle without a depot, and its travel between stops.

    A vehicle that was idle may have been sent elsewhere meanwhile, so its next stop is no earlier than by driving there
    directly from the last one.
    """
    travel, aboard, free, here, tolerance = 0.0, 0, 0.0, day.start_of(v), findings.tolerance
    for stop in stops:
        where = f"vehicle {v} at request {stop.request}"
        earliest, before = _limit(day, stop, "earliest"), aboard
        mean, factor = minutes_along(day, v, here, spot_of(day, stop)), next(factors)
        was_idle = aboard == 0 and stop.departs > free + tolerance
        way = stop.way if was_idle and stop.way is not None else mean * factor
        travel, leaves = travel + way, stop.departs if was_idle else free
        is_near = stop.start >= free + mean * min(factor, 1.0) - tolerance
        if not is_near or abs(stop.start - max(leaves + way, earliest)) > tolerance:
            findings.add("time", where)
        aboard += int(day.load[stop.request]) * (1 if stop.is_pickup else -1)
        if not 0 <= aboard <= day.capacity[v]:
            findings.add("capacity", where)
        here, free = spot_of(day, stop), stop.start + float(day.stop_time[v])
        findings.legs.append(Leg(v, stop, leaves, _arrival(day, stop, leaves + way), free, before, aboard))
    return travel


def _check_trips(day: Instance, v: int, stops: list[Stop], factors: Iterator[float], findings: _Findings) -> float:
    """Times, loads and lengths of all trips of a vehicle with a depot, and its travel."""
    travel, free, tolerance = 0.0, 0.0, findings.tolerance
    for trip in sorted({stop.trip for stop in stops}):
        on_trip = [stop for stop in stops if stop.trip == trip]
        where, here = f"vehicle {v}, trip {trip}", day.start_of(v)
        loads = on_trip[0].departs
        leaves = time = loads + float(day.minutes_to_load[v])
        if loads < free - tolerance:
            findings.add("time", where)
        if loads < max(day.pickup_earliest[stop.request] for stop in on_trip) - tolerance:
            findings.add("earliest", where)
        aboard = sum(int(day.load[stop.request]) for stop in on_trip)
        if aboard > day.capacity[v] or (day.is_drone[v] and len(on_trip) > 1):
            findings.add("capacity", where)
        for stop in on_trip:
            way = minutes_along(day, v, here, spot_of(day, stop)) * next(factors)
            left, ended, before = time, stop.start + float(day.stop_time[v]), aboard
            here, travel, time = spot_of(day, stop), travel + way, max(time + way, _limit(day, stop, "earliest"))
            aboard -= int(day.load[stop.request])
            findings.legs.append(Leg(v, stop, left, _arrival(day, stop, left + way), ended, before, aboard))
            if abs(stop.start - time) > tolerance or abs(stop.departs - loads) > tolerance:
                findings.add("time", f"{where}, request {stop.request}")
            time += float(day.stop_time[v])
        way = minutes_along(day, v, here, day.start_of(v)) * next(factors)
        findings.legs.append(Leg(v, None, time, time + way, time + way, aboard, aboard))
        travel, time = travel + way, time + way
        if time - leaves > day.max_trip[v] + tolerance:
            findings.add("trip", where)
        if time > float(day.latest_return[v]) + tolerance:
            findings.add("horizon", where)
        free = time + float(day.turnaround[v])
    return travel
