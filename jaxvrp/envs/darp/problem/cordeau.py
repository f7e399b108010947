"""The text format of the Cordeau & Laporte (2003) and Cordeau (2006) benchmark sets."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.problem.instance import Instance, make_instance
from jaxvrp.io.whole_files import write_whole

HEADER = ("vehicles", "requests", "T", "Q", "L")
COLUMNS = ("id", "x", "y", "service", "demand", "early", "late")
WHOLE = ("vehicles", "requests", "Q", "id", "demand")
LARGEST = 1_000_000


@dataclasses.dataclass(frozen=True)
class _Line:
    """A line that is not empty: where it stands, and its numbers."""

    path: Path
    number: int
    values: tuple[float, ...]

    def error(self, expected: str, remedy: str) -> ValueError:
        """The error about this line."""
        return ValueError(f"{self.path}, line {self.number}: expected {expected}; {remedy}")

    def expect(self, holds: bool, expected: str, remedy: str) -> None:
        """Raise the error about this line unless it `holds`."""
        if not holds:
            raise self.error(expected, remedy)


def from_cordeau_index(node: ArrayLike, num_requests: int) -> np.ndarray:
    """Benchmark numbers to interleaved ones.

    Args:
        node: whole numbers of any shape: the depot 0 or 2n + 1, pickups 1 to n, drop-offs n + 1 to 2n.
        num_requests: n.

    Returns:
        `i64`, the same shape: 0, 2i - 1 for pickup i, 2i for its drop-off n + i.

    Raises:
        ValueError: a number outside of 0 to 2n + 1.
    """
    node = np.asarray(node, np.int64)
    last = 2 * num_requests + 1
    if ((node < 0) | (node > last)).any():
        raise ValueError(f"a node number lies outside of 0 to {last}; with {num_requests} requests there is no other")
    interleaved = np.where(node <= num_requests, 2 * node - 1, 2 * (node - num_requests))
    return np.where(node % last == 0, 0, interleaved)


def read_cordeau(path: str | os.PathLike) -> Instance:
    """Read `vehicles requests T Q L`, then lines of `id x y service demand early late`.

    The lines are the depot, pickups 1 to n, drop-offs n + 1 to 2n, and, optionally, the depot again. The header's
    second number may be n or 2n. T bounds route durations, Q is the capacity, L bounds ride times. Blank lines are
    skipped.

    Returns:
        NumPy arrays, times `f64`, in interleaved order; speed 1, travel times not rounded.

    Raises:
        ValueError: the file is damaged, or something else; one line with file, line, what was expected and the remedy.
        OSError: it cannot be read.
    """
    path = Path(path)
    header, nodes = _read_lines(path)
    requests = _count_requests(header, len(nodes))
    for expected_id, line in enumerate(nodes):
        _check_node(line, expected_id, requests, nodes)
    order = np.argsort(from_cordeau_index(np.arange(2 * requests + 1), requests))
    table = np.array([line.values for line in nodes])[order]
    vehicles, _, max_route_duration, capacity, max_ride_time = header.values
    return make_instance(
        table[:, 1:3],
        table[:, 4],
        table[:, 6],
        capacity=np.full(int(vehicles), capacity),
        earliest=table[:, 5],
        service_time=table[:, 3],
        max_ride_time=max_ride_time,
        max_route_duration=max_route_duration,
    )


def _read_lines(path: Path) -> tuple[_Line, list[_Line]]:
    remedy = "give a file in the format of Cordeau & Laporte"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, byte {error.start}: expected text, found binary data; {remedy}") from None
    rows = [(number, row.split()) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
    if not rows:
        raise ValueError(f"{path}, line 1: expected '{' '.join(HEADER)}', found an empty file; {remedy}")
    lines = [
        _Line(path, number, _numbers(path, number, row, HEADER if at == 0 else COLUMNS))
        for at, (number, row) in enumerate(rows)
    ]
    return lines[0], lines[1:]


def _numbers(path: Path, number: int, row: list[str], names: tuple[str, ...]) -> tuple[float, ...]:
    line = _Line(path, number, ())
    wanted = f"the {len(names)} numbers '{' '.join(names)}'"
    line.expect(len(row) == len(names), f"{wanted}, found {len(row)}", "add or remove what is wrong")
    values = []
    for name, word in zip(names, row, strict=True):
        try:
            value = float(word)
        except ValueError:
            value = float("nan")
        whole = name in WHOLE
        kind = f"a whole number below {LARGEST}" if whole else "a finite number"
        holds = value.is_integer() and abs(value) < LARGEST if whole else np.isfinite(value)
        line.expect(holds, f"{kind} for {name}, found {word[:20]!r}", "correct it")
        values.append(value)
    return tuple(values)


def _count_requests(header: _Line, count: int) -> int:
    """n, from the number of node lines, as the header's second number may be n or 2n."""
    vehicles, given, duration, capacity, ride = header.values
    positive = min(vehicles, given, capacity) >= 1 and min(duration, ride) > 0
    header.expect(positive, f"numbers above 0 for '{' '.join(HEADER)}'", "correct it")
    halves = [given] if given % 2 else [given, given / 2]
    for requests in map(int, halves):
        if 2 * requests + 1 <= count <= 2 * requests + 2:
            return requests
    sizes = " or ".join(f"{2 * requests + 1:.0f}" for requests in halves)
    raise header.error(
        f"{sizes} node lines for a second number of {given:.0f}, and perhaps the depot once more, found {count}",
        "restore the missing lines, or correct the number",
    )


