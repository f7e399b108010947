"""Checks plans of a truck with a drone from the published files alone. Needs NumPy, and nothing of jaxvrp.

A plan is a text of operations, `0-3-5^8`: the truck drives from 0 over 3 to 5, the drone flies from 0 to customer 8 and
then to 5, and the two go on together when both are there. `0-3`: they drive together. `5-5^2`: the truck waits at 5.
Node 0 is the depot. Every other node is served once, by the truck that drives there or by the drone. Where the rules
allow revisits, the drone may also be met at a node that is served already. Whoever is first waits.
"""

import re
from itertools import pairwise

import numpy as np

ROUNDING = 1e-5
"""Share by which a limit may be exceeded: plans are searched in 32 bits."""


class Problem:
    """Times between nodes, and limits; each reader sets what its files say."""

    def __init__(self, truck, drone):
        self.truck, self.drone = truck, drone  # [n, n], from row to column
        self.no_fly = set()
        self.flight, self.longest_flight = drone, np.inf  # what counts of a flight, and the most of both legs
        self.longest_sortie = np.inf  # from the end of the launch to that of the recovery
        self.launch = self.depot_launch = self.recovery = 0.0


def read_lines(path, row, rules):
    """Bogyrbayeva et al. (2023): an instance in each line, `x y x y ...`, the depot first; truck speed 1."""
    places = np.array(path.read_text().splitlines()[row].split(), float).reshape(-1, 2)
    between = np.linalg.norm(places[:, None] - places, axis=2)
    return Problem(between, between / rules["alpha"])


def read_agatz(path):
    """Agatz et al. (2018): times of a unit of distance for truck and drone, the number of nodes, then a node a line."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text())
    lines = [line for line in text.splitlines() if line.strip()]
    facts = [line for line in lines if not line.startswith("#")]
    truck, drone, count = float(facts[0]), float(facts[1]), int(facts[2])
    places = np.array([line.split()[:2] for line in facts[3 : 3 + count]], float)
    between = np.linalg.norm(places[:, None] - places, axis=2)
    problem = Problem(truck * between, drone * between)
    problem.flight = between
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "#MAXFLY":
            problem.longest_flight = float(rest)
        elif word == "#NOVISIT":
            problem.no_fly.update(map(int, rest.split()))
    return problem


def read_murray_chu(folder, rules):
    """Murray & Chu (2015): matrices of minutes, whose last row and column are the depot again."""
    truck, drone = (np.loadtxt(folder / name, delimiter=",")[:-1, :-1] for name in ("tau.csv", "tauprime.csv"))
    carried = {int(word) for word in (folder / "Cprime.csv").read_text().replace("\n", ",").split(",") if word.strip()}
    problem = Problem(truck, drone)
    problem.no_fly = set(range(1, len(truck))) - carried
    problem.launch, problem.depot_launch = rules["launch_time"], rules["depot_launch_time"]
    problem.recovery = rules["recovery_time"]
    counted, endurance = rules["endurance_counts"], rules["endurance"]
    problem.longest_flight = endurance if counted == "flight" else endurance - problem.recovery
    if "waiting" in counted:
        problem.longest_sortie = endurance
    return problem


def read(data, entry):
    """The problem of an entry of a record."""
    path = data / entry["file"]
    if path.name == "nodes.csv":
        return read_murray_chu(path.parent, entry["rules"])
    return read_agatz(path) if entry["row"] is None else read_lines(path, entry["row"], entry["rules"])


def operations_of(plan):
    """`[([0, 3, 5], 8), ...]`: the truck's way and the drone's customer, None where it rides along."""
    for text in plan.split():
        if not re.fullmatch(r"\d+(-\d+)+(\^\d+)?", text):
            raise ValueError(f"{text!r} is no operation")
        way, _, customer = text.partition("^")
        yield [int(node) for node in way.split("-")], int(customer) if customer else None


def cost_of(data, entry):
    """The makespan of an entry's plan, recomputed.

    Raises:
        ValueError: the plan breaks a rule.
    """
    problem = read(data, entry)
    nodes = set(range(len(problem.truck)))
    clock, place, served = 0.0, 0, {0}
    revisits = entry.get("rules", {}).get("allow_revisits", True)

    def must(holds, fault):
        if not holds:
            raise ValueError(f"{entry['instance']}, at {way} ^ {customer}: {fault}")

    def serve(node):
        must(node not in served, f"{node} is served twice")
        served.add(node)

    for way, customer in operations_of(entry["plan"]):
        must({*way, customer} - {None} <= nodes, "there is no such node")
        must(way[0] == place, f"both are at {place}")
        must(all(here != there for here, there in pairwise(way[1:])), "a place stands there twice")
        place = way[-1]
        if customer is not None:
            must(customer not in problem.no_fly, f"the drone may not serve {customer}")
            serve(customer)
        for node in way[1:-1]:
            serve(node)
        must(place != customer, "they meet at the drone's customer")
        if place not in served:
            serve(place)
        else:
            may_meet = customer is not None and revisits
            must(may_meet or (place == 0 and served == nodes), f"{place} is served already")
        driven = sum(problem.truck[way[:-1], way[1:]])
        clock += driven if customer is None else sortie(problem, way, customer, driven, must)
    if served != nodes or place != 0:
        raise ValueError(f"{entry['instance']}: not served: {sorted(nodes - served)}; the end is at {place}")
    return float(clock)


def sortie(problem, way, customer, driven, must):
    """How long an operation with a flight takes."""
    start, end = way[0], way[-1]
    flight = problem.flight[start, customer] + problem.flight[customer, end]
    must(flight <= problem.longest_flight * (1 + ROUNDING), f"a flight of {flight:g}")
    flown = problem.drone[start, customer] + problem.drone[customer, end]
    whole = max(driven, flown) + problem.recovery
    must(whole <= problem.longest_sortie * (1 + ROUNDING), f"a sortie of {whole:g}")
    return whole + (problem.depot_launch if start == 0 else problem.launch)
