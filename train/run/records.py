"""Records of metrics, one JSON object a line: read whatever has become of the file, and cut back to a checkpoint."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jaxvrp.card import Headline
from jaxvrp.io.command_line import UserError
from jaxvrp.io.whole_files import read_bytes, write_whole

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"

START = "start.json"
"""The evaluation before the first update, as a record."""

RATES = "rates.json"
"""The metrics of the environment that are drawn as rates, with their labels; see `rates_of`."""

COUNTERS = {METRICS: ("update", "env_steps"), TIMING: ("update",)}
"""By file: what every record counts, beside its figures."""

LARGEST_RECORDS = 2**27
"""Bytes of a file of records."""

LARGEST_FLOAT = float(np.finfo(np.float32).max)
"""Of a figure: what a run computes has 32 bits."""

MOST_RANGES = 5
"""More ranges of lines or updates are not listed in a message."""

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a file, as it stands there without the line feed, from 1; its record is None if it is damaged."""

    number: int
    text: bytes
    record: Record | None


def read_lines(path: pathlib.Path) -> list[Line]:
    """The lines of a file of records; none if there is no file.

    A record has positive counters (`COUNTERS`), and figures that are None, numbers of float32, or arrays of them, each
    of the shape that most records of the file give it. Anything else is damaged.
    """
    try:
        texts = read_bytes(path, LARGEST_RECORDS).split(b"\n") if path.exists() else []
    except ValueError as error:
        raise UserError(str(error)) from None
    if texts and not texts[-1]:
        texts.pop()
    read = [_record_and_shapes(text, COUNTERS[path.name]) for text in texts]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for _, shapes in read:
        for name, shape in shapes.items():
            counts[name][shape] += 1
    usual = {name: count.most_common(1)[0][0] for name, count in counts.items()}
    return [
        Line(number, text, record if all(usual[name] == shape for name, shape in shapes.items()) else None)
        for number, (text, (record, shapes)) in enumerate(zip(texts, read, strict=True), 1)
    ]


def read_records(path: pathlib.Path) -> list[Record]:
    """The records of a file, without the lines that are damaged; see `read_lines`."""
    return [line.record for line in read_lines(path) if line.record is not None]


def read_start(folder: pathlib.Path) -> list[Record]:
    """The record of the evaluation before the first update of a run; none if there is no whole file."""
    path = folder / START
    try:
        record = json.loads(read_bytes(path, LARGEST_RECORDS)) if path.exists() else None
        if not isinstance(record, dict) or record.get("env_steps") != 0:
            return []
        return [{name: value for name, value in record.items() if value is None or _shape(value) is not None}]
    except (ValueError, RecursionError):
        return []


def rates_of(headlines: Iterable[Headline]) -> dict[str, str]:
    """The names of evaluated metrics that are drawn from 0 to 1, with the labels of their curves."""
    return {f"eval/{headline.figure}": headline.curve for headline in headlines if headline.curve}


def cut_back(path: pathlib.Path, due: Sequence[int]) -> str | None:
    """Drop what a killed run had written beyond its checkpoint, and what is damaged; the rest stays byte for byte.

    If something is damaged, the file as it was is kept beside, as `NAME.damaged`. `due` are the updates of which there
    is to be a record, ascending; the last is that of the checkpoint. Returns what is damaged or missing, in one line.
    """
    lines = read_lines(path)
    wanted = set(due)
    kept: dict[int, Line] = {}
    for line in lines:
        if line.record and line.record["update"] in wanted:
            kept.setdefault(line.record["update"], line)  # where a record is repeated, the first
    missing = [update for update in due if update not in kept]
    damaged = _damaged(lines, kept, due, is_complete=not missing)
    faults = []
    if damaged:
        names = itertools.chain([""], (f"_{count}" for count in itertools.count(2)))
        beside = next(copy for end in names if not (copy := path.with_name(f"{path.name}.damaged{end}")).exists())
        write_whole(beside, lambda partial: partial.write_bytes(path.read_bytes()))
        faults.append(f"{listed('line', damaged)} damaged, the file as it was is kept as {beside.name}")
    if missing:
        place = "" if lines else "the file is empty or missing: "
        faults.append(f"{place}no record of {listed('update', missing, due)}")
    text = b"".join(line.text + b"\n" for _, line in sorted(kept.items()))
    if path.exists() and path.read_bytes() != text:
        write_whole(path, lambda partial: partial.write_bytes(text))
    return f"{path}: {'; '.join(faults)}" if faults else None


def listed(noun: str, numbers: Sequence[int], among: Sequence[int] | None = None) -> str:
    """`updates 3 to 5, 9`: ascending numbers, in ranges of those that follow each other `among` others, or by 1."""
    place = {number: count for count, number in enumerate(among or range(numbers[-1] + 1))}
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and place[number] == place[ranges[-1][-1]] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    texts = [" to ".join(map(str, ends)) for ends in ranges[:MOST_RANGES]] + ["..."] * (len(ranges) > MOST_RANGES)
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"


def _record_and_shapes(text: bytes, counters: Sequence[str]) -> tuple[Record | None, dict[str, tuple[int, ...]]]:
    try:
        record = json.loads(text)
        counts = [record.get(name) for name in counters] if isinstance(record, dict) else [None]
        if not all(type(count) is int and 0 < count < 2**63 for count in counts):
            return None, {}
        return record, {name: _shape(value) for name, value in record.items() if value is not None}
    except (ValueError, RecursionError):  # no UTF-8, no JSON, too many digits, no numbers, too deep
        return None, {}


def _shape(figure: Any) -> tuple[int, ...]:
    """Shape of a number, or of an array of numbers as lists."""
    if type(figure) is float and (abs(figure) <= LARGEST_FLOAT or not math.isfinite(figure)):  # nearly all are
        return ()
    array = np.asarray(figure)
    if array.dtype.kind not in "iuf" or not array.size:
        raise ValueError(f"{figure!r} is no number")
    if (np.isfinite(array) & (np.abs(array.astype(float)) > LARGEST_FLOAT)).any():
        raise ValueError(f"{figure!r} is no number of 32 bits")
    return array.shape


def _damaged(lines: Sequence[Line], kept: dict[int, Line], due: Sequence[int], *, is_complete: bool) -> list[int]:
    """Numbers of the lines that are not kept, except for what was written beyond the last update that is due.

    If all that is due is there, the end is what a killed run had begun to write: whatever it is, it is written again.
    """
    numbers = {line.number for line in kept.values()}
    end = max(numbers, default=0) if is_complete else len(lines)
    return [
        line.number
        for line in lines[:end]
        if line.number not in numbers and not (line.record and line.record["update"] > due[-1])
    ]