def _check_node(line: _Line, expected_id: int, requests: int, nodes: list[_Line]) -> None:
    identity, _, _, service, demand, early, late = line.values
    line.expect(identity == expected_id, f"id {expected_id}, found {identity:.0f}", "put the lines in the order of ids")
    line.expect(late >= early, f"late not before early, found {early:g} to {late:g}", "correct the window")
    line.expect(service >= 0, f"service of at least 0, found {service:g}", "correct it")
    if expected_id == 0:
        line.expect(service == demand == 0, "no service and no demand at the depot", "set both to 0")
    elif expected_id <= requests:
        line.expect(demand >= 1, f"demand of at least 1 at a pickup, found {demand:.0f}", "correct it")
    elif expected_id <= 2 * requests:
        taken = nodes[expected_id - requests].values[4]
        expected = f"demand {-taken:.0f}, the negative of pickup {expected_id - requests}'s, found {demand:.0f}"
        line.expect(demand == -taken, expected, "correct one of the two")
    else:
        remedy = "make it the same, or leave the line out"
        line.expect(line.values[1:] == nodes[0].values[1:], "the depot of the first node line again", remedy)


def write_cordeau(path: str | os.PathLike, instance: Instance) -> None:
    """Write what `read_cordeau` reads, with every digit; complete, or not at all.

    Args:
        path: where to; an existing file is replaced.
        instance: one problem, NumPy or JAX, with vehicles of one capacity, speed 1, exact travel times, finite
            deadlines and limits, and without padding.

    Raises:
        ValueError: the format cannot hold something; one line that names it.
        OSError: the file cannot be written.
    """
    _check_writable(instance)
    requests = instance.num_nodes // 2
    order = from_cordeau_index(np.arange(2 * requests + 2), requests)
    columns = [
        np.asarray(getattr(instance, name), np.float64)[order]
        for name in ("locs", "service_time", "demand", "earliest", "deadline")
    ]
    table = np.column_stack([np.arange(order.size), *columns])
    capacity = np.asarray(instance.capacity)
    header = [capacity.size, requests, instance.max_route_duration, capacity[0], instance.max_ride_time]
    text = "".join(" ".join(map(_word, row)) + "\n" for row in [header, *table])
    write_whole(path, lambda partial: partial.write_text(text, encoding="ascii"))


def _word(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0")


def _check_writable(instance: Instance) -> None:
    if np.ndim(instance.demand) != 1:
        raise ValueError(f"demand has shape {np.shape(instance.demand)}; write one instance of the batch at a time")
    capacity, demand = np.asarray(instance.capacity), np.asarray(instance.demand)
    times = ("deadline", "max_ride_time", "max_route_duration")
    reasons = {
        "vehicles of different capacity": (capacity != capacity[0]).any(),
        "vehicles of capacity 0 (padding)": (capacity == 0).any(),
        "requests with demand 0 (padding)": (demand[1::2] == 0).any(),
        "a vehicle_speed other than 1": instance.vehicle_speed != 1,
        "round_travel_time": bool(instance.round_travel_time),
    } | {f"an infinite {name}": not np.isfinite(np.asarray(getattr(instance, name))).all() for name in times}
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise ValueError(f"the Cordeau format cannot hold {', '.join(found)}; use jaxvrp.envs.darp.save")
