"""A day as it was driven: the stops that vehicles made, checked, and where they were."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.dispatch.env import DISPATCHER, Dispatch, decide, prepared_day
from jaxvrp.envs.dispatch.problem.instance import Instance, Spot, minutes_along, pad
from jaxvrp.envs.dispatch.problem.solution import Leg, Report, Stop, solution_report, spot_of
from jaxvrp.envs.dispatch.routes.noisy_drive import drive
from jaxvrp.envs.dispatch.routes.plans import LOAD, REQUEST, begins_by, leaves, minutes_of_all, places_of
from jaxvrp.envs.dispatch.routes.schedule import positions
from jaxvrp.envs.dispatch.rules import State, idle, without_stops
from jaxvrp.episodes import follow


def driven_stops(env: Dispatch, instance: Instance, actions: Mapping[str, Any]) -> list[Stop]:
    """All stops that vehicles made on a day under these actions, `{role: [T, agents]}`, those of each in their order.

    Give them to `jaxvrp.envs.dispatch.solution_report`; with noise, also `leg_factors(env, instance)`.
    """
    numbers = {name: jnp.asarray(values, jnp.int32) for name, values in actions.items()}
    return stops_of(env, follow(env, instance, numbers).states)


def leg_factors(env: Dispatch, instance: Instance) -> np.ndarray | None:
    """`f32[V, L]`, the time of the n-th leg of each vehicle on a day, in mean times; None without noise."""
    factors = prepared_day(env, instance).factors
    return None if factors is None else np.asarray(factors.of_mean)


def stops_of(env: Dispatch, states: State) -> list[Stop]:
    """All stops that vehicles made in states `[L]` of one episode, those of each vehicle in their order."""
    if len(states.step) < 2:
        return []
    begun, stops, start, departs, way = jax.device_get(_begun(env, states))
    is_drone = np.asarray(states.prepared.instance.is_drone[0])
    found: list[Stop] = []
    trips = np.zeros(begun.shape[1], int)
    for time, v in np.ndindex(begun.shape[:2]):
        last = None
        for k in np.flatnonzero(begun[time, v]):
            departure = float(departs[time, v, k])
            trips[v] += last is None or departure != last or is_drone[v]
            last = departure
            request, is_pickup = int(stops[time, REQUEST, v, k]), bool(stops[time, LOAD, v, k] > 0)
            times = float(start[time, v, k]), int(trips[v]), departure, float(way[time, v, k])
            found.append(Stop(v, request, is_pickup, *times))
    return found


class PlannedDay(struct.PyTreeNode):
    """A day whose plan no actions lead to."""

    states: State  # `[L]`, of the day on which every request is rejected: what was asked
    stops: tuple[Stop, ...] = struct.field(pytree_node=False)  # what vehicles do, those of each in their order


@jax.jit
def _begun(env: Dispatch, states: State) -> tuple[jax.Array, ...]:
    """What was begun in each step: `bool[L - 1, V, S]`; and the plans' stops, starts, departures, minutes of way then.

    Where drivers were sent does not count: those who have a plan drive by it.
    """

    def of_step(before: State, after: State) -> tuple[jax.Array, ...]:
        plans, _ = decide(env, before, {DISPATCHER: after.choice[None]})
        until = jnp.where(after.done, jnp.inf, after.now)
        if before.prepared.factors is None:
            present, start, departs = plans.present, plans.start, leaves(before.prepared, plans)
            origin = positions(before.prepared, plans).before[..., :-1]
            way = minutes_of_all(before.prepared, origin, places_of(before.prepared, plans.stops))
        else:
            driven = drive(before.prepared, plans, until)
            found = driven.present, driven.start, driven.departs, driven.minutes
            present, start, departs, way = (values[:, -env.max_stops :] for values in found)
        begun = present & begins_by(before.prepared, departs, start, until) & ~before.done
        return begun, plans.stops, start, departs, way

    before = jax.tree.map(lambda leaf: leaf[:-1], states)
    after = jax.tree.map(lambda leaf: leaf[1:], states)
    return jax.vmap(of_step)(before, after)


@dataclasses.dataclass(frozen=True)
class Track:
    """Where a vehicle was, and with which load."""

    points: tuple[tuple[float, np.ndarray], ...]  # `(time, place f64[2])`, ascending, in straight lines
    rows: tuple[int, ...]  # of these places in `Instance.travel_time`; -1 on the way
    loads: tuple[tuple[float, int], ...]  # `(from when, load)`
    idle: float  # minutes that it drove without a plan


@dataclasses.dataclass(frozen=True)
class Served:
    """An accepted request: of which vehicle, when its pickup (or the loading of its trip) and its drop-off began."""

    vehicle: int
    pickup: float
    dropoff: float


@dataclasses.dataclass(frozen=True, eq=False)
class DrivenDay:
    """A day, and what became of it. Requests and vehicles keep their numbers; padding is left out."""

    instance: Instance  # NumPy arrays, with padding
    stops: tuple[Stop, ...]  # what vehicles did
    report: Report  # what the check says of it
    requests: range  # those that were decided on
    vehicles: tuple[int, ...]  # those that there are
    served: Mapping[int, Served]  # by request
    tracks: Mapping[int, Track]  # by vehicle
    end: float  # when all vehicles have ended their last stop, or are home

    @property
    def travel(self) -> float:
        """Minutes of all vehicles: to stops, home, and without a plan."""
        return float(self.report.travel.sum()) + sum(track.idle for track in self.tracks.values())

    def kilometres(self, v: int, problem: Instance) -> float | None:
        """That vehicle v drives or flies in all; None where streets have no lengths, which states have not."""
        day = self.instance
        if day.travel_time is None or day.is_drone[v]:
            gaps = (math.dist(a, b) for (_, a), (_, b) in itertools.pairwise(self.tracks[v].points))
            return float(day.detour[v]) * math.fsum(gaps)
        ways = pad(problem, day.max_requests, day.num_vehicles).travel_distance
        if ways is None:
            return None
        return math.fsum(float(ways[way]) for way in itertools.pairwise(self.tracks[v].rows))

    @property
    def rejected(self) -> list[int]:
        """Requests that were decided on, and are not served."""
        return [request for request in self.requests if request not in self.served]


def driven_day(env: Dispatch, states: State | PlannedDay) -> DrivenDay:
    """The day of the states `[L]` of one episode, up to its end."""
    planned, states = (states, states.states) if isinstance(states, PlannedDay) else (None, states)
    instance = jax.tree.map(lambda leaf: np.asarray(leaf[0]), states.prepared.instance)
    # A day is planned ahead with mean times.
    stops, factors = (planned.stops, None) if planned else (tuple(stops_of(env, states)), leg_factors(env, instance))
    report = solution_report(instance, list(stops), factors=factors)
    vehicles = tuple(np.flatnonzero(instance.capacity).tolist())
    place, tracks = np.asarray(states.plans.place, float), {}
    # Along streets, also who is on the way to a zone is free at a place.
    on_streets = instance.travel_time is not None
    found = np.asarray(jax.vmap(without_stops if on_streets else idle)(states))

    def waits(v: int) -> Course:
        times = states.plans.free[:, v] if on_streets else states.now
        spots = (Spot(here[:2], int(here[2])) if on_streets else Spot(here) for here in place[..., v])
        known = zip(times, spots, found[:, v], strict=True)
        return [(float(time), spot) for time, spot, is_known in known if is_known]

    for v in vehicles:
        legs = [leg for leg in report.legs if leg.vehicle == v]
        tracks[v] = _trips(instance, v, legs) if instance.depot is not None else _ride(instance, v, legs, waits(v))
    pickups = {stop.request: stop.start for stop in stops if stop.is_pickup}
    return DrivenDay(
        instance=instance,
        stops=stops,
        report=report,
        requests=range(int(states.step[-1])),
        vehicles=vehicles,
        served={
            stop.request: Served(stop.vehicle, pickups.get(stop.request, stop.departs), stop.start)
            for stop in stops
            if not stop.is_pickup
        },
        tracks=tracks,
        end=max([float(states.now[-1]), *(track.points[-1][0] for track in tracks.values())]),
    )


Course = list[tuple[float, Spot]]
"""When a vehicle was where, ascending."""


def _at_stop(leg: Leg, there: Spot) -> Course:
    """Where the leg to a stop ends, when service begins there, and when it has ended."""
    assert leg.stop is not None
    return [(leg.arrival, there), (leg.stop.start, there), (leg.ended, there)]


def _ride(instance: Instance, v: int, legs: Sequence[Leg], waits: Course) -> Track:
    """The track of a vehicle without a depot: also where it was at each decision while it had no plan."""
    course: Course = [(0.0, instance.start_of(v))]
    loads, idle = [(0.0, 0)], 0.0

    def wait(until: float) -> float:
        """Go where it was meanwhile; the minutes that it drove."""
        passed, driven = [course[-1], *(point for point in waits if course[-1][0] <= point[0] <= until)], 0.0
        for (start, here), (end, there) in itertools.pairwise(passed):
            way = minutes_along(instance, v, here, there)
            # It left at once, when it was sent or where it could turn, and waited where it came to.
            course.extend([(start + way, there), (end, there)] if way else [(end, there)])
            driven += way
        return driven

    for leg in legs:
        assert leg.stop is not None
        idle += wait(leg.stop.departs)
        there = spot_of(instance, leg.stop)
        course += [(leg.stop.departs, course[-1][1]), *_at_stop(leg, there)]
        loads.append((leg.stop.start, leg.load))
    idle += wait(np.inf)
    return _track(course, loads, idle)


def _trips(instance: Instance, v: int, legs: Sequence[Leg]) -> Track:
    """The track of a vehicle with a depot."""
    depot = instance.start_of(v)
    course: Course = [(0.0, depot)]
    loads, is_home = [(0.0, 0)], True
    for leg in legs:
        if is_home and leg.stop is not None:
            course += [(leg.stop.departs, depot), (leg.leaves, depot)]
            loads.append((leg.stop.departs, leg.load_before))
        is_home = leg.stop is None
        if leg.stop is None:
            course.append((leg.arrival, depot))
            continue
        there = spot_of(instance, leg.stop)
        course += _at_stop(leg, there)
        loads.append((leg.stop.start, leg.load))
    return _track(course, loads, 0.0)


def _track(course: Course, loads: list[tuple[float, int]], idle: float) -> Track:
    times = np.maximum.accumulate([time for time, _ in course]).tolist()
    places = (np.asarray(spot.place, float) for _, spot in course)
    return Track(tuple(zip(times, places, strict=True)), tuple(spot.row for _, spot in course), tuple(loads), idle)
