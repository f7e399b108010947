"""Plans stop by stop, in plain Python, and the best of all of them."""

import collections
import functools
import itertools
import math


def drive(day, v, place, free, stops):
    """All travel and the least slack of `(place, earliest, deadline, load, released)` in this order.

    A place of rides along streets has its row of the matrix, too.
    """
    pace, stop_time = 60 * day.detour[v] / day.speed[v], day.stop_time[v]
    trips = [stops] if day.depot is None or not day.is_drone[v] else [[stop] for stop in stops]
    time, travel, slack = free, 0.0, math.inf
    for trip in trips:
        here = place if day.depot is None else day.depot
        time = time if day.depot is None else max(time, *(stop[-1] for stop in trip), 0.0) + stop_time
        left = time
        for there, earliest, deadline, *_ in trip:
            way = minutes(day, pace, here, there)
            here, travel, time = there, travel + way, max(earliest, time + way)
            slack, time = min(slack, deadline - time), time + stop_time
        if day.depot is not None and trip:
            way = pace * math.dist(here, day.depot)
            travel, time = travel + way, time + way
            slack = min(slack, day.horizon - time, left + day.max_trip[v] - time)
            time += day.turnaround[v]
    return travel, slack


def minutes(day, pace, here, there):
    """Minutes between two places."""
    if len(there) == 3:
        return day.travel_time[int(here[2]), int(there[2])]
    return pace * math.dist(here, there)


def holds(day, v, aboard, stops):
    """Whether the loads fit."""
    loads = [stop[3] for stop in stops]
    if day.depot is None:
        return all(total <= day.capacity[v] for total in itertools.accumulate(loads, initial=aboard))
    return max(-load if day.is_drone[v] else -sum(loads) for load in loads) <= day.capacity[v]


def least_travel(day, plans):
    """The least travel of all plans that serve the same stops in time; `plans` are those of one state, in float64.

    Requests that are not picked up may go to any vehicle, passengers aboard stay.
    """
    stops, of_request = {}, collections.defaultdict(list)
    for v, start in enumerate(plans.start):
        for k in range(num_stops(start)):
            place, numbers = tuple(plans.stops[:2, v, k]), plans.stops[2:7, v, k]
            if day.depot is None and day.travel_time is not None:
                place = (*place, day.row_of(int(numbers[3]), numbers[2] > 0))
            of_request[int(numbers[3])].append((v, k))
            stops[v, k] = (place, *numbers[:3], numbers[4])
    vehicles = range(len(plans.start))

    @functools.cache
    def best(v, requests):
        names = [stop for request in requests for stop in of_request[request]]
        orders = (order for order in itertools.permutations(names) if in_order(order, requests, of_request))
        return min((travel_of(day, v, plans, [stops[name] for name in order]) for order in orders), default=math.inf)

    is_open = {r: day.depot is not None or len(names) == 2 for r, names in of_request.items()}
    choices = [vehicles if is_open[r] else [names[0][0]] for r, names in of_request.items()]
    return min(
        sum(best(v, tuple(r for r, w in zip(of_request, chosen, strict=True) if w == v)) for v in vehicles)
        for chosen in itertools.product(*choices)
    )


def num_stops(start):
    """How many stops a plan has."""
    return sum(map(math.isfinite, start))


def in_order(order, requests, of_request):
    """Whether each request is picked up before it is dropped off."""
    return all(order.index(names[0]) <= order.index(names[-1]) for names in (of_request[r] for r in requests))


def travel_of(day, v, plans, stops):
    """Minutes of travel of a vehicle; inf if a promise is broken."""
    if not stops:
        return 0.0
    travel, slack = drive(day, v, plans.place[:, v], plans.free[v], stops)
    # Near the limit either answer is right: plans are granted 1e-3.
    return travel if slack >= -2e-3 and holds(day, v, plans.aboard[v], stops) else math.inf
