"""Warnings of what is absurd in a dial-a-ride problem, as if its units had been mixed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.plausible import degrees, extent, paces

UNITS = "give places in a unit that is driven in the unit of time"


def warnings_of(instance: Instance) -> Iterator[str]:
    """Each a line, with the numbers of its file."""
    places, speed = np.asarray(instance.locs, np.float64), float(instance.vehicle_speed)
    if found := list(degrees(places, "node 0")):
        yield from found
        return
    has_streets = instance.travel_time is not None
    closes = instance.deadline[np.isfinite(instance.deadline)]
    horizon = float(closes.max() - instance.earliest.min()) if closes.size else np.inf
    across = extent(places)
    if np.isfinite(horizon) and not has_streets:  # their times count, whatever the speed
        yield from paces({"speed": speed}, "{:g}".format, across, horizon, "{:g}".format, UNITS)
    rides = np.linalg.norm(places[1::2] - places[2::2], axis=1) / speed
    if has_streets:
        rides = np.diagonal(instance.travel_time, 1)[1::2]
    if rides.min() > instance.max_ride_time:
        yield (
            f"the longest ride: {instance.max_ride_time:g} is less than every direct ride takes, at least "
            f"{rides.min():g}; give it in the unit of time"
        )
