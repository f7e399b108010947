"""Checkpoints: the whole training state, the latest and the best. The only file that imports orbax.

A checkpoint appears under its final name only when it is complete; killing a run during a save leaves the one before.
What it holds, and checksums of its files, lie beside them, so that damage, or another configuration, is found before
anything is read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

from jaxvrp.io.command_line import UserError
from jaxvrp.io.whole_files import write_json

METRIC = "return"
CONTENTS = "contents.json"


class Checkpoints:
    """The checkpoints of one run, by update; use it as a context manager.

    Attributes:
        folder: where they lie.
    """

    def __init__(self, folder: pathlib.Path, *, read_only: bool = False):
        if read_only and not folder.is_dir():
            raise UserError(f"{folder} does not exist: the run wrote no checkpoint; train it first")
        for chatty in ("absl", "asyncio"):  # asyncio: a traceback for every array of a damaged checkpoint
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        self.folder = folder.absolute()
        best = ocp.training.preservation_policies.BestN(
            get_metric_fn=lambda metrics: metrics[METRIC], n=1, keep_checkpoints_without_metrics=False
        )
        latest = ocp.training.preservation_policies.LatestN(1)
        try:
            self._checkpointer = ocp.training.Checkpointer(
                self.folder,
                save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
                preservation_policy=ocp.training.preservation_policies.AnyPreservationPolicy([latest, best]),
                cleanup_tmp_directories=not read_only,
            )
        except (ValueError, OSError) as error:  # the returns of all checkpoints are read here
            which = ", ".join(_without_return(self.folder)) or error
            raise UserError(
                f"cannot read the checkpoints in {self.folder}; what is damaged: {which}; delete it"
            ) from error

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self._checkpointer.close()

    @property
    def latest(self) -> int | None:
        """Update of the newest one."""
        return None if self._checkpointer.latest is None else self._checkpointer.latest.step

    @property
    def best(self) -> int | None:
        """Update of the one with the highest evaluated return; the latest, if none was evaluated."""
        scored = [c for c in self._checkpointer.checkpoints if c.metrics]
        return max(scored, key=lambda c: c.metrics[METRIC]).step if scored else self.latest

    def save(self, update: int, state: Any, evaluated_return: float | None) -> None:
        """Write a checkpoint, then drop those that are neither the latest nor the best."""
        if update != self.latest:
            known = evaluated_return is not None and math.isfinite(evaluated_return)
            metrics = {METRIC: evaluated_return} if known else None
            self._checkpointer.save(update, state, metrics=metrics)
            if jax.process_index() == 0:
                _write_contents(self.folder / str(update), state)

    def load(self, like: Any, update: int | None = None) -> Any:
        """Read one (the latest by default) with the structure, shapes and shardings of `like`.

        Raises:
            UserError: there is none, or it is damaged or of another configuration.
        """
        step = self.latest if update is None else update
        if step is None:
            raise UserError(f"{self.folder} holds no checkpoint; start the run anew, in another --run_dir")
        # Not left to orbax: it drops the reads of a checkpoint that does not fit half-way, which raise when collected.
        if fault := _fault(self.folder / str(step), like):
            raise self._unusable(step, f" ({fault})")
        abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), like)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = self._checkpointer.load(step, abstract)
        except Exception as error:  # orbax and tensorstore raise all kinds
            raise self._unusable(step, "") from error
        if difference := _difference(_described(state), _described(like)):
            raise self._unusable(step, f" ({difference})")
        return state

    def _unusable(self, update: int, difference: str) -> UserError:
        older = [c.step for c in self._checkpointer.checkpoints if c.step < update]
        remedy = f"delete that folder to go on from update {max(older)}" if older else "start anew in another --run_dir"
        return UserError(
            f"cannot read checkpoint {self.folder / str(update)}: it is damaged or of another configuration"
            f"{difference}; if config.yaml was changed, undo that, else {remedy}"
        )


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """By file, relative to the folder."""
    checksums = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != CONTENTS:
            with path.open("rb") as file:
                checksums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "blake2b").hexdigest()
    return checksums


def _write_contents(folder: pathlib.Path, state: Any) -> None:
    write_json(folder / CONTENTS, {"arrays": _described(state), "files": _checksums(folder)})


def _fault(folder: pathlib.Path, like: Any) -> str | None:
    """Why a checkpoint cannot be read; None if nothing is known, as when the run was killed before it was written."""
    path = folder / CONTENTS
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
        files, arrays = dict(content["files"]), dict(content["arrays"])
    except (ValueError, TypeError, KeyError):
        return f"{CONTENTS} was changed"
    found = _checksums(folder)
    damaged = next((name for name, checksum in files.items() if found.get(name) != checksum), None)
    return f"{damaged} is missing or was changed" if damaged else _difference(arrays, _described(like))


def _described(state: Any) -> dict[str, str]:
    """Type and shape of every leaf, by its place."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(where): f"{leaf.dtype}{list(leaf.shape)}" for where, leaf in leaves}


def _without_return(folder: pathlib.Path) -> Iterator[str]:
    """Names of the checkpoints whose return was saved, but cannot be read."""
    for path in sorted(folder.glob("*/metrics/metrics")):
        try:
            json.loads(path.read_text())
        except (ValueError, OSError):
            yield path.parts[-3]


def _difference(written: dict[str, str], wanted: dict[str, str]) -> str | None:
    """The first leaf that is not the same in both."""
    for name in {**wanted, **written}:
        if written.get(name) != wanted.get(name):
            return f"{name} is {written.get(name, 'not there')}, this run has {wanted.get(name, 'no such thing')}"
    return None
