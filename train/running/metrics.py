"""What a run writes down: records of metrics, as lines of JSON and for TensorBoard."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter

from jaxvrp.io.whole_files import write_text

Record = dict[str, Any]

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"

EPISODE_NAMES = {"episode_return": "episode/return", "episode_length": "episode/length"}


class MetricsWriter:
    """Appends one line per record: what was learned to `metrics.jsonl`, how fast to `timing.jsonl`.

    Kept apart, since the first is the same to the last bit when a run is interrupted and resumed. TensorBoard shows
    both against environment steps.
    """

    def __init__(self, folder: pathlib.Path, *, update: int = 0, env_steps: int = 0):
        """Open the files, and drop what a killed run had written beyond its last checkpoint.

        Args:
            folder: of the run.
            update: of that checkpoint; 0 for a new run.
            env_steps: of one seed, done by then.

        Raises:
            OSError: they cannot be written.
        """
        self._files = {}
        for name in (METRICS, TIMING):
            _drop_records(folder / name, after=update)
            self._files[name] = (folder / name).open("a", buffering=1)
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=env_steps + 1)

    def write(self, record: Record, timing: Record) -> None:
        """Append a record and its timing; both have the key `update`, the record has `env_steps`."""
        for name, line in ((METRICS, record), (TIMING, timing)):
            self._files[name].write(json.dumps(line) + "\n")
            for key, value in line.items():
                if key not in ("update", "env_steps") and value is not None:
                    self._board.add_scalar(key, float(np.mean(value)), record["env_steps"])

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


def _drop_records(path: pathlib.Path, *, after: int) -> None:
    kept = [json.dumps(record) + "\n" for record in read_records(path) if record["update"] <= after]
    write_text(path, "".join(kept))


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
    for name, total in sums.items():
        group, _, metric = name.partition("/")
        if group == "episode":
            name_in_record = EPISODE_NAMES.get(metric, f"env/{metric}")
            _put(record, name_in_record, _mean(total, episodes), seed_axes, known=is_known)
        elif group == "learn":
            _put(record, metric, _mean(total, learning), seed_axes, known=has_learned)
        else:
            _put(record, name, total / updates, seed_axes, known=True)
    return record


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Means over `count`, where `total` may have an agent axis at its end."""
    return total / np.maximum(count.reshape(count.shape + (1,) * (total.ndim - count.ndim)), 1)


def _put(record: Record, name: str, value: np.ndarray, seed_axes: int, *, known: bool) -> None:
    """Store a value; one with an agent axis under a name for each agent (`drone/ratio` -> `drone_0/ratio`)."""
    if value.ndim == seed_axes:
        record[name] = value.tolist() if known else None
        return
    group, _, metric = name.rpartition("/")
    for agent in range(value.shape[-1]):
        name_of_agent = f"{group}/{metric}_{agent}" if group == "env" else f"{group}_{agent}/{metric}"
        record[name_of_agent] = value[..., agent].tolist() if known else None
