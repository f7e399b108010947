"""What a run writes down: records of metrics, as lines of JSON, and what loggers show of it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jaxvrp.io.whole_files import naming
from train.run.records import METRICS, TIMING, Record

EPISODE_NAMES = {"episode_return": "episode/return", "episode_length": "episode/length"}


class Logger(Protocol):
    """Shows figures, and pictures (`.png`, and `.gif`, which moves), of a run against environment steps."""

    def add(self, figures: Mapping[str, float], env_steps: int) -> None: ...

    def add_pictures(self, paths: Sequence[pathlib.Path], env_steps: int) -> None: ...

    def flush(self) -> None: ...

    def close(self, *, ended_well: bool) -> None: ...


class MetricsWriter:
    """Appends one line per record: what was learned to `metrics.jsonl`, how fast to `timing.jsonl`.

    Kept apart, since the first is the same to the last bit when a run is interrupted and resumed. Loggers show both
    against environment steps.
    """

    def __init__(self, folder: pathlib.Path, open_loggers: Callable[[], Sequence[Logger]]):
        """Open the files, which have been cut back to what the run has done (`records.cut_back`), and the loggers."""
        with contextlib.ExitStack() as opened:
            paths = (folder / METRICS, folder / TIMING)
            self._files = {path: opened.enter_context(path.open("ab", buffering=0)) for path in paths}
            self._loggers = open_loggers()
            self._open = opened.pop_all()

    def write(self, record: Record, timing: Record) -> None:
        """Append a record and its timing; both have the key `update`, the record has `env_steps`.

        Raises an OSError if they cannot be written, or a file, or the folder, was removed or renamed.
        """
        for (path, file), line in zip(self._files.items(), (record, timing), strict=True):
            with naming(path):
                text = json.dumps(line).encode() + b"\n"
                while text:  # without a buffer, which would hold back what a full disk refuses
                    text = text[file.write(text) :]
                if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    raise OSError(errno.ESTALE, "another file has taken its place")
        figures = {name: value for name, value in {**record, **timing}.items() if value is not None}
        for counter in ("update", "env_steps"):
            del figures[counter]
        self.show_figures(figures, record["env_steps"])

    def show_figures(self, figures: Mapping[str, Any], env_steps: int) -> None:
        """Show figures in the loggers, and in no file: numbers, or one for each seed, of which the mean is shown."""
        means = {name: float(np.mean(value)) for name, value in figures.items()}
        for logger in self._loggers:
            logger.add(means, env_steps)

    def show_pictures(self, pictures: Sequence[pathlib.Path], env_steps: int) -> None:
        """Show pictures in the loggers."""
        for logger in self._loggers:
            logger.add_pictures(pictures, env_steps)

    def flush(self) -> None:
        """Put on the disk what was written so far, as for a checkpoint that goes on from there."""
        for path, file in self._files.items():
            with naming(path):
                os.fsync(file.fileno())
        for logger in self._loggers:
            logger.flush()

    def close(self, *, ended_well: bool = True) -> None:
        """Flush and close; loggers show whether the run has ended, or stopped."""
        with self._open, contextlib.ExitStack() as closing:
            for logger in self._loggers:
                closing.callback(logger.close, ended_well=ended_well)


def summarize(metrics: dict[str, np.ndarray], num_seeds: int, *, settled: bool = True) -> Record:
    """One record from the metrics of a chunk: means over updates, and over the episodes that ended in it.

    Numbers, or lists of one number per seed. Means over episodes are None where none ended, or unless `settled`. Names
    that begin with `learn/` are means over the updates of which `learn/updates` says that they learned.
    """
    seed_axes = 1 if num_seeds > 1 else 0
    sums = {name: np.asarray(value, np.float64).sum(axis=seed_axes) for name, value in metrics.items()}
    updates = next(iter(metrics.values())).shape[seed_axes]
    episodes = sums.pop("episode/episodes")
    learning = sums.pop("learn/updates", np.full_like(episodes, updates))
    is_known = settled and bool(np.all(episodes > 0))
    has_learned = bool(np.all(learning > 0))
    record: Record = {"episode/count": episodes.tolist()}

    def mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
        return total / np.maximum(count.reshape(count.shape + (1,) * (total.ndim - count.ndim)), 1)

    for name, total in sums.items():
        group, _, metric = name.partition("/")
        if group == "episode":
            name_in_record = EPISODE_NAMES.get(metric, f"env/{metric}")
            _put(record, name_in_record, mean(total, episodes), seed_axes, known=is_known)
        elif group == "learn":
            _put(record, metric, mean(total, learning), seed_axes, known=has_learned)
        else:
            _put(record, name, total / updates, seed_axes, known=True)
    return record


def _put(record: Record, name: str, value: np.ndarray, seed_axes: int, *, known: bool) -> None:
    """Store a value; one with an agent axis under a name for each agent (`drone/ratio` -> `drone_0/ratio`)."""
    group, _, metric = name.rpartition("/")
    if group == "env" or value.ndim == seed_axes:
        values = by_agent(name, value, seed_axes)
    else:
        values = {f"{each}/{metric}": number for each, number in by_agent(group, value, seed_axes).items()}
    for each, number in values.items():
        record[each] = number.tolist() if known else None


def by_agent(name: str, value: Any, seed_axes: int = 0) -> dict[str, Any]:
    """An array `[(seeds)]` by its name; of `[(seeds,) agents]`, one for each agent: `NAME_0`, `NAME_1`, ..."""
    if value.ndim == seed_axes:
        return {name: value}
    return {f"{name}_{agent}": value[..., agent] for agent in range(value.shape[-1])}
