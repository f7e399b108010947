"""Events for TensorBoard, written at once. The only file that imports tensorboardX.

Not by its `SummaryWriter`: that writes in a thread, which dies with a traceback when the disk is full, and whoever adds
an eleventh event then waits for ever.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Mapping

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter

from jaxvrp.io.whole_files import naming

FLUSH_SECONDS = 30.0


class EventFile:
    """A file of events of its own in a folder; TensorBoard reads all of them as one run.

    Attributes:
        path: of the file.
    """

    def __init__(self, folder: pathlib.Path, *, purge_step: int):
        """Make the file; TensorBoard is to forget what earlier files say of `purge_step` and later steps.

        Raises:
            OSError: it cannot be written.
        """
        folder.mkdir(exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._writer = RecordWriter(str(self.path))
        try:
            self._add(Event(file_version="brain.Event:2"))
            self._add(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))
            self.flush()
        except OSError:
            with contextlib.suppress(OSError):
                self.close()
            raise

    def add(self, figures: Mapping[str, float], step: int) -> None:
        """Add figures at a step; those that were added in the last `FLUSH_SECONDS` may still be in memory.

        Raises:
            OSError: they cannot be written.
        """
        values = [Summary.Value(tag=name, simple_value=figure) for name, figure in figures.items()]
        self._add(Event(step=step, summary=Summary(value=values)))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
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

    def close(self) -> None:
        """Write what is still in memory.

        Raises:
            OSError: it cannot be written; the file is closed nevertheless.
        """
        with naming(self.path):
            self._writer.close()
