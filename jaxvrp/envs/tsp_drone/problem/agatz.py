"""The text formats of Agatz, Bouman & Schmidt (2018): instances, and solutions as lists of operations.

Comments between `/*` and `*/` are ignored. An instance is

    #MAXFLY 12.78        perhaps: the longest flight of a sortie, both legs
    #NOVISIT 3           perhaps, one line for each customer (0-based) that the drone may not serve
    1.0                  the truck's time for a unit of distance
    0.5                  the drone's
    5                    nodes
    0.65 0.95 depot      x, y and name of each node, the depot first

and a solution the number of operations, then `start end fly internal v1 ... vk` for each: `internal` is k, and `fly`
the customer that the drone serves meanwhile, -1 if it rides along.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import numpy as np

from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.operations import Operation
from jaxvrp.envs.tsp_drone.problem.instance import make_instance
from jaxvrp.io.text_lines import Line, is_blank, read_lines
from jaxvrp.io.whole_files import write_text

LARGEST_COUNT = 1_000_000


def read_agatz(path: str | os.PathLike) -> Instance:
    """Read an instance, as NumPy arrays.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    lines = _lines(path, "an instance in the format of Agatz et al.")
    limits = [line for line in lines if line.text.startswith("#")]
    rows = [line for line in lines if not line.text.startswith("#")]
    lines[-1].expect(len(rows) >= 4, "two speeds, the number of nodes and the nodes", "restore what is missing")
    truck, drone, size, *nodes = rows
    paces = {"truck_pace": _pace(truck, "truck"), "drone_pace": _pace(drone, "drone")}
    count = size.whole("the number of nodes", size.only_word(), minimum=1, below=LARGEST_COUNT)
    size.expect(count == len(nodes), f"{len(nodes)} for the number of nodes, as lines follow, found {count}")
    locs = []
    for line in nodes:
        words = line.words()
        line.expect(len(words) >= 2, f"'x y name', found {line.text[:40]!r}")
        locs.append((line.real("x", words[0]), line.real("y", words[1])))
    max_flight, no_fly = np.inf, np.zeros(count)
    for line in limits:
        words = line.words()
        limit = words[0].upper()
        line.expect(len(words) == 2 and limit in ("#MAXFLY", "#NOVISIT"), "'#MAXFLY distance' or '#NOVISIT node'")
        if limit == "#MAXFLY":
            line.expect(np.isinf(max_flight), "#MAXFLY once, found it again", "remove one of the two")
            max_flight = line.real("#MAXFLY", words[1])
            line.expect(max_flight > 0, f"a distance above 0 for #MAXFLY, found {words[1]!r}")
        else:
            node = line.whole("#NOVISIT", words[1], minimum=1)
            line.expect(node < count, f"a customer from 1 to {count - 1} for #NOVISIT, found {node}")
            no_fly[node] = 1
    return make_instance(locs, **paces, max_flight=max_flight, no_fly=no_fly)


def begins_like_agatz(first: Sequence[Line]) -> bool:
    """Whether the first line may be that of an instance: a comment, a limit, or one number."""
    line = first[0]
    return line.text.startswith(("/*", "#")) or line.is_number(line.only_word())


def read_operations(path: str | os.PathLike) -> list[Operation]:
    """Read a solution.

    Raises:
        ValueError, OSError: as `read_agatz`.
    """
    head, *lines = _lines(path, "a solution in the format of Agatz et al.")
    count = head.whole("the number of operations", head.only_word(), minimum=0, below=LARGEST_COUNT)
    head.expect(count == len(lines), f"{len(lines)} for the number of operations, as lines follow, found {count}")
    operations = []
    for line in lines:
        words = line.words()
        line.expect(len(words) >= 4, "'start end fly internal', and the nodes between")
        names = ("start", "end", "fly", "internal")
        start, end, fly, count = (line.whole(name, word) for name, word in zip(names, words[:4], strict=True))
        line.expect(min(start, end) >= 0 and fly >= -1, "nodes of at least 0, and fly of at least -1")
        line.expect(count == len(words) - 4, f"{len(words) - 4} nodes between, as are written, found {count}")
        internal = tuple(line.whole("a node between", word, minimum=0) for word in words[4:])
        operations.append(Operation(start, end, None if fly < 0 else fly, internal))
    return operations


def write_agatz(path: str | os.PathLike, instance: Instance) -> None:
    """Write what `read_agatz` reads, with every digit; complete, or not at all.

    Raises:
        ValueError: the format cannot hold something; one line that names it.
        OSError: the file cannot be written.
    """
    if np.ndim(instance.exists) != 1:
        raise ValueError(f"exists has shape {np.shape(instance.exists)}; write one instance of the batch at a time")
    reasons = {
        "nodes that do not exist (padding)": not np.asarray(instance.exists).all(),
        "a launch_time or recovery_time": bool(instance.launch_time or instance.recovery_time),
        "a depot_launch_time": instance.depot_launch_time is not None,
        "a max_sortie": instance.max_sortie is not None,
        "matrices of times": instance.truck_time is not None,
        "time windows": type(instance) is not Instance,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise ValueError(f"the format of Agatz et al. cannot hold {', '.join(found)}; use jaxvrp.envs.tsp_drone.save")
    # `repr` of a float is the shortest text that reads back as the same number.
    limit = [] if np.isinf(instance.max_flight) else [f"#MAXFLY {float(instance.max_flight)!r}"]
    names = ["depot", *(f"loc{node}" for node in range(1, instance.num_nodes))]
    places = np.asarray(instance.locs, np.float64).tolist()
    rows = [f"{x!r} {y!r} {name}" for (x, y), name in zip(places, names, strict=True)]
    text = [
        *limit,
        *(f"#NOVISIT {node}" for node in np.flatnonzero(instance.no_fly)),
        "/*The speed of the Truck*/",
        repr(float(instance.truck_pace)),
        "/*The speed of the Drone*/",
        repr(float(instance.drone_pace)),
        "/*Number of Nodes*/",
        str(instance.num_nodes),
        "/*The Depot*/",
        rows[0],
        "/*The Locations (x_coor y_coor name)*/",
        *rows[1:],
    ]
    write_text(path, "\n".join(text) + "\n")


def write_operations(path: str | os.PathLike, operations: Sequence[Operation]) -> None:
    """Write what `read_operations` reads; complete, or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [
        " ".join(map(str, [start, end, -1 if fly is None else fly, len(internal), *internal]))
        for start, end, fly, internal in operations
    ]
    head = ["/* Number of Operations */", str(len(rows)), "/* Start End Fly #Internal Locations... */"]
    write_text(path, "\n".join([*head, *rows]) + "\n")


def _lines(path: str | os.PathLike, expected: str) -> list[Line]:
    """Lines without comments; those that are empty then are left out."""
    lines = []
    for line in read_lines(path, expected):
        text = re.sub(r"/\*.*?\*/", " ", line.text).strip()
        line.expect("/*" not in text, "a comment that ends in the same line, with '*/'")
        if not is_blank(text):
            lines.append(Line(line.path, line.number, text))
    if not lines:
        raise ValueError(f"{path}: expected {expected}, found comments only; give {expected}")
    return lines


def _pace(line: Line, vehicle: str) -> float:
    pace = line.real(f"the {vehicle}'s time for a unit of distance", line.only_word())
    line.expect(pace > 0, f"a number above 0 for the {vehicle}'s time for a unit of distance, found {line.text[:20]!r}")
    return pace
