"""Checks plans of dial-a-ride problems (Cordeau 2006) from the published files alone. Needs NumPy, nothing of jaxvrp.

A plan is a text of routes with ` / ` between, each a list of stops without the depot: 1 to n are the pickups of n
requests, n + 1 to 2 n their drop-offs. A route is driven by one vehicle. The cost is the distance of all routes.
"""

import numpy as np

SLACK = 1e-3
"""Minutes that times may lack: plans are searched in 32 bits."""


def is_in_time(stops, way, places, longest_route, longest_ride, count):
    """Whether there are times for all stops of a route, the depot first and last.

    Each rule is `time[b] >= time[a] + gap`. Times that keep all of them exist if and only if raising them, rule by
    rule, comes to an end (Bellman and Ford).
    """
    service, opens, closes = places[stops][:, 3], places[stops][:, 5], places[stops][:, 6]
    last, rules = len(stops) - 1, []
    for place in range(last):
        rules.append((place, place + 1, service[place] + way[stops[place], stops[place + 1]]))
    for place, stop in enumerate(stops[1:-1], 1):
        if stop <= count:
            there = stops.index(stop + count)
            rules.append((there, place, -longest_ride - service[place] - SLACK))
    rules.append((last, 0, -longest_route - SLACK))
    times = opens.copy()
    for _ in range(len(stops) + 1):
        before = times.copy()
        for first, then, gap in rules:
            times[then] = max(times[then], times[first] + gap)
        if (times > closes + SLACK).any():
            return False
        if np.allclose(times, before, rtol=0, atol=1e-9):
            return True
    return False


def cost_of(data, entry):
    """The distance of an entry's plan, recomputed.

    Raises:
        ValueError: the plan breaks a rule.
    """

    def must(holds, fault):
        if not holds:
            raise ValueError(f"{entry['instance']}: {fault}")

    head, *rows = (data / entry["file"]).read_text().splitlines()
    vehicles, _, longest_route, capacity, longest_ride = map(float, head.split())
    places = np.array([row.split() for row in rows if row.strip()], float)  # number x y service load opens closes
    places = places[: len(places) - (len(places) % 2 == 0)]  # some files repeat the depot at the end
    count = (len(places) - 1) // 2
    way = np.hypot(*(places[:, None, axis] - places[:, axis] for axis in (1, 2)))
    texts = [route.split() for route in entry["plan"].split(" / ")]
    must(all(stop.isdecimal() for route in texts for stop in route), "a stop is no number")
    routes = [[int(stop) for stop in route] for route in texts]
    visited = sorted(stop for route in routes for stop in route)
    must(visited == list(range(1, 2 * count + 1)), "a stop is missing, unknown, or there twice")
    must(len(routes) <= vehicles, f"{len(routes)} vehicles")
    for route in routes:
        for stop in route:
            paired = stop > count or (stop + count in route and route.index(stop) < route.index(stop + count))
            must(paired, f"{stop} is not dropped off after its pickup")
        must(np.cumsum(places[route, 4]).max(initial=0) <= capacity, f"too full: {route}")
        must(is_in_time([0, *route, 0], way, places, longest_route, longest_ride, count), f"late: {route}")
    return float(sum(way[[0, *route], [*route, 0]].sum() for route in routes))
