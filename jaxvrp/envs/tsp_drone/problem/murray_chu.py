"""The files of Murray & Chu (2015): a folder with `nodes.csv`, `Cprime.csv`, `tau.csv` and `tauprime.csv`.

`nodes.csv` has `node, x, y, number` in each line; the first node is the depot, and so is the last: the way back. Times
are minutes, from row to column, the truck's in `tau.csv` and the drone's in `tauprime.csv`; `Cprime.csv` lists the
customers that the drone can carry for; it is empty if there are none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.tsp_drone.problem.instance import make_instance
from jaxvrp.io.messages import shown
from jaxvrp.io.problems.problem_files import with_given
from jaxvrp.io.text_lines import read_lines

ENDURANCES = (20.0, 40.0)
"""Minutes; the paper solves each file with both."""

COUNTS = ("flight", "flight and recovery", "flight, waiting and recovery")
"""What the endurance limits. The second is what the constraints of the paper come to: they let the drone wait at its
customer at no cost. Its text has the drone hover where it meets the truck, which is the third."""

PUBLISHED = {"launch_time": 1.0, "depot_launch_time": 0.0, "recovery_time": 1.0}
"""Minutes of the paper; its clock begins when the drone leaves the depot."""

FILES = NODES, CARRIED, TRUCK, DRONE = "nodes.csv", "Cprime.csv", "tau.csv", "tauprime.csv"


def read_murray_chu(
    folder: str | os.PathLike,
    *,
    endurance: float,
    launch_time: float = PUBLISHED["launch_time"],
    depot_launch_time: float = PUBLISHED["depot_launch_time"],
    recovery_time: float = PUBLISHED["recovery_time"],
    endurance_counts: str = COUNTS[1],
) -> Instance:
    """Read an instance, as NumPy arrays; the depot is there once.

    The files do not say the minutes of `endurance`, 20 or 40 in the paper, nor those of launches and recoveries, whose
    defaults are the paper's, nor what counts, one of `COUNTS`.

    Raises:
        ValueError: an unknown rule, an endurance that a recovery uses up, or a damaged file; one line, of a file with
            line, what was expected and the remedy.
        OSError: one cannot be read.
    """
    folder = Path(folder)
    limits = _limits(endurance, recovery_time, endurance_counts)
    locs = []
    for expected, line in enumerate(read_lines(folder / NODES, "lines 'node, x, y, number'")):
        words = line.separated(4)
        line.expect(len(words) == 4, f"the 4 fields 'node, x, y, number', found {len(words)}")
        number = line.whole("node", words[0], minimum=0)
        line.expect(number == expected, f"node {expected}, found {number}", "put the nodes in order")
        locs.append([line.real("x", words[1]), line.real("y", words[2])])
    line.expect(len(locs) >= 2, "the depot as the first and as the last node")
    line.expect(locs[0] == locs[-1], f"the place of the depot again, found {locs[-1]}")
    count = len(locs) - 1
    no_fly = np.arange(count) > 0
    for line in read_lines(folder / CARRIED, "a list of customers", least=0):
        for word in line.separated():
            node = line.whole("a customer", word, minimum=1)
            line.expect(node < count, f"a customer from 1 to {count - 1}, found {node}")
            no_fly[node] = False
    return make_instance(
        locs[:-1],
        **limits,
        no_fly=no_fly,
        launch_time=launch_time,
        depot_launch_time=depot_launch_time,
        recovery_time=recovery_time,
        truck_time=_matrix(folder / TRUCK, count),
        drone_time=_matrix(folder / DRONE, count),
    )


def assumed(endurance_counts: str = COUNTS[1], **numbers: Any) -> dict[str, Any]:
    """What a folder does not say, or what is given instead; both endurances are a problem each.

    Raises:
        ValueError: an unknown rule, or no number; one line.
    """
    if endurance_counts not in COUNTS:
        raise ValueError(f"endurance_counts is {shown(endurance_counts)}; it must be one of: {'; '.join(COUNTS)}")
    rules = with_given({"endurance": ENDURANCES, **PUBLISHED}, numbers)
    return {**rules, "endurance_counts": endurance_counts}


def _limits(endurance: float, recovery_time: float, counts: str) -> dict[str, float]:
    """`max_flight`, and `max_sortie` where waiting counts."""
    assumed(counts)
    if counts == COUNTS[0]:
        return {"max_flight": endurance}
    if endurance <= recovery_time:
        raise ValueError(f"endurance is {endurance:g}, and a recovery takes {recovery_time:g}; give a longer one")
    flight = {"max_flight": endurance - recovery_time}
    return flight if counts == COUNTS[1] else {**flight, "max_sortie": endurance}


def _matrix(path: Path, count: int) -> np.ndarray:
    """`f64[count, count]`, without the row and the column of the last node, which are those of the depot."""
    lines = read_lines(path, "a matrix of times")
    lines[0].expect(len(lines) == count + 1, f"{count + 1} lines, one for each node, found {len(lines)}")
    rows = []
    for line in lines:
        words = line.separated(count + 1)
        line.expect(len(words) == count + 1, f"{count + 1} times, one for each node, found {len(words)}")
        rows.append([line.real("a time", word) for word in words])
        line.expect(min(rows[-1]) >= 0, f"times of at least 0, found {min(rows[-1])}")
    for line, row in zip(lines[:-1], rows, strict=False):
        line.expect(row[-1] == row[0], f"as the last time that to the depot, {row[0]}, found {row[-1]}")
    return np.array(rows)[:-1, :-1]
