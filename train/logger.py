"""What a run tells: metrics (JSONL and TensorBoard), a progress bar, aligned tables."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter
from tqdm import tqdm

Record = dict[str, Any]

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"

COLUMNS = {
    "return": "return",
    "completion_rate": "completion",
    "success_rate": "success",
    "on_time_rate": "on time",
    "served_share": "served",
    "total_distance": "distance",
    "vehicles_used": "vehicles",
    "became_legal": "became legal",
    "best_ratio": "best / start HPWL",
    "hpwl": "HPWL at the end",
    "overlap": "overlap",
    "battery_used": "battery used",
    "length": "steps",
    "crashed_drones": "crashed",
}
"""Figures of the final table, where an environment has them."""


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


class Progress:
    """A progress bar over environment steps: return, completion or share served, speed, time left."""

    def __init__(self, total_steps: int, done_steps: int, enabled: bool):
        self._bar = tqdm(
            total=total_steps,
            initial=done_steps,
            disable=not enabled,
            unit="step",
            unit_scale=True,
            dynamic_ncols=True,
            bar_format="{l_bar}{bar:20}| {n_fmt}/{total_fmt} steps, {rate_fmt}, {remaining} left{postfix}",
        )
        self._bar.set_postfix_str("compiling")

    def advance(self, steps: int, record: Record) -> None:
        """Show a record."""
        names = {
            "return": "episode/return",
            "completion": "env/completion_rate",
            "served": "env/served_share",
            "legal": "env/became_legal",
        }
        shown = {short: record.get(name) for short, name in names.items()}
        text = ", ".join(f"{k} {np.mean(v):.2f}" for k, v in shown.items() if v is not None)
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(steps)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def figures_table(figures: dict[str, Record]) -> str:
    """The aligned table of several players on the same instances, one row each."""
    first = next(iter(figures.values()))
    columns = {key: title for key, title in COLUMNS.items() if key in first} or {key: key for key in first}
    rows = [["", *columns.values()]]
    for name, values in figures.items():
        rows.append([name, *(_cell(values[key]) for key in columns)])
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, numbers to the right, a rule under the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cell(value: Any) -> str:
    """A number, or mean and standard deviation over seeds."""
    if isinstance(value, list):
        return f"{np.mean(value):.3f} ± {np.std(value):.3f}"
    return f"{value:.3f}"
