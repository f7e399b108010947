"""VROOM's jobs as a day: vehicles leave one depot at once, each for one trip."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

from jaxvrp.envs.dispatch.problem.day_file import FORMAT, NamedDay, parse_day, warned
from jaxvrp.io.clock import MINUTES, Clock
from jaxvrp.io.json_files import plain
from jaxvrp.io.problems.problem_files import DamagedFileError
from jaxvrp.io.units import METRES, SECONDS
from jaxvrp.orders.vroom import Driver, Task, Tour, parse_tour


def day_of_vroom(content: Mapping[str, Any], path: str | os.PathLike) -> NamedDay:
    """The day that the JSON value of a file describes, on the clock of the file.

    A vehicle has one time for all stops: the longest `service`, with a warning if they differ. A job is worth 1 and its
    `priority`.

    Raises:
        DamagedFileError: it is none; one line that names the file and the field.
    """
    try:
        tour = parse_tour(plain(content), "jobs")
        places, earth = tour.places
        day = parse_day(_day(tour, *places.tolist()))
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None
    services = {task.service for task in tour.tasks}
    if len(services) > 1:
        least, most = min(services), max(services)
        warnings.warn(
            f"{path}: services take {least:g} to {most:g} seconds, and a vehicle has one time for all stops; the "
            f"longest, {most:g}, is taken",
            stacklevel=2,
        )
    opens = tour.opens / SECONDS
    named = dataclasses.replace(
        day,
        clock=day.clock + opens,
        start=Clock(-MINUTES * (opens // MINUTES)),
        earth=earth,
        addresses=tuple(task.description for task in tour.tasks),
        unit="",
    )
    return warned(named, path)


def _day(tour: Tour, depot: list[float], *places: list[float]) -> dict[str, Any]:
    """The day as a file says it, in seconds since its vehicles begin."""
    seconds, metres, _ = tour.ways
    stop_time = max(task.service for task in tour.tasks)
    # What a day without an end has to last at most: all jobs one after the other, the last as late as one opens.
    endless = max(task.window[0] for task in tour.tasks) + len(seconds) * (seconds.max() + stop_time)
    closes = max(driver.closes for driver in tour.drivers)
    horizon = float(endless if math.isinf(closes) else closes) - tour.opens
    total = sum(task.amount or 1 for task in tour.tasks)
    distances = {} if metres is None else {"travel_distance": metres / METRES}
    return {
        "format": FORMAT,
        "units": {"time": "s"},
        "horizon": horizon,
        "depot": depot,
        "vehicles": [_vehicle(driver, tour.opens, stop_time, horizon, total) for driver in tour.drivers],
        "requests": [_request(task, place, tour.opens) for task, place in zip(tour.tasks, places, strict=True)],
        "travel_time": seconds,
        **distances,
    }


def _vehicle(driver: Driver, opens: float, stop_time: float, horizon: float, total: int) -> dict[str, Any]:
    """A vehicle, which takes too long at the depot for a second trip; its speed does not matter along streets."""
    return {
        "id": str(driver.id),
        "speed": 30.0,
        "capacity": total if driver.capacity is None else driver.capacity,
        "stop_time": stop_time,
        "loading_time": 0.0,
        "turnaround": horizon,
        "home_by": min(driver.closes - opens, horizon),
    }


def _request(task: Task, place: list[float], opens: float) -> dict[str, Any]:
    earliest, latest = task.window
    due = {} if math.isinf(latest) else {"dropoff_deadline": latest - opens}
    return {
        "id": str(task.id),
        "arrival": 0.0,
        "dropoff": place,
        "dropoff_earliest": max(earliest - opens, 0.0),
        **due,
        "load": task.amount or 1,
        "value": 1.0 + task.priority,
    }
