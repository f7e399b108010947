"""What a run writes down: records of metrics, as lines of JSON and for TensorBoard."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter

Record = dict[str, Any]

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"

EPISODE_NAMES = {"episode_return": "episode/return", "episode_length": "episode/length"}


class MetricsWriter:
    """Appends one line per record: what was learned to `metrics.jsonl`, how fast to `timing.jsonl`.

    Kept apart, since the first is the same to the last bit when a run is interrupted and resumed; `after` drops what a
    killed run had written beyond its last checkpoint.
    """

    def __init__(self, folder: pathlib.Path, after: int = 0):
        self._files = {}
        for name in (METRICS, TIMING):
            _truncate(folder / name, after)
            self._files[name] = (folder / name).open("a", buffering=1)
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=after + 1)

    def write(self, record: Record, timing: Record) -> None:
        """One record; both have the key `update`."""
        for name, line in ((METRICS, record), (TIMING, timing)):
            self._files[name].write(json.dumps(line) + "\n")
            for key, value in line.items():
                if key != "update" and value is not None:
                    self._board.add_scalar(key, float(np.mean(value)), record["update"])

    def close(self) -> None:
        """Flush and close."""
        self._board.close()
        for file in self._files.values():
            file.close()


def read_records(path: pathlib.Path) -> Iterator[Record]:
    """The records of a file, up to a line that was cut short."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _truncate(path: pathlib.Path, after: int) -> None:
    kept = [json.dumps(record) + "\n" for record in read_records(path) if record["update"] <= after]
    scratch = path.with_suffix(".tmp")
    scratch.write_text("".join(kept))
    os.replace(scratch, path)


def summarize(metrics: dict[str, np.ndarray], num_seeds: int, *, settled: bool = True) -> Record:
    """One record from the metrics of a chunk: means over updates, and over the episodes that ended in it.

    Numbers, or lists of one number per seed. Means over episodes are None where none ended, or unless `settled`. Names
    that begin with `learn/` are means over the updates of which `learn/updates` says that they learned.
    """
    axis = 1 if num_seeds > 1 else 0
    sums = {name: np.asarray(value, np.float64).sum(axis=axis) for name, value in metrics.items()}
    updates = next(iter(metrics.values())).shape[axis]
    episodes = sums.pop("episode/episodes")
    learning = sums.pop("learn/updates", np.full_like(episodes, updates))
    known = settled and bool(np.all(episodes > 0))
    record: Record = {"episode/count": episodes.tolist()}
    for name, total in sums.items():
        group, _, short = name.partition("/")
        if group == "episode":
            _spread(record, EPISODE_NAMES.get(short, f"env/{short}"), _per(total, episodes), axis, known=known)
        elif group == "learn":
            _spread(record, short, _per(total, learning), axis, known=bool(np.all(learning > 0)))
        else:
            _spread(record, name, total / updates, axis)
    return record


def _per(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return total / np.maximum(count.reshape(count.shape + (1,) * (total.ndim - count.ndim)), 1)


def _spread(record: Record, name: str, value: np.ndarray, seed_axes: int, *, known: bool = True) -> None:
    """Store a value; one with an agent axis under a name for each agent (`drone/ratio` -> `drone_0/ratio`)."""
    if value.ndim == seed_axes:
        record[name] = value.tolist() if known else None
        return
    group, _, metric = name.rpartition("/")
    for agent in range(value.shape[-1]):
        own = f"{group}/{metric}_{agent}" if group == "env" else f"{group}_{agent}/{metric}"
        record[own] = value[..., agent].tolist() if known else None
