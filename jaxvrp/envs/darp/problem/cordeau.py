"""The text format of Cordeau & Laporte (2003) and Cordeau (2006), and reading problem files by their endings."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.problem.instance import Instance, load, make_instance
from jaxvrp.io.problems.cordeau_files import begins_with_header, read_numbers
from jaxvrp.io.problems.problem_files import FileFormat, read_problems
from jaxvrp.io.whole_files import write_text


def from_cordeau_index(node: ArrayLike, num_requests: int) -> np.ndarray:
    """Benchmark numbers, whole ones of any shape, to interleaved ones, `i64` of the same shape.

    The depot, 0 or 2n + 1, becomes 0, pickup i (1 to n) 2i - 1, and its drop-off n + i 2i.

    Raises:
        ValueError: a number outside of 0 to 2n + 1.
    """
    node = np.asarray(node, np.int64)
    last = 2 * num_requests + 1
    if ((node < 0) | (node > last)).any():
        raise ValueError(f"a node number lies outside of 0 to {last}; with {num_requests} requests there is no other")
    interleaved = np.where(node <= num_requests, 2 * node - 1, 2 * (node - num_requests))
    return np.where(node % last == 0, 0, interleaved)


def to_cordeau_index(node: ArrayLike, num_requests: int) -> np.ndarray:
    """Interleaved numbers, `i64` of any shape, to benchmark numbers; the depot is 0. Undoes `from_cordeau_index`."""
    node = np.asarray(node, np.int64)
    return np.where(node % 2 == 1, (node + 1) // 2, np.where(node == 0, 0, num_requests + node // 2))


def read_cordeau(path: str | os.PathLike) -> Instance:
    """Read one problem; see `jaxvrp.io.problems.cordeau_files`.

    Returns:
        NumPy arrays, times `f64`, in interleaved order; speed 1, travel times not rounded.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    header, nodes = read_numbers(path)
    order = np.argsort(from_cordeau_index(np.arange(len(nodes["id"])), int(header["requests"])))
    column = {name: values[order] for name, values in nodes.items()}
    return make_instance(
        np.stack([column["x"], column["y"]], axis=1),
        column["demand"],
        column["late"],
        capacity=np.full(int(header["vehicles"]), header["Q"]),
        earliest=column["early"],
        service_time=column["service"],
        max_ride_time=header["L"],
        max_route_duration=header["T"],
    )


def write_cordeau(path: str | os.PathLike, instance: Instance) -> None:
    """Write one problem as `read_cordeau` reads it, with every digit; complete, or not at all.

    It has vehicles of one capacity, speed 1, exact travel times, finite deadlines and limits, and no padding.

    Raises:
        ValueError: the format cannot hold something; one line that names it.
        OSError: the file cannot be written.
    """
    if np.ndim(instance.demand) != 1:
        raise ValueError(f"demand has shape {np.shape(instance.demand)}; write one instance of the batch at a time")
    capacity, demand = np.asarray(instance.capacity), np.asarray(instance.demand)
    reasons = {
        "vehicles of different capacity": (capacity != capacity[0]).any(),
        "vehicles of capacity 0 (padding)": (capacity == 0).any(),
        "requests with demand 0 (padding)": (demand[1::2] == 0).any(),
        "a vehicle_speed other than 1": instance.vehicle_speed != 1,
        "travel times along streets": instance.travel_time is not None,
        "round_travel_time": bool(instance.round_travel_time),
    }
    for name in ("deadline", "max_ride_time", "max_route_duration"):
        reasons[f"an infinite {name}"] = not np.isfinite(np.asarray(getattr(instance, name))).all()
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise ValueError(f"the Cordeau format cannot hold {', '.join(found)}; use jaxvrp.envs.darp.save")
    requests = instance.num_nodes // 2
    order = from_cordeau_index(np.arange(2 * requests + 2), requests)
    columns = [
        np.asarray(getattr(instance, name), np.float64)[order]
        for name in ("locs", "service_time", "demand", "earliest", "deadline")
    ]
    table = np.column_stack([np.arange(order.size), *columns])
    header = [capacity.size, requests, instance.max_route_duration, capacity[0], instance.max_ride_time]
    # The shortest text that reads back as the same number.
    rows = [" ".join(repr(float(value)).removesuffix(".0") for value in row) for row in [header, *table]]
    write_text(path, "".join(f"{row}\n" for row in rows))


def read_instances(path: str | os.PathLike, *, elsewhere: Sequence[str] = ()) -> list[Instance]:
    """The problem of a Cordeau `.txt`, or those of an `.npz` of `jaxvrp.envs.darp.save`; errors as `read_cordeau`.

    `elsewhere` as of `read_problems`.
    """
    formats = {
        ".txt": FileFormat("Cordeau", read_cordeau, begins_with_header),
        ".npz": FileFormat("jaxvrp.envs.darp.save", load),
    }
    return read_problems(path, formats, lambda instance: instance.demand.shape[:-1], elsewhere=elsewhere)
