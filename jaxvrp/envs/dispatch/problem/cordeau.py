"""Files of Cordeau & Laporte (2003) and Cordeau (2006) as days: each request becomes known before its window opens."""

from __future__ import annotations

import os

import numpy as np

from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, make_instance
from jaxvrp.io.problems.cordeau_files import read_numbers

NOTICE = 60.0
"""Minutes."""


def read_cordeau(path: str | os.PathLike, notice: float | None = NOTICE) -> NamedDay:
    """A day of passengers; a length of the file is a km, and is driven in a minute.

    A request keeps the most that the file allows for a ride by its windows alone: no pickup before the latest drop-off
    less that ride, or, if the pickup's window is the narrower one, no drop-off after the earliest pickup and that ride.
    The longest service time of the file holds for every stop. Vehicles start at the depot, and need not return. A
    request arrives `notice` minutes before it can first be picked up; None: all arrive when the depot opens.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    header, nodes = read_numbers(path)
    count, stop_time, longest = int(header["requests"]), nodes["service"].max(), header["L"]
    places = np.stack([nodes["x"], nodes["y"]], axis=1)
    (pickup, dropoff), load = places[1:].reshape(2, count, 2), nodes["demand"][1 : count + 1]
    opens, earliest = nodes["early"][1:].reshape(2, count)
    closes, latest = nodes["late"][1:].reshape(2, count)
    by_dropoff = latest - earliest < closes - opens
    first = np.maximum(opens, earliest - longest - stop_time)
    opening = nodes["early"][0]
    arrival = np.full(count, opening) if notice is None else np.maximum(first - notice, opening)
    order = np.argsort(arrival, kind="stable")
    instance = make_instance(
        arrival[order],
        dropoff[order],
        np.where(by_dropoff, latest, np.minimum(latest, opens + stop_time + longest))[order],
        pickup=pickup[order],
        pickup_deadline=closes[order],
        pickup_earliest=np.where(by_dropoff, np.maximum(opens, latest - longest - stop_time), opens)[order],
        dropoff_earliest=earliest[order],
        load=load[order],
        start=np.broadcast_to(places[0], (int(header["vehicles"]), 2)),
        capacity=np.full(int(header["vehicles"]), header["Q"]),
        speed=MINUTES_PER_HOUR,
        stop_time=stop_time,
        horizon=nodes["late"][0],
        area=[places.min(axis=0) - 1.0, places.max(axis=0) + 1.0],
    )
    names = tuple(f"vehicle_{v}" for v in range(instance.num_vehicles))
    return NamedDay.counted(instance, tuple(str(1 + request) for request in order), names)
