"""The order of stops with the least lateness, in plain NumPy: what a moment is planned from when promises are broken.

Requests leave one vehicle's plan and go where all lateness is least, then all travel. Where nothing is late, nothing
moves: the search finds better.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from jaxvrp.envs.dispatch.problem.instance import Instance, Spot, minutes_along, slack_of

MOST_ORDERS = 20_000
"""Orders that are tried at most, in half a second or so."""

Call = tuple[int, bool]
"""A request, and whether it is its pickup."""

Cost = tuple[float, float]
"""Minutes late, and minutes of travel."""


@dataclasses.dataclass(frozen=True)
class Course:
    """What a vehicle has not begun: from where and when, with which load, and its stops in their order."""

    vehicle: int
    place: Spot
    free: float
    aboard: int
    calls: tuple[Call, ...]


def least_late(day: Instance, courses: Sequence[Course], homeless: Sequence[int]) -> list[Course]:
    """The courses with requests (`homeless`) that have lost their vehicle, and less lateness.

    Raises:
        ValueError: no vehicle can hold such a request, named by its number in `args[0]`.
    """
    found, tries = list(courses), iter(range(MOST_ORDERS))
    for request in homeless:
        changed = _cheapest(day, found, request, iter(range(MOST_ORDERS)))
        if changed is None:
            raise ValueError(request)
        found = _with(found, changed)
    while (better := _less_late(day, found, tries)) is not None:
        found = better
    return found


def _less_late(day: Instance, courses: list[Course], tries: Iterator[int]) -> list[Course] | None:
    """The courses after one request of a late vehicle has gone elsewhere, if that makes all of it less late."""
    moves = (
        (at, request)
        for at, course in enumerate(courses)
        if cost(day, course)[0] > slack_of(day)
        for request in dict.fromkeys(request for request, _ in course.calls)
    )
    for at, request in moves:
        rest, calls = [*courses], courses[at].calls
        rest[at] = dataclasses.replace(courses[at], calls=tuple(call for call in calls if call[0] != request))
        is_open = day.depot is not None or (request, True) in calls
        changed = _cheapest(day, rest if is_open else [rest[at]], request, tries, aboard=not is_open)
        if changed is None:
            continue
        after = _with(rest, changed)
        if _late(day, after) < _late(day, courses) - slack_of(day):
            return after
    return None


def _with(courses: Sequence[Course], changed: Course) -> list[Course]:
    return [changed if changed.vehicle == each.vehicle else each for each in courses]


def _late(day: Instance, courses: Sequence[Course]) -> float:
    return sum(cost(day, course)[0] for course in courses)


def _cheapest(
    day: Instance, courses: Sequence[Course], request: int, tries: Iterator[int], *, aboard: bool = False
) -> Course | None:
    """The course that takes a request, or the drop-off of one aboard, at the least further cost; None if none can."""
    best, least = None, (math.inf, math.inf)
    before = {course.vehicle: cost(day, course) for course in courses}
    longer = ((each, calls) for each in courses for calls in _longer(day, each.calls, request, aboard))
    for course, calls in longer:
        if next(tries, None) is None:
            return best
        changed = dataclasses.replace(course, calls=calls)
        late, travel = (new - old for new, old in zip(cost(day, changed), before[course.vehicle], strict=True))
        if (late, travel) < least:
            best, least = changed, (late, travel)
    return best


def _longer(day: Instance, calls: tuple[Call, ...], request: int, aboard: bool) -> Iterator[tuple[Call, ...]]:
    for last in range(len(calls) + 1):
        dropped = (*calls[:last], (request, False), *calls[last:])
        if day.depot is not None or aboard:
            yield dropped
            continue
        for first in range(last + 1):
            yield (*dropped[:first], (request, True), *dropped[first:])


def cost(day: Instance, course: Course) -> Cost:
    """What a course comes to; inf where it overloads its vehicle."""
    flies = day.depot is not None and day.is_drone[course.vehicle]
    of_trips = [(call,) for call in course.calls] if flies else [course.calls]
    free, late, travel = course.free, 0.0, 0.0
    for calls in of_trips if course.calls else ():
        free, late_then, travel_then = _driven(day, dataclasses.replace(course, free=free, calls=calls))
        late, travel = late + late_then, travel + travel_then
    return late, travel


def _driven(day: Instance, course: Course) -> tuple[float, float, float]:
    """When a vehicle has driven its stops, of one trip with a depot, and their cost."""
    v, here, time, late, travel = course.vehicle, course.place, course.free, 0.0, 0.0
    stop_time = float(day.stop_time[v])
    loads = [int(day.load[request]) * (1 if is_pickup else -1) for request, is_pickup in course.calls]
    aboard = course.aboard
    if day.depot is not None:
        aboard = -sum(loads)
        time = max(time, *(float(day.pickup_earliest[request]) for request, _ in course.calls))
        time += float(day.minutes_to_load[v])
    left, most = time, aboard
    for (request, is_pickup), load in zip(course.calls, loads, strict=True):
        end = "pickup" if is_pickup else "dropoff"
        earliest, deadline = (getattr(day, f"{end}_{edge}")[request] for edge in ("earliest", "deadline"))
        there = day.spot_of(request, is_pickup)
        way = minutes_along(day, v, here, there)
        time, travel, here, aboard = max(time + way, float(earliest)), travel + way, there, aboard + load
        late, most, time = late + _over(day, time, deadline), max(most, aboard), time + stop_time
    if most > day.capacity[v]:
        return math.inf, math.inf, math.inf
    if day.depot is None:
        return time, late, travel
    way = minutes_along(day, v, here, day.start_of(v))
    late += _over(day, time + way, float(day.latest_return[v])) + _over(day, time + way - left, day.max_trip[v])
    return time + way + float(day.turnaround[v]), late, travel + way


def _over(day: Instance, time: float, limit: float) -> float:
    return time - limit if time > limit + slack_of(day) else 0.0
