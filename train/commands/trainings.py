"""Runs that a process of its own trains one after another, so that those with the same programs compile them once.

Both ends: `Trainings` is that of the process which asks for runs, and this module, as a program, the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Self

from jaxvrp.io.command_line import run_command
from jaxvrp.testing import ConformanceError

POLL = 0.05
"""Seconds between two looks at a process that was asked to end a run."""


class Trainings:
    """One run at a time, in a process that begins with the first one; use it as a context manager."""

    def __init__(self, command: Sequence[str]):
        """`command` starts the process: what `command_of` gives."""
        self._command, self._is_training = command, False
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._close()

    def begin(self, words: Sequence[str], log: pathlib.Path) -> None:
        """Begin a run by the words of its command line; what it prints goes to the end of the file `log`."""
        process = self._process
        if process is None or process.poll() is not None:
            self._close()
            process = self._open(log)
        assert process.stdin
        self._is_training = True
        with contextlib.suppress(BrokenPipeError):  # it has just been killed, which `status` says
            process.stdin.write(f"{json.dumps([str(log), *words])}\n".encode())

    def status(self) -> int | None:
        """The exit status of the run, negative if the process was killed; None as long as it is trained."""
        assert self._process and self._process.stdout
        answer: Any = self._process.stdout.read()  # None as long as there is nothing
        if answer is None:
            return None
        self._is_training = False
        return int(answer) if answer else self._close()

    def stop(self) -> None:
        """Ask the run to end, if there is one, and wait for that; it saves what it has, and can be resumed."""
        if self._process and self._is_training:
            self._process.terminate()
            while self.status() is None:
                time.sleep(POLL)

    def _open(self, log: pathlib.Path) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        with log.open("ab") as file:
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=file, bufsize=0)
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        return self._process

    def _close(self) -> int:
        """The exit status of the process, which ends when its input is closed."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            pass
        return process.returncode


def command_of(algorithm: str) -> list[str]:
    """The words that start a process of trainings by an algorithm."""
    return [sys.executable, "-m", __name__, algorithm]


def main() -> None:
    """Train what standard input asks for, and answer with the exit status of each run; a line each."""
    from train.commands import launch
    from train.run.compiler import Kept

    answers, kept = os.dup(sys.stdout.fileno()), Kept()
    for line in sys.stdin:
        path, *words = json.loads(line)
        with pathlib.Path(path).open("ab") as log:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(log.fileno(), stream.fileno())

        def train(words: list[str] = words) -> None:
            launch.main(sys.argv[1], words, kept=kept)

        status = run_command(train, (ConformanceError,))
        sys.stdout.flush()
        os.write(answers, f"{status}\n".encode())


if __name__ == "__main__":
    from train.commands.entry import entry

    entry(main)
