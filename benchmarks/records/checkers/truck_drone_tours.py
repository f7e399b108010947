"""Checks plans of tandems with time windows (Kuo et al. 2022) from the published files alone. Needs NumPy alone.

A plan is a text: tours with ` / ` between, each of operations `0-3-5^8`: the truck drives from 0 over 3 to 5, the drone
flies from 0 to customer 8 and then to 5. `0-3`: they drive together. Every tour is a tandem's, from the depot (0) and
back. Everything happens as early as possible: at a stop the truck takes the drone in (a minute), waits for the window,
serves, launches the drone (a minute), but not before it can serve on arrival, and drives on.
"""

import itertools
import re

import numpy as np

ROUNDING = 1e-5
"""Share by which a limit may be exceeded: plans are searched in 32 bits."""

PAPER = {
    **{"units.time": "min", "truck_speed": 35.0, "drone_speed": 50.0},  # miles an hour
    **{"truck_capacity": 1400.0, "drone_capacity": 5.0},  # kg that a tandem, and the drone, carry
    **{"endurance": 30.0, "launch_time": 1.0, "recovery_time": 1.0},  # minutes; flights and service of a sortie
    **{"truck_price": 1.61 * 1.13 * 0.07, "drone_price": 0.161 * 1.13 * 0.07},  # euro a mile
}
"""Rules, but for those that an entry has; these are in the units of the file, speeds in its unit of length an hour."""

HOUR = {"s": 3600.0, "min": 60.0, "h": 1.0}


def operations_of(tour):
    """`[([0, 3, 5], 8), ...]`: the truck's way and the drone's customer, None where it rides along."""
    for text in tour.split():
        way, _, customer = text.partition("^")
        yield [int(node) for node in way.split("-")], int(customer) if customer else None


class Check:
    """One plan: what it served and cost so far."""

    def __init__(self, path, name, rules):
        x, y, self.demand, self.opens, self.closes, self.service = np.loadtxt(path, delimiter=",", skiprows=1).T
        self.miles = np.hypot(x[:, None] - x, y[:, None] - y)
        self.name, self.served, self.cost, self.load, self.by_truck = name, {0}, 0.0, 0.0, 0
        self.rules = {**PAPER, **rules}
        hour = HOUR[self.rules["units.time"]]
        self.truck_pace, self.drone_pace = (hour / self.rules[f"{kind}_speed"] for kind in ("truck", "drone"))

    def must(self, holds, fault):
        """Refuse a plan that breaks a rule."""
        if not holds:
            raise ValueError(f"{self.name}: {fault}")

    def tour(self, text):
        """A tandem's tour, from the depot and back."""
        for word in text.split():
            self.must(re.fullmatch(r"\d+(-\d+)+(\^\d+)?", word), f"{word!r} is no operation")
            self.must(max(map(int, re.findall(r"\d+", word))) < len(self.demand), f"{word}: there is no such node")
        place, clock, self.load, self.by_truck = 0, self.opens[0], 0.0, 0
        for number, (way, customer) in enumerate(operations_of(text)):
            self.must(way[0] == place, f"{way} does not begin at {place}")
            self.must(0 not in way[1:-1], "the depot lies within an operation")
            self.must(number == 0 or place != 0, "the tour goes on after it came home")
            clock, place = self.operation(way, customer, clock), way[-1]
        self.must(place == 0, "a tour does not come home")
        self.must(self.by_truck > 0, f"the truck serves nobody in {text}")
        self.must(self.load <= self.rules["truck_capacity"] * (1 + ROUNDING), f"{self.load:g} kg in {text}")
        self.must(clock <= self.closes[0] * (1 + ROUNDING), f"{text} is home at {clock:g}")

    def operation(self, way, customer, clock):
        """When the truck has served at the end."""
        start, end, back = way[0], way[-1], None
        if customer is not None:
            self.must(start != end or (start == 0 and len(way) > 2), f"the truck waits at {start} for the drone")
            self.must(self.demand[customer] <= self.rules["drone_capacity"], f"{customer} is too heavy for the drone")
            out, home = (self.drone_pace * self.miles[customer, node] for node in (start, end))
            clock = max(clock + self.rules["launch_time"], self.opens[customer] - out)
            spent = out + self.service[customer] + home
            self.must(spent <= self.rules["endurance"] * (1 + ROUNDING), f"a sortie to {customer} of {spent:g}")
            self.cost += self.rules["drone_price"] * (self.miles[start, customer] + self.miles[customer, end])
            back = self.serve(customer, clock + out) + home
        for before, node in itertools.pairwise(way):
            self.cost += self.rules["truck_price"] * self.miles[before, node]
            clock += self.truck_pace * self.miles[before, node]
            if node == end and back is not None:
                clock = max(clock, back) + self.rules["recovery_time"]
            if node != 0:
                clock = self.serve(node, clock)
                self.by_truck += 1
        return clock

    def serve(self, node, arrival):
        """When a customer is served."""
        self.must(node not in self.served, f"{node} is served twice")
        self.served.add(node)
        self.load += self.demand[node]
        begin = max(arrival, self.opens[node])
        self.must(begin <= self.closes[node] * (1 + ROUNDING), f"service of {node} begins at {begin:g}")
        return begin + self.service[node]


def cost_of(data, entry):
    """The cost of an entry's plan in euro, recomputed.

    Raises:
        ValueError: the plan breaks a rule.
    """
    check = Check(data / entry["file"], entry["instance"], entry["rules"])
    for tour in entry["plan"].split(" / "):
        check.tour(tour)
    left = sorted(set(range(len(check.demand))) - check.served)
    check.must(not left, f"not served: {left}")
    return float(check.cost)
