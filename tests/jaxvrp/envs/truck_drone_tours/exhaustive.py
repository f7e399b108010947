"""The cheapest plan of a small problem with time windows, by trying every tour of every set of customers."""

import itertools

import numpy as np

from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.truck_drone_tours.problem.report import tours_report


def cheapest_plan(instance):
    """Its cost and its tours."""
    customers = np.flatnonzero(instance.exists)[1:].tolist()
    tours = {
        frozenset(chosen): cheapest_tour(instance, chosen)
        for size in range(1, len(customers) + 1)
        for chosen in itertools.combinations(customers, size)
    }
    plans = {frozenset(): (0.0, [])}
    for size in range(1, len(customers) + 1):
        for chosen in map(frozenset, itertools.combinations(customers, size)):
            first = min(chosen)
            options = [
                (plans[chosen - part][0] + cost, [*plans[chosen - part][1], tour])
                for part, (cost, tour) in tours.items()
                if first in part and part <= chosen
            ]
            plans[chosen] = min(options, key=lambda option: option[0])
    return plans[frozenset(customers)]


def cheapest_tour(instance, customers):
    """The cheapest feasible tour that serves just these customers; infinite if there is none."""
    best = np.inf, []
    ignored = {"unserved"}
    for tour in all_tours(customers):
        report = tours_report(instance, [tour])
        broken = {name for name, found in report.violations.items() if found.count} - ignored
        if not broken and report.cost < best[0]:
            best = report.cost, tour
    return best


def all_tours(customers):
    """Every order of the truck's customers, and every way to fly to the others in between."""
    for by_truck in range(1, len(customers) + 1):
        for order in itertools.permutations(customers, by_truck):
            flown = [each for each in customers if each not in order]
            for drone in itertools.permutations(flown):
                stops = (0, *order, 0)
                for places in sorties(len(stops), len(drone)):
                    yield operations(stops, list(zip(places, drone, strict=True)))


def sorties(stops, count):
    """Every way to choose so many intervals of stops, one after the other."""
    for bounds in itertools.product(range(stops), repeat=2 * count):
        pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
        if all(start < end for start, end in pairs) and all(a[1] <= b[0] for a, b in itertools.pairwise(pairs)):
            yield pairs


def operations(stops, flights):
    """The tour over `stops` with flights `((first, last), customer)`, by positions of the stops."""
    made, here = [], 0
    for (start, end), customer in flights:
        made += [Operation(stops[at], stops[at + 1]) for at in range(here, start)]
        made.append(Operation(stops[start], stops[end], customer, tuple(stops[start + 1 : end])))
        here = end
    return made + [Operation(stops[at], stops[at + 1]) for at in range(here, len(stops) - 1)]
