"""What the tests of the truck with a drone share: the published instances and solutions, where they are stored."""

import csv
import dataclasses

import pytest

from jaxvrp.envs.tsp_drone import read_agatz, read_operations

FAMILY = "tspd_agatz"


@dataclasses.dataclass(frozen=True)
class Published:
    """A published solution: its instance, operations, the makespan stated with it, whether that is a proven optimum."""

    name: str
    instance: object
    operations: list
    cost: float
    is_optimal: bool


@pytest.fixture(scope="session")
def agatz_folder(published_folder):
    """The folder of Agatz et al.'s instances."""
    return published_folder(FAMILY) / FAMILY


@pytest.fixture(scope="session")
def published(agatz_folder):
    """All `Published` solutions."""
    with (agatz_folder / "best_known.csv").open() as file:
        known = {row["instance"]: row for row in csv.DictReader(file)}
    solutions = []
    for path in sorted(agatz_folder.glob("*/solutions/*.txt")):
        name = path.stem.removesuffix("-DP").removesuffix("-ASTAR").removesuffix("-lim_2")
        instance = read_agatz(path.parents[1] / f"{name}.txt")
        row = known[name]
        is_optimal = row["status"] == "optimal"
        solutions.append(Published(name, instance, read_operations(path), float(row["best_makespan"]), is_optimal))
    assert sum(solution.is_optimal for solution in solutions) >= 140
    return solutions
