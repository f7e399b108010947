"""Where a run is shown besides its own files: what the names in the key `logger` of the configuration open.

The only file that imports tensorboardX, and wandb, which is an extra. Events for TensorBoard are written at once, not
by `SummaryWriter`: that writes in a thread, which dies with a traceback when the disk is full; after ten more events
the program then waits for ever.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import hparams

from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import installing
from jaxvrp.io.whole_files import naming, write_text
from train.run.metrics import Logger
from train.settings.config_file import flat
from train.settings.keys import as_typed

SUMMED_UP = ("eval/return", "episode/return")
"""Figures that stand beside the configuration, where runs are compared by it."""

FLUSH_SECONDS = 30.0

WANDB, RUN_ID = "wandb", "run_id"
"""Where wandb keeps its files in a run folder, and what the file there is called that says which run this is."""

REMEDY = "run `wandb login`, set WANDB_MODE=offline, or leave wandb out of logger"


class EventFile:
    """A file of events of its own in a folder; TensorBoard reads all of them as one run. All may raise an OSError."""

    def __init__(self, folder: pathlib.Path, configuration: Mapping[str, Any], env_steps: int):
        """Make the file; TensorBoard is to forget what earlier files say of steps beyond those that are done.

        The configuration is for its page of hyperparameters (HPARAMS).
        """
        parameters = {
            name: value if isinstance(value, bool | int | float) and math.isfinite(value) else as_typed(value)
            for name, value in flat(dict(configuration)).items()
        }
        folder.mkdir(exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._writer = RecordWriter(str(self.path))
        try:
            self._add(Event(file_version="brain.Event:2"))
            self._add(Event(step=env_steps + 1, session_log=SessionLog(status=SessionLog.START)))
            experiment, start, self._end = hparams(parameters, dict.fromkeys(SUMMED_UP))
            for summary in (experiment, start):
                self._add(Event(summary=summary))
            self.flush()
        except OSError:
            with contextlib.suppress(OSError):
                self._writer.close()
            raise

    def add(self, figures: Mapping[str, float], env_steps: int) -> None:
        """Add figures at a step; those that were added in the last `FLUSH_SECONDS` may still be in memory."""
        values = [Summary.Value(tag=name, simple_value=figure) for name, figure in figures.items()]
        self._add(Event(step=env_steps, summary=Summary(value=values)))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def add_pictures(self, paths: Sequence[pathlib.Path], env_steps: int) -> None:
        """Add pictures under the names of their files: `.png`, and `.gif`, which moves."""
        from PIL import Image

        for path in paths:
            with Image.open(path) as picture:
                width, height = picture.size
            image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=path.read_bytes())
            self._add(Event(step=env_steps, summary=Summary(value=[Summary.Value(tag=path.name, image=image)])))
        self.flush()

    def flush(self) -> None:
        """Put on the disk what was added so far."""
        with naming(self.path):
            self._writer.flush()
        self._flushed = time.monotonic()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        with naming(self.path):
            self._writer.write(event.SerializeToString())

    def close(self, *, ended_well: bool) -> None:
        """Write what is still in memory, and that the run has ended, if it did; the file is closed whatever happens."""
        try:
            if ended_well:
                self._add(Event(summary=self._end))
        finally:
            with naming(self.path):
                self._writer.close()


class WandbRun:
    """A run on Weights & Biases, by the name of its folder; a resumed one goes on under its number.

    What wandb's own variables say (`WANDB_PROJECT`, `WANDB_ENTITY`, `WANDB_NAME`, `WANDB_MODE`, ...) holds.
    """

    def __init__(self, folder: pathlib.Path, configuration: Mapping[str, Any]):
        """Begin the run, or go on with it."""
        self._wandb = _wandb()
        (folder / WANDB).mkdir(exist_ok=True)
        number = folder / WANDB / RUN_ID
        if not number.exists():
            write_text(number, f"{secrets.token_hex(4)}\n")
        try:
            self._run = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT", "jaxvrp"),
                name=os.environ.get("WANDB_NAME", folder.resolve().name),
                id=number.read_text(encoding="utf-8").strip(),
                resume="allow",
                dir=folder,
                config=dict(configuration),
                settings=self._wandb.Settings(console="off"),  # it would keep every state of the progress bar
            )
        except self._wandb.Error as error:
            raise UserError(f"wandb cannot begin a run: {error}; {REMEDY}") from None

    def add(self, figures: Mapping[str, float], env_steps: int) -> None:
        """Show figures; wandb's own step, the x-axis of its charts, is the environment step.

        After a kill, steps beyond the checkpoint come a second time, with the same figures; wandb leaves them out.
        """
        self._run.log(dict(figures), step=env_steps)

    def add_pictures(self, paths: Sequence[pathlib.Path], env_steps: int) -> None:
        """Show pictures, those that move as such."""
        shown = {
            path.name: self._wandb.Video(str(path), format="gif")
            if path.suffix == ".gif"
            else self._wandb.Image(str(path))
            for path in paths
        }
        self._run.log(shown, step=env_steps)

    def flush(self) -> None:
        """Nothing: a process of wandb's own writes what it is given."""

    def close(self, *, ended_well: bool) -> None:
        """End the run; online, wait until everything is sent."""
        self._run.finish(exit_code=0 if ended_well else 1)


def _wandb() -> Any:
    try:
        import wandb

        wandb.init  # noqa: B018 (without wandb, a folder of that name is what is imported)
    except (ImportError, AttributeError):
        raise UserError(f"logger names wandb, which is not installed; {installing('wandb')}, or leave it out") from None
    return wandb


def check_loggers(names: Sequence[str]) -> None:
    """Find out before anything is written whether the loggers can be opened."""
    if "wandb" not in names:
        return
    wandb = _wandb()
    is_online = wandb.setup().settings.mode in ("online", "shared")
    if is_online and not sys.stdin.isatty() and not wandb.login(prompt=False):
        raise UserError(f"logger names wandb, but no user is logged in there; {REMEDY}")


def open_loggers(
    names: Sequence[str], folder: pathlib.Path, configuration: Mapping[str, Any], env_steps: int
) -> list[Logger]:
    """The loggers of these names (`RunConfig.logger`); of several, all or none.

    `configuration` is that of `RecordedRun.values`; `env_steps`, of one seed, are done so far.
    """
    makers: dict[str, Callable[[], Logger]] = {
        "tensorboard": lambda: EventFile(folder / "tensorboard", configuration, env_steps),
        "wandb": lambda: WandbRun(folder, configuration),
    }
    with contextlib.ExitStack() as closing:
        loggers: list[Logger] = []
        for name in dict.fromkeys(names):
            loggers.append(makers[name]())
            closing.callback(loggers[-1].close, ended_well=False)
        closing.pop_all()
    return loggers
