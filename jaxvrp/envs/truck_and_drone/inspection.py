"""What warnings of absurd problems of truck and drone are worked out from."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.plausible import nearest

LOOKED_AT = 200
"""Customers, the first of them, whose least flights are worked out."""


def flown_customers(instance: Instance) -> np.ndarray:
    """`i64[C]`, those that the drone may serve, at most `LOOKED_AT`."""
    return (np.flatnonzero(instance.exists & ~instance.no_fly)[1:])[:LOOKED_AT]


def least_legs(instance: Instance, customers: np.ndarray) -> np.ndarray:
    """`f64[C]`, from each customer to the nearest other place, as it counts against the limit of flights."""
    if instance.drone_time is not None:
        there = np.where(np.eye(instance.num_nodes, dtype=bool), np.inf, instance.drone_time)[customers]
        return there.min(axis=1)
    places = np.asarray(instance.locs, np.float64)
    return np.array([nearest(places[[each]], np.delete(places, each, axis=0))[0] for each in customers])
