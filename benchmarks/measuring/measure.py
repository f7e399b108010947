"""What the benchmarks share: the machine, timing with its spread, peak memory, results in a file."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax

from benchmarks.measuring.machine import device_name, machine  # noqa: F401 (all benchmarks write them)
from jaxvrp.fields import require_count
from jaxvrp.io.command_line import UserError, above_zero, positive, refuse_overwriting, refuse_unwritable
from jaxvrp.io.messages import shown
from jaxvrp.io.whole_files import write_json

Size = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of some repeats, in their unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of at least one value."""
        values = list(values)
        return cls(statistics.median(values), min(values), max(values))


def this_program(name: str) -> list[str]:
    """What starts a benchmark in another process: `-m benchmarks.NAME` would find a user's own `benchmarks.py`."""
    return [sys.executable, "-m", "jaxvrp", "bench", name]


@contextlib.contextmanager
def on_cores(count: int) -> Iterator[dict[str, str]]:
    """Processes that start meanwhile run on the first so many cores; the environment variables that they need."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield {**os.environ, "OMP_NUM_THREADS": str(count), "JAX_NUM_CPU_DEVICES": "1"}
    finally:
        os.sched_setaffinity(0, before)


def described(header: Mapping[str, Any], protocol: Mapping[str, str]) -> str:
    """One `name  value` line for each entry of header and protocol, the values aligned."""
    lines = {**header, **protocol}
    width = max(map(len, lines))
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in lines.items())


def progress(items: Iterable[Any], unit: str, **options: Any) -> Any:
    """A bar on stderr that counts `items`, each a `unit`, as they are iterated over; `options` are those of tqdm."""
    from tqdm import tqdm

    return tqdm(
        items, unit=unit, file=sys.stderr, dynamic_ncols=True, disable=None, **options
    )  # None: without a terminal


def clock(run: Callable[[], object], count: int = 1) -> float:
    """Seconds that `count` calls take; `run` must wait for its own results."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - start


def calls_for(run: Callable[[], object], seconds: float) -> int:
    """How many calls take at least `seconds`; warms up on the way."""
    taken = clock(run)
    if taken < seconds:
        taken = clock(run)
    return max(1, math.ceil(seconds / max(taken, 1e-9)))


def interleaved(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """`repeats` figures of each: one of every run, then again, so that a busy machine hurts all of them alike."""
    figures: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            figures[name].append(run())
    return figures


def peak_memory() -> tuple[int | None, str]:
    """Most bytes in use so far, and whose: the device's where it counts them, else the process's; None if unknown."""
    statistics_ = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in statistics_:
        return statistics_["peak_bytes_in_use"], "device"
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # not getrusage: it also counts what the parent used before this program was started
        lines = status.read_text(encoding="utf-8", errors="replace").splitlines()
        peak = next((line for line in lines if line.startswith("VmHWM")), None)
        return (int(peak.split()[1]) * 1024 if peak else None), "process"
    return None, "process"


def rate(value: float) -> str:
    """`"1.23 M"`: a figure per second in three digits."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def rates(spread: Spread) -> tuple[str, str]:
    """Median, and `"low - high"`, for a table."""
    return rate(spread.median), f"{rate(spread.low)} - {rate(spread.high)}"


def sizes_option(text: str) -> Size:
    """`"2,3,5"` as a tuple of numbers above 0; an argument type."""
    try:
        return tuple(map(positive, text.split(",")))
    except argparse.ArgumentTypeError:
        message = f"{shown(text)} is no list of whole numbers above 0, for example 2,3,5"
        raise argparse.ArgumentTypeError(message) from None


def check_sizes(sizes: Iterable[Size], labels: str) -> None:
    """Refuse sizes that do not have a number for each of the labels (`"drones,customers,nodes"`).

    Raises:
        UserError: one has too few numbers or too many.
    """
    for size in sizes:
        if len(size) != len(labels.split(",")):
            raise UserError(f"--sizes: '{','.join(map(str, size))}' is not {labels}")


def check_batch(batch: int, option: str) -> None:
    """Refuse more environments than are counted; `option` gives their number.

    Raises:
        UserError: there are more.
    """
    try:
        require_count(option, batch)
    except ValueError as error:
        raise UserError(str(error)) from None


def seconds_option(text: str) -> float:
    """A finite number of seconds above 0; an argument type."""
    return above_zero(text, "number of seconds")


def result_file(text: str) -> pathlib.Path:
    """A file that can be written, found out before hours are spent; an argument type."""
    path = pathlib.Path(text)
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write '{text}'; give a file in an existing folder that is yours")
    return path


def check_result_file(out: pathlib.Path | None, sources: Iterable[str | os.PathLike | None]) -> None:
    """Refuse to write a result in the place of what is read: files, or whatever is in folders; None is nothing.

    Raises:
        UserError: it would be.
    """
    if out is not None:
        refuse_overwriting(out, "--out", [pathlib.Path(source) for source in sources if source])
        refuse_unwritable(out, "--out")


def write_result(path: pathlib.Path | None, content: Any, report: str = "") -> None:
    """Write a result as JSON, whole or not at all, if there is a path; then print the report, whatever became of it.

    Raises:
        UserError: the file cannot be written.
    """
    written = ""
    try:
        if path is not None:
            write_json(path, content)
            written = f"wrote {path}"
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another --out") from None
    finally:
        for said in filter(None, (report, written)):
            print(said)


@dataclasses.dataclass(frozen=True)
class Seconds:
    """How long something took: by the clock, and of all cores together."""

    wall: float
    cpu: float

    def per(self, count: int) -> Seconds:
        """Of one of so many."""
        return Seconds(self.wall / count, self.cpu / count)


def seconds_of(function: Callable[[], Any]) -> tuple[Any, Seconds]:
    """What a function of the host returns, and how long it took."""
    start, cpu_start = time.perf_counter(), time.process_time()
    result = function()
    return result, Seconds(time.perf_counter() - start, time.process_time() - cpu_start)


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Seconds]:
    """The result of a pure function, on the host, and how long it takes once compiled.

    Large arrays are handed over as arguments: what a function holds becomes a part of its program.
    """
    compiled = jax.jit(function).lower(*arguments).compile()
    result, seconds = seconds_of(lambda: jax.block_until_ready(compiled(*arguments)))
    return jax.device_get(result), seconds
