"""What the dial-a-ride tests share: the published instances and solutions, where they are stored."""

import dataclasses
import json
from pathlib import Path

import pytest

from jaxvrp.envs.darp.problem.cordeau import from_cordeau_index, read_cordeau

FAMILIES = ("darp_cordeau2006", "darp_cordeau_laporte2003")


@dataclasses.dataclass(frozen=True)
class Published:
    """A published solution: the file and its instance, routes in interleaved numbers, and the cost stated with them."""

    path: Path
    instance: object
    routes: tuple[tuple[int, ...], ...]
    cost: float


@pytest.fixture(scope="session")
def cordeau_files(published_folder):
    """All instance files of the Cordeau format."""
    folder = published_folder(*FAMILIES)
    return [path for family in FAMILIES for path in sorted((folder / family).glob("*.txt"))]


@pytest.fixture(scope="session")
def published(cordeau_files):
    """All `Published` optimal solutions."""
    solutions = []
    for path in cordeau_files:
        stored = path.parent / "solutions" / f"{path.stem}.json"
        if stored.exists():
            instance, solution = read_cordeau(path), json.loads(stored.read_text())
            routes = [from_cordeau_index(route, instance.num_nodes // 2).tolist() for route in solution["routes"]]
            solutions.append(Published(path, instance, tuple(map(tuple, routes)), solution["cost"]))
    assert solutions
    return solutions
