"""Events for TensorBoard, written at once. The only file that imports tensorboardX.

Not by its `SummaryWriter`: that writes in a thread, which dies with a traceback when the disk is full; after ten more
events the program then waits for ever.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import hparams

from jaxvrp.io.whole_files import naming
from train.running.command.keys import as_typed

FLUSH_SECONDS = 30.0


class EventFile:
    """A file of events of its own in a folder; TensorBoard reads all of them as one run.

    Attributes:
        path: of the file.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        purge_step: int,
        parameters: Mapping[str, Any] | None = None,
        summed_up: Sequence[str] = (),
    ):
        """Make the file.

        Args:
            folder: made, if it is not there.
            purge_step: TensorBoard is to forget what earlier files say of this step and later ones.
            parameters: by name, for its page of hyperparameters (HPARAMS).
            summed_up: names of figures that stand there beside them.

        Raises:
            OSError: it cannot be written.
        """
        folder.mkdir(exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._writer = RecordWriter(str(self.path))
        try:
            self._add(Event(file_version="brain.Event:2"))
            self._add(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))
            experiment, start, self._end = hparams(_plain(parameters or {}), dict.fromkeys(summed_up))
            for summary in (experiment, start):
                self._add(Event(summary=summary))
            self.flush()
        except OSError:
            with contextlib.suppress(OSError):
                self._writer.close()
            raise

    def add(self, figures: Mapping[str, float], env_steps: int) -> None:
        """Add figures at a step; those that were added in the last `FLUSH_SECONDS` may still be in memory.

        Raises:
            OSError: they cannot be written.
        """
        values = [Summary.Value(tag=name, simple_value=figure) for name, figure in figures.items()]
        self._add(Event(step=env_steps, summary=Summary(value=values)))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def add_pictures(self, paths: Sequence[pathlib.Path], env_steps: int) -> None:
        """Add pictures under the names of their files: `.png`, and `.gif`, which moves.

        Raises:
            OSError: they cannot be read or written.
        """
        from PIL import Image

        for path in paths:
            with Image.open(path) as picture:
                width, height = picture.size
            image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=path.read_bytes())
            self._add(Event(step=env_steps, summary=Summary(value=[Summary.Value(tag=path.name, image=image)])))
        self.flush()

    def flush(self) -> None:
        """Put on the disk what was added so far.

        Raises:
            OSError: it cannot be written.
        """
        with naming(self.path):
            self._writer.flush()
        self._flushed = time.monotonic()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        with naming(self.path):
            self._writer.write(event.SerializeToString())

    def close(self, *, ended_well: bool) -> None:
        """Write what is still in memory, and that the run has ended, if it did.

        Raises:
            OSError: it cannot be written; the file is closed nevertheless.
        """
        try:
            if ended_well:
                self._add(Event(summary=self._end))
        finally:
            with naming(self.path):
                self._writer.close()


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and truth values as they are, everything else as it is typed."""
    return {
        name: value if isinstance(value, bool | int | float) else as_typed(value) for name, value in parameters.items()
    }
