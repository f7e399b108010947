"""Warnings of what is absurd in a problem of a truck and drones, as if its units had been mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.plausible import degrees, extent, nearest, out_of_reach, paces
from jaxvrp.toolbox import Inspection

LOOKED_AT = 200
"""Customers, the first of them, whose least flights are worked out."""


def inspect(instance: Instance, env: Any) -> Inspection:
    """Warnings about one problem with the numbers of its file."""
    del env
    return Inspection(warnings=tuple(_warnings(instance)))


def _warnings(instance: Instance) -> Iterator[str]:
    places = np.asarray(instance.locs, np.float64)
    has_places = instance.truck_time is None
    if has_places and (found := list(degrees(places, "node 0"))):
        yield from found
        return
    flown = (np.flatnonzero(instance.exists & ~instance.no_fly)[1:])[:LOOKED_AT]
    legs = _least_legs(instance, places, flown)
    if instance.has_windows:
        speeds = {f"{who} speed": 1.0 / float(getattr(instance, f"{who}_pace")) for who in ("truck", "drone")}
        horizon = float(instance.closes[0] - instance.opens[0])
        number = "{:.4g}".format
        yield from paces(speeds, lambda speed: f"{number(speed)} in a unit of time", extent(places), horizon, number)
        needs = 2 * float(instance.drone_pace) * legs + instance.service[flown]
        yield from out_of_reach("endurance", float(instance.endurance), needs)
    else:
        yield from out_of_reach("the longest flight", float(instance.max_flight), 2 * legs)


def _least_legs(instance: Instance, places: np.ndarray, customers: np.ndarray) -> np.ndarray:
    """`f64[C]`, from each customer to the nearest other place, as it counts against the limit of flights."""
    if instance.drone_time is not None:
        there = np.where(np.eye(len(places), dtype=bool), np.inf, instance.drone_time)[customers]
        return there.min(axis=1)
    return np.array([nearest(places[[each]], np.delete(places, each, axis=0))[0] for each in customers])
