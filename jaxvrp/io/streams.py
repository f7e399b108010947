"""Standard output and error that never fail: what a command prints cannot end its work. Imports nothing of ours."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

READER_GONE = 141
"""Exit status after `| head` has read enough: 128 and the number of SIGPIPE."""


class Output(io.TextIOWrapper):
    """Text that raises nothing: what its encoding lacks is escaped; after a `failure` of the system it goes nowhere."""

    failure: OSError | None = None
    below: TextIO | None = None
    """What it has taken the place of, held since its end would close the file of both."""

    def write(self, text: str) -> int:
        """As of `io.TextIOWrapper`."""
        with self._kept():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """As of `io.TextIOWrapper`."""
        with self._kept():
            super().flush()

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = error
            # What is buffered is written once more, at the end of the process by Python.
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())


def protect() -> None:
    """Put an `Output` in the place of standard output and error, as Python made them; closed ones go nowhere.

    In the place of `sys.__stdout__` and `sys.__stderr__`, too: libraries put these back, and an `Output` that nobody
    holds any longer closes the file below both.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least free number, which a file of the user would take later
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (as long as the process)
        elif stream is getattr(sys, f"__{name}__") and not isinstance(stream, Output):
            same = {key: getattr(stream, key) for key in ("encoding", "line_buffering", "write_through")}
            output = Output(stream.buffer, errors="backslashreplace", **same)
            output.below = stream
            setattr(sys, name, output)
            setattr(sys, f"__{name}__", output)


def finish(status: int) -> int:
    """The exit status of a command that ends with `status`: another one if what it printed has not arrived."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    failure = getattr(sys.stdout, "failure", None)
    if status or failure is None:
        return status
    if failure.errno == errno.EPIPE:
        return READER_GONE
    print(f"error: cannot write to standard output: {failure.strerror}; send it elsewhere", file=sys.stderr)
    return 2
