"""A process that measures: it may hang, run out of memory or crash, and the program that asks goes on."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import re
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

SPAWN = multiprocessing.get_context("spawn")

STARTING = threading.Lock()
"""Held while the environment variables are those of a new process."""

LONGEST = 300
"""Characters of a reason."""


class Answer(NamedTuple):
    """What a function returned; or why it did not, in one line."""

    result: Any
    error: str | None = None


class Worker:
    """One process, with further environment variables, that calls functions and writes all it says into a file."""

    def __init__(self, variables: Mapping[str, str], log: pathlib.Path):
        self._log, self._logged = log, log.stat().st_size if log.exists() else 0
        self._pipe, child_end = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(child_end, log), daemon=True)
        with STARTING:
            before = dict(os.environ)
            os.environ.update(variables)  # a process takes over what there is when it starts
            try:
                self._process.start()
            finally:
                os.environ.clear()
                os.environ.update(before)
        child_end.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked again: it has neither ended nor been ended."""
        return self._process.is_alive()

    def call(self, function: Callable[[], Any], seconds: float) -> Answer:
        """What the function returns there; after so many seconds the process is ended."""
        try:
            self._pipe.send(function)
            if self._pipe.poll(seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return Answer(None, f"its process ended with {self._process.exitcode}: {self._last_words()}")
        self.end()
        return Answer(None, f"stopped after {seconds:.0f} s")

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _last_words(self) -> str:
        """Of the process in its file: the fatal line, if there is one, else the last."""
        with self._log.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._logged)
            lines = [line.strip() for line in file if line.strip()]
        fatal = [line for line in lines if re.match(r"F\d{4} ", line)]
        return (fatal or lines or ["it said nothing"])[-1][:LONGEST]


def _serve(pipe: Connection, log: pathlib.Path) -> None:
    """Call what comes through the pipe until it is closed; output of any library goes to the file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for stream in (1, 2):
        os.dup2(file, stream)
    while True:
        try:
            function = pipe.recv()
        except EOFError:
            return
        try:
            answer = Answer(function())
        except Exception as error:  # an accelerator runs out of memory in many ways
            reason = " ".join(str(error).split())
            answer = Answer(None, f"{type(error).__name__}: {reason}"[:LONGEST])
        pipe.send(answer)
