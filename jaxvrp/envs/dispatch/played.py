"""One played day as pictures, plans and replays need it: answers, stops, and where vehicles were."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.dispatch.driven import driven_stops, leg_factors
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch
from jaxvrp.envs.dispatch.moment import Moment
from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, Instance
from jaxvrp.envs.dispatch.problem.solution import Report, Stop, solution_report
from jaxvrp.envs.dispatch.rules import State, idle, zone_middles
from jaxvrp.episodes import until_end

NEAR = 1e-4
"""A goal is the middle of a zone if it is nearer to it, in sides of the area."""


@dataclasses.dataclass(frozen=True)
class Track:
    """Where a vehicle was: it goes straight from each place to the next; and its load from some times on."""

    times: np.ndarray  # `f64[P]`, ascending
    places: np.ndarray  # `f64[P, 2]`
    loads: tuple[tuple[float, int], ...]  # (from when, load)
    idle: float = 0.0  # minutes that it drove without a plan

    def at(self, time: float) -> np.ndarray:
        """The place, `f64[2]`, at a time."""
        return np.array([np.interp(time, self.times, axis) for axis in self.places.T])

    def until(self, time: float) -> np.ndarray:
        """The places, `f64[P, 2]`, where it was until then."""
        return np.concatenate([self.places[self.times <= time], self.at(time)[None]])


@dataclasses.dataclass(frozen=True)
class Served:
    """A request that was accepted."""

    vehicle: int
    pickup: float  # when its pickup began, or the loading of its trip
    dropoff: float


@dataclasses.dataclass(frozen=True, eq=False)
class PlayedDay:
    """A day, the decisions, and what became of them. Requests and vehicles keep their numbers; padding is left out."""

    instance: Instance  # NumPy arrays, with padding
    states: State  # leaves `[L, ...]`, up to the end
    actions: dict[str, np.ndarray]  # `{role: i64[L - 1, agents]}`, as they were executed
    stops: tuple[Stop, ...]
    report: Report
    requests: range
    vehicles: tuple[int, ...]
    served: dict[int, Served]  # by request
    tracks: dict[int, Track]  # by vehicle
    end: float  # when all vehicles have ended their last stop, or are home
    names: tuple[str, ...] = ()  # of vehicles, by their numbers; () where they have none
    clock: float = 0.0  # when all times begin, in minutes; see `NamedDay`

    def arrival(self, request: int) -> float:
        """When it arrived."""
        return float(self.instance.arrival[request])

    @property
    def travel(self) -> float:
        """Minutes of all vehicles: to stops, home, and without a plan."""
        return float(self.report.travel.sum()) + sum(track.idle for track in self.tracks.values())

    def rejected(self) -> list[int]:
        """Requests that were decided on, and are not served."""
        return [request for request in self.requests if request not in self.served]


def day_of(env: Dispatch, states: State | Moment) -> PlayedDay:
    """The day of one episode, states `[T + 1]`; what follows the end is cut.

    Raises:
        ValueError: states of no or of several episodes, or a moment of one.
    """
    if isinstance(states, Moment):
        raise ValueError("a moment is no whole day, so it has no page and no picture; write .json or .csv")
    driven = until_end(states)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf[0]), driven.prepared.instance)
    actions = _actions(env, driven)
    stops = tuple(driven_stops(env, instance, actions)) if len(actions[DISPATCHER]) else ()
    factors = leg_factors(env, instance)
    vehicles = tuple(np.flatnonzero(instance.capacity).tolist())
    by_vehicle = {v: [stop for stop in stops if stop.vehicle == v] for v in vehicles}
    if instance.depot is None:
        is_idle = np.asarray(jax.vmap(idle)(driven))
        tracks = {v: _ride(instance, v, by_vehicle[v], driven, is_idle[:, v]) for v in vehicles}
    else:
        tracks = {v: _trips(instance, v, by_vehicle[v], factors) for v in vehicles}
    started = {stop.request: stop.departs if instance.depot is not None else stop.start for stop in reversed(stops)}
    started |= {stop.request: stop.start for stop in stops if stop.is_pickup}
    return PlayedDay(
        instance=instance,
        states=driven,
        actions=actions,
        stops=stops,
        report=solution_report(instance, list(stops), factors=factors),
        requests=range(int(driven.step[-1])),
        vehicles=vehicles,
        served={
            stop.request: Served(stop.vehicle, started[stop.request], stop.start)
            for stop in stops
            if not stop.is_pickup
        },
        tracks=tracks,
        end=max([float(driven.now[-1]), *(float(track.times[-1]) for track in tracks.values())]),
    )


def _actions(env: Dispatch, states: State) -> dict[str, np.ndarray]:
    """The executed actions of an episode, read off its states."""
    actions = {DISPATCHER: np.asarray(states.choice)[1:, None].astype(np.int64)}
    if env.num_zones_each_way:
        area = np.asarray(states.prepared.fleet.area[0])
        middles = np.asarray(zone_middles(jnp.asarray(area), env.num_zones_each_way))
        goal, is_idle = np.asarray(states.plans.goal), np.asarray(jax.vmap(idle)(states))
        gap = np.linalg.norm(goal[1:, :, :, None] - middles[None, :, None, :], axis=1)
        changed = (goal[1:] != goal[:-1]).any(axis=1)
        sent = is_idle[:-1] & changed & (gap.min(axis=-1) < NEAR * np.ptp(area, axis=0).max())
        sent &= actions[DISPATCHER] != 1 + np.arange(sent.shape[1])
        actions[DRIVER] = np.where(sent, 1 + gap.argmin(axis=-1), 0)
    return actions


def _minutes(instance: Instance, v: int, a: np.ndarray, b: np.ndarray) -> float:
    return MINUTES_PER_HOUR * float(instance.detour[v] / instance.speed[v]) * float(np.hypot(*(a - b)))


def _arrival(instance: Instance, stop: Stop, planned: float) -> float:
    """When a vehicle was at a stop: when service began, unless it had to wait for it; then as planned."""
    earliest = (instance.pickup_earliest if stop.is_pickup else instance.dropoff_earliest)[stop.request]
    return stop.start if stop.start > earliest else min(stop.start, planned)


def _ride(instance: Instance, v: int, stops: list[Stop], states: State, is_idle: np.ndarray) -> Track:
    """The track of a vehicle without a depot: also where it was at each decision while it had no plan."""
    points = [(0.0, np.asarray(instance.start[v], float))]
    here, load, loads, idle = points[0][1], 0, [(0.0, 0)], 0.0
    waited = [(float(states.now[i]), np.asarray(states.plans.place[i, :, v], float)) for i in np.flatnonzero(is_idle)]

    def wait(until: float) -> float:
        """Go where it was meanwhile; the minutes that it drove."""
        passed = [points[-1], *(point for point in waited if points[-1][0] <= point[0] <= until)]
        points.extend(passed[1:])
        return sum(_minutes(instance, v, a, b) for (_, a), (_, b) in itertools.pairwise(passed))

    for stop in stops:
        idle += wait(stop.departs)
        here = points[-1][1]
        place = np.asarray((instance.pickup if stop.is_pickup else instance.dropoff)[stop.request], float)
        arrive = _arrival(instance, stop, stop.departs + _minutes(instance, v, here, place))
        ended = stop.start + float(instance.stop_time[v])
        points += [(stop.departs, here), (arrive, place), (ended, place)]
        load += int(instance.load[stop.request]) * (1 if stop.is_pickup else -1)
        loads.append((stop.start, load))
    idle += wait(np.inf)
    return _track(points, loads, idle)


def _trips(instance: Instance, v: int, stops: list[Stop], factors: np.ndarray | None) -> Track:
    """The track of a vehicle with a depot."""
    of_legs = itertools.repeat(1.0) if factors is None else iter(factors[v].tolist())
    depot, loads = np.asarray(instance.depot, float), [(0.0, 0)]
    points, stop_time = [(0.0, depot)], float(instance.stop_time[v])
    for trip in sorted({stop.trip for stop in stops}):
        on_trip = [stop for stop in stops if stop.trip == trip]
        load = sum(int(instance.load[stop.request]) for stop in on_trip)
        departs, here = on_trip[0].departs, depot
        points += [(departs, depot), (departs + stop_time, depot)]
        loads.append((departs, load))
        for stop in on_trip:
            place = np.asarray(instance.dropoff[stop.request], float)
            planned = points[-1][0] + _minutes(instance, v, here, place) * next(of_legs)
            arrive = _arrival(instance, stop, planned)
            points += [(arrive, place), (stop.start + stop_time, place)]
            load -= int(instance.load[stop.request])
            loads.append((stop.start, load))
            here = place
        points.append((points[-1][0] + _minutes(instance, v, here, depot) * next(of_legs), depot))
    return _track(points, loads)


def _track(points: list[tuple[float, np.ndarray]], loads: list[tuple[float, int]], idle: float = 0.0) -> Track:
    times, places = np.array([time for time, _ in points]), np.array([place for _, place in points])
    return Track(np.maximum.accumulate(times), places, tuple(loads), idle)


def name_of(day: PlayedDay, vehicle: int) -> str:
    """The name of a vehicle by its number."""
    if day.names:
        return day.names[vehicle]
    return f"{'drone' if day.instance.is_drone[vehicle] else 'vehicle'} {vehicle}"


def summary(day: PlayedDay) -> str:
    """What was served, and at which travel, in a line."""
    count, served = len(day.requests), len(day.served)
    share = f" ({served / count:.0%})" if count else ""
    words = (
        f"{served} of {count} requests served{share}",
        f"value {day.report.value:.4g}",
        f"{day.travel:.0f} min of travel",
    )
    return "   |   ".join(words)


def verdict(day: PlayedDay) -> str:
    """'all promises kept', or how many requests were late, or the constraints that are broken."""
    broken = [f"{name.replace('_', ' ')} {found.count}" for name, found in day.report.violations.items() if found.count]
    kept = f"{int(day.report.late.sum())} requests late" if day.report.late.any() else "all promises kept"
    return f"not feasible: {', '.join(broken)}" if broken else kept
