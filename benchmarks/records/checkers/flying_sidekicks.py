"""Checks plans of a truck with several drones (Murray & Raj 2020) from the published files alone. Needs NumPy alone.

A plan is a text of the driver's tasks in their order: `D3` drives to node 3, `S` serves there, `L5:0` launches drone 0
to customer 5, `R5:0` takes it in again. Node 0 is the depot. Everything happens as early as possible, but for one
thing: the last launch at a stop before the truck waits there for a drone is held back by that wait, as far as its own
drone would hover for the truck otherwise. A battery drains by the paper's model of power, also while a drone hovers; a
fixed endurance limits flight, service and hovering.
"""

import csv
import math
import re

import numpy as np

ROUNDING = 1e-5
"""Half the share by which an endurance may be exceeded: plans are searched in 32 bits."""

EARTH, POUND, GRAVITY, FRAME = 6378100.0, 0.453592, 9.8, 1.5  # metres, kg, m/s², kg of a drone
FIXED = {291094: 700.0, 562990: 1400.0, 457503: 350.0, 904033: 700.0}  # the paper's fixed endurance, seconds, by Joule


def table(path):
    """The numbers of a table whose comments begin with %, of at most twelve columns: then there are words."""
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].lstrip().startswith("%")]
    return np.array([[float(word) for word in row[:12]] for row in rows])


def watt(load, cruise, vertical):
    """The paper's power at a horizontal and a vertical speed, with so many kg on board."""
    lift = (FRAME + load) * GRAVITY - 0.0279 * (cruise * math.cos(math.radians(10))) ** 2
    thrust = math.hypot(lift, 0.0296 * cruise**2)
    induced = 0.8554 * thrust * (vertical / 2 + math.sqrt((vertical / 2) ** 2 + thrust / 0.3051**2))
    return induced + 0.3177 * thrust**1.5 + 0.0296 * cruise**3


class Drone:
    """Times between nodes, and what they take of the battery in Joule, or of a fixed endurance in seconds."""

    def __init__(self, row, metres, pounds, battery):
        _, _, rise, self.cruise, sink, yaw, height, *rest = row
        self.capacity, self.launch, self.recovery, self.service, joule = rest
        moves, self.rise, self.sink = metres > 0, rise, sink
        self.up, self.along, self.down = (
            moves * (height / rise + 180 / yaw),
            metres / self.cruise,
            moves * height / sink,
        )
        self.time, self.pounds, self.battery = self.up + self.along + self.down, pounds, battery
        self.endurance = joule if battery else FIXED[int(joule)]
        self.hover = watt(0.0, 0.0, 0.0) if battery else 1.0
        self.serving = 0.0 if battery else self.service

    def used(self, start, end, pounds):
        """By a flight with a parcel of so many pounds."""
        if not self.battery:
            return self.time[start, end]
        load = max(pounds, 0.0) * POUND
        powers = watt(load, 0.0, self.rise), watt(load, self.cruise, 0.0), watt(load, 0.0, self.sink)
        return sum(
            power * time[start, end] for power, time in zip(powers, (self.up, self.along, self.down), strict=True)
        )


def read(data, entry):
    """The truck's seconds between nodes, its service, and the drones."""
    folder, rules = (data / entry["file"]).parent, entry["rules"]
    places, vehicles = table(folder / "tbl_locations.csv"), table(folder.parent / rules["vehicles"])
    latitude, longitude = np.radians(places[:, 2:4]).T
    chord = np.sin((latitude[:, None] - latitude) / 2) ** 2
    chord += np.cos(latitude[:, None]) * np.cos(latitude) * np.sin((longitude[:, None] - longitude) / 2) ** 2
    metres = 2 * EARTH * np.arcsin(np.sqrt(chord))
    roads = np.zeros(metres.shape)
    for start, end, seconds, *_ in table(folder / "tbl_truck_travel_data_PG.csv"):
        roads[int(start), int(end)] = seconds
    rows = vehicles[1 : 1 + rules["drones"]]
    return roads, vehicles[0][10], [Drone(row, metres, places[:, 5], rules["battery"]) for row in rows]


class Check:
    """A plan on the way."""

    def __init__(self, entry, roads, service, drones):
        self.entry, self.roads, self.service, self.drones = entry, roads, service, drones
        self.clock, self.here, self.stop, self.home = 0.0, 0, 0, False
        self.visited, self.served, self.away = {0}, {0}, {}
        self.last = None  # the last launch at this stop that no wait has followed yet

    def must(self, holds, fault):
        """Refuse a plan that breaks a rule."""
        if not holds:
            raise ValueError(f"{self.entry['instance']}: {fault}")

    def follow(self, task):
        """The driver's next task."""
        found = re.fullmatch(r"(D)(\d+)|(S)|([LR])(\d+):(\d+)", task)
        self.must(found, f"{task!r} is no task")
        kind, *numbers = (word for word in found.groups() if word)
        node, drone = (*map(int, numbers), 0, 0)[:2]
        self.must(node < len(self.roads) and drone < len(self.drones), f"{task}: there is no such node or drone")
        self.must(not self.home or kind == "R", f"{task} after the way home")
        if kind == "D":
            self.drive(node)
        elif kind == "S":
            self.must(self.here not in self.served, f"{self.here} is served twice")
            self.served.add(self.here)
            self.clock += self.service
        elif kind == "L":
            self.launch(node, drone)
        else:
            self.recover(node, drone)

    def drive(self, node):
        """The truck goes to a node."""
        self.must(node == 0 or node not in self.visited, f"the truck comes to {node} again")
        self.clock += self.roads[self.here, node]
        self.here, self.stop, self.home, self.last = node, self.stop + 1, node == 0, None
        self.visited.add(node)

    def launch(self, node, number):
        """A drone leaves for a customer."""
        drone = self.drones[number]
        self.must(number not in self.away and node not in self.visited, f"drone {number} flies to {node}")
        self.must(drone.pounds[node] <= drone.capacity, f"{node} is too heavy")
        self.visited.add(node)
        self.served.add(node)
        self.clock += drone.launch
        leave = self.clock + drone.time[self.here, node] + drone.service
        used = drone.used(self.here, node, drone.pounds[node]) + drone.serving
        self.last = self.away[number] = {"node": node, "stop": self.stop, "leave": leave, "used": used, "held": 0.0}

    def recover(self, node, number):
        """A drone is taken in; whoever comes first waits."""
        drone, flight = self.drones[number], self.away.pop(number, None)
        self.must(flight and flight["node"] == node and flight["stop"] < self.stop, f"drone {number} is not back")
        arrive = flight["leave"] + drone.time[node, self.here]
        if self.last is not None:
            self.last["held"], self.last = max(arrive - self.clock, 0.0), None
        hovers = max(self.clock - arrive - flight["held"], 0.0)
        used = flight["used"] + drone.used(node, self.here, 0.0) + hovers * drone.hover
        self.must(used <= drone.endurance * (1 + 2 * ROUNDING), f"the flight to {node} takes {used:g}")
        self.clock = max(self.clock, arrive) + drone.recovery


def cost_of(data, entry):
    """The makespan of an entry's plan in seconds, recomputed.

    Raises:
        ValueError: the plan breaks a rule.
    """
    check = Check(entry, *read(data, entry))
    for task in entry["plan"].split():
        check.follow(task)
    check.must(check.home and not check.away, "somebody is not home")
    left = sorted(set(range(len(check.roads))) - check.served)
    check.must(not left, f"not served: {left}")
    return float(check.clock)
