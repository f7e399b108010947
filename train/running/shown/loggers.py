"""Where a run is shown besides its own files: what the names in the key `logger` of the configuration open."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from train.running.command.config_file import flat
from train.running.shown import weights_and_biases
from train.running.shown.tensorboard import EventFile

SUMMED_UP = ("eval/return", "episode/return")
"""Figures that stand beside the configuration, where runs are compared by it."""


class Logger(Protocol):
    """Shows figures and pictures of a run against environment steps."""

    def add(self, figures: Mapping[str, float], env_steps: int) -> None:
        """Show figures."""
        ...

    def add_pictures(self, paths: Sequence[pathlib.Path], env_steps: int) -> None:
        """Show pictures: `.png`, and `.gif`, which moves."""
        ...

    def flush(self) -> None:
        """Put on the disk what was shown so far."""
        ...

    def close(self, *, ended_well: bool) -> None:
        """Write what is still in memory, and that the run has ended, or stopped."""
        ...


def check_loggers(names: Sequence[str]) -> None:
    """Find out before anything is written whether the loggers can be opened."""
    if "wandb" in names:
        weights_and_biases.check()


def open_loggers(
    names: Sequence[str], folder: pathlib.Path, configuration: Mapping[str, Any], env_steps: int
) -> list[Logger]:
    """The loggers of these names; of several, all or none.

    Args:
        names: see `RunConfig.logger`.
        folder: of the run.
        configuration: algorithm and keys, see `RecordedRun.values`.
        env_steps: of one seed, done so far.

    Raises:
        OSError: the folder cannot be written.
        UserError: a logger cannot be opened; one line.
    """

    def tensorboard() -> Logger:
        return EventFile(
            folder / "tensorboard",
            purge_step=env_steps + 1,
            parameters=flat(dict(configuration)),
            summed_up=SUMMED_UP,
        )

    makers = {"tensorboard": tensorboard, "wandb": lambda: weights_and_biases.Run(folder, configuration)}
    with contextlib.ExitStack() as closing:
        loggers: list[Logger] = []
        for name in dict.fromkeys(names):
            loggers.append(makers[name]())
            closing.callback(loggers[-1].close, ended_well=False)
        closing.pop_all()
    return loggers
