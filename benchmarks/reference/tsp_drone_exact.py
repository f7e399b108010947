"""The least makespan of a truck with a drone, by dynamic programming over subsets, in NumPy (Bouman et al. 2018)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jaxvrp.envs.truck_and_drone.instance import LATENESS, Instance
from jaxvrp.envs.truck_and_drone.matrices import Matrices

Floats = NDArray[np.float64]


def exact_makespan(instance: Instance, *, allow_revisits: bool = True) -> float:
    """The proven optimum; time and memory grow as 3^n and 2^n n^2, so that n is at most about 13.

    Args:
        instance: one problem of n nodes, without padding.
        allow_revisits: whether truck and drone may meet at nodes that are served already.
    """
    problem = Matrices(instance)
    count = len(problem.nodes)
    full = (1 << count) - 2  # a set is a bit for each node; the depot's is never one of the served
    sortie = _sorties(problem, count)
    together = np.full((full + 2, count), np.inf)  # by served customers and place, when both go on from there
    together[0, 0] = 0.0
    bits = 1 << np.arange(count)
    bits[0] = 0
    is_depot = np.arange(count) == 0
    for served in range(0, full + 1, 2):
        here = together[served][:, None]
        rest = full & ~served
        ride = (here + problem.truck).min(axis=0)
        for node in np.flatnonzero(bits & rest):
            together[served | bits[node], node] = min(together[served | bits[node], node], ride[node])
        added = rest
        while added:
            met = (here + sortie[added]).min(axis=0)
            is_new = (bits & rest & ~added > 0) | (is_depot & (added == rest))
            for node in np.flatnonzero((met < np.inf) & (is_new | allow_revisits)):
                after = served | added | bits[node]
                together[after, node] = min(together[after, node], met[node])
            added = (added - 1) & rest
    return float((together[full] + np.where(is_depot, 0.0, problem.truck[:, 0])).min())


def _sorties(problem: Matrices, count: int) -> Floats:
    """`f64[sets, n, n]`, the least time from being together at the row to being together at the column, while the
    truck and the drone serve the set; inf where the row or the column is in the set, or a flight is too far.
    """
    truck = _paths(problem.truck, count)
    least = np.full_like(truck, np.inf)
    outside = ~((np.arange(len(truck))[:, None] >> np.arange(count)) & 1).astype(bool)
    for customer in range(1, count):
        if problem.no_fly[customer]:
            continue
        flight = problem.flight[:, customer, None] + problem.flight[customer]
        time = problem.drone[:, customer, None] + problem.drone[customer]
        time = np.where(flight <= problem.max_flight * (1 + LATENESS), time, np.inf)
        sets = np.flatnonzero(~outside[:, customer])
        both = np.maximum(truck[sets ^ (1 << customer)], time) + problem.recovery_time
        both = np.where(both <= problem.max_sortie * (1 + LATENESS), both, np.inf) + problem.launch_time[:, None]
        least[sets] = np.minimum(least[sets], both)
    return np.where(outside[:, :, None] & outside[:, None, :], least, np.inf)


def _paths(time: Floats, count: int) -> Floats:
    """`f64[sets, n, n]`, the truck's least time from the row over all of the set to the column."""
    path = np.full((1 << count, count, count), np.inf)
    path[0] = time
    for visited in range(2, 1 << count, 2):
        for node in range(1, count):
            if visited >> node & 1:
                through = time[:, node, None] + path[visited ^ (1 << node), node]
                path[visited] = np.minimum(path[visited], through)
    return path
