"""Warnings of what is absurd in a day, as if its units had been mixed, and how long its vehicles drive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jaxvrp.envs.dispatch.problem.day_file import NamedDay
from jaxvrp.envs.dispatch.problem.instance import MINUTES_PER_HOUR, Instance, places_of_day, street_pace
from jaxvrp.plausible import TINY, degrees, distant, extent, out_of_reach, paces, slow
from jaxvrp.problems import Inspection

SHORTEST, LONGEST = 30.0, 7 * 24 * MINUTES_PER_HOUR
"""Minutes of a day; more or fewer are in another unit."""

FASTEST = 400.0
"""km/h; a faster vehicle of a fleet file has its speed in another unit."""

PAIRS = 100_000
"""Of requests and places of vehicles, whose distances are looked at."""


def inspect(day: NamedDay) -> Inspection:
    """Figures and warnings of a day, in kilometres and minutes."""
    instance = day.instance
    across, length = extent(places_of_day(instance)), _horizon(instance)
    by_vehicle = MINUTES_PER_HOUR * instance.detour / instance.speed
    if instance.travel_time is not None:
        by_vehicle = np.where(instance.is_drone, by_vehicle, street_pace(instance))
    pace = float(by_vehicle.min())
    drive = f"{_km(across)}, in {_minutes(across * pace)} of {_minutes(length)}"
    return Inspection((f"the fastest vehicle crosses the area, {drive}",), tuple(_warnings(day, across, length)))


def _warnings(day: NamedDay, across: float, horizon: float) -> Iterator[str]:
    instance = day.instance
    if not instance.max_requests:
        return
    end = "dropoff" if instance.depot is not None else "pickup"
    of_file = np.asarray(getattr(instance, end), np.float64) + day.place
    in_degrees = [] if day.earth else [*degrees(of_file, f"requests[0].{end}")]  # else they were, and are projected
    absurd = in_degrees or [*_mixed(instance)]
    yield from absurd
    if absurd:
        return
    if not SHORTEST <= horizon <= LONGEST:
        yield f"horizon: a day of {_minutes(horizon)}; give times in units.time, by default minutes"
    values, first = np.unique(instance.speed, return_index=True)
    for value, index in zip(values, first, strict=True):
        of_fleet = "drones" if instance.is_drone[index] else "vans"
        field = f"{of_fleet}.speed" if day.addresses else f"vehicles[{index}].speed"
        speed = {field: float(value) / MINUTES_PER_HOUR}
        if not day.addresses:
            yield from paces(speed, _kmh, across, horizon, _minutes)
        elif value > FASTEST:
            yield f"{field}: {value:g} km/h is faster than any vehicle; give it in km/h"
        else:  # A fast crossing means that customers are near.
            remedy = "give it in km/h, and places in kilometres, or as latitude and longitude"
            yield from slow(speed, _kmh, across, horizon, _minutes, remedy)
    if day.addresses and instance.is_drone.any():
        drone = int(instance.is_drone.argmax())
        flight = float(instance.max_trip[drone] - instance.stop_time[drone]) * instance.speed[drone] / MINUTES_PER_HOUR
        there_and_back = 2 * np.linalg.norm(instance.dropoff - instance.depot, axis=1)
        yield from out_of_reach("drones.range", float(flight), there_and_back)


def _mixed(instance: Instance) -> Iterator[str]:
    """Places in several units of length."""
    start = np.unique(np.asarray(instance.start, np.float64), axis=0)
    ends = {"pickup": instance.pickup, "dropoff": instance.dropoff}
    if instance.depot is None:
        (small, width), (large, far) = sorted(((name, extent(ends[name])) for name in ends), key=lambda each: each[1])
        if 0 < TINY * width < far:
            yield (
                f"requests[0].{small}: all {small}s lie within {_km(width)}, and all {large}s within {_km(far)}; give "
                "all places in one unit of length"
            )
            return
    places = np.concatenate(list(ends.values()) if instance.depot is None else [ends["dropoff"]])
    if len(places) > 1 and len(start) * len(places) <= PAIRS:
        yield from distant(lambda index: f"vehicles[{index}].start", start, "stop", places, _km)


def _horizon(instance: Instance) -> float:
    """Minutes of the day; a clock that began long before does not count."""
    first = float(instance.arrival.min(initial=np.inf))
    is_late = np.isfinite(first) and instance.horizon > LONGEST and first > 0.75 * instance.horizon
    return float(instance.horizon) - (first if is_late else 0.0)


def _kmh(speed: float) -> str:
    """Of kilometres a minute."""
    return f"{speed * MINUTES_PER_HOUR:g} km/h"


def _km(number: float) -> str:
    return f"{number:.4g} km"


def _minutes(number: float) -> str:
    return f"{number:.4g} min"
