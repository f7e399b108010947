"""Several processes of one run notice when one of them is gone, and stop, instead of waiting for it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import jax

from train.running.folder import last_words
from train.running.folder.last_words import ENDED

BEAT = 2.0
"""Seconds between two signs of life."""

SILENCE = 30.0
"""Seconds without a sign of life after which a process counts as gone; JAX aborts after 100."""

SIGN = ".alive_"
"""The names of signs of life begin so; that of a process that has ended well is `ENDED`."""


@contextlib.contextmanager
def together(folder: pathlib.Path) -> Iterator[None]:
    """Give signs of life in a run folder that all processes share, and stop this process when another gives none.

    A process that is gone leaves all others waiting inside a collective operation, which Python cannot interrupt, or
    lets it fail; so a thread says in one line what is kept, and ends the process with status 2. For a process that JAX
    aborts, since process 0 is gone, a program beside it says so. A single process is not watched.
    """
    if jax.process_count() == 1:
        yield
        return
    stop = threading.Event()
    with _witness(folder) as witness:
        thread = threading.Thread(target=_watch, args=(folder, stop, witness), daemon=True)
        thread.start()
        try:
            yield
            stop.set()
            thread.join()
            with contextlib.suppress(OSError):
                _sign(folder, jax.process_index()).write_text(ENDED)
        except jax.errors.JaxRuntimeError:
            thread.join(2 * SILENCE)  # if a process is gone, the thread ends this one
            raise
        finally:
            stop.set()


@contextlib.contextmanager
def _witness(folder: pathlib.Path) -> Iterator[subprocess.Popen]:
    """A program that waits for the end of this process, and has the last word if it does not end by itself."""
    what = f"process {jax.process_index()} of {jax.process_count()} was killed"
    if jax.process_index():
        what += ", or ended by JAX, as process 0 is gone"
    command = [sys.executable, last_words.__file__, str(folder.absolute()), what]
    # Ctrl-C is not meant for it.
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True) as witness:
        try:
            yield witness
        finally:
            _dismiss(witness)


def _dismiss(witness: subprocess.Popen) -> None:
    with contextlib.suppress(OSError):
        witness.communicate(ENDED)


def _sign(folder: pathlib.Path, process: int) -> pathlib.Path:
    return folder / f"{SIGN}{process}"


def _read(folder: pathlib.Path, process: int) -> str:
    try:
        return _sign(folder, process).read_text()
    except OSError:
        return ""


def _watch(folder: pathlib.Path, stop: threading.Event, witness: subprocess.Popen) -> None:
    mine = jax.process_index()
    peers = [process for process in range(jax.process_count()) if process != mine]
    # Signs of an earlier run may be there: a process is watched from its first new one.
    first = {process: _read(folder, process) for process in peers}
    seen: dict[int, tuple[str, float]] = {}
    while not stop.wait(BEAT):
        with contextlib.suppress(OSError):
            _sign(folder, mine).write_text(f"{os.getpid()} {time.time_ns()}")
        now = time.monotonic()
        for process in peers:
            sign = _read(folder, process)
            if sign not in (first[process], seen.get(process, ("",))[0]):
                seen[process] = sign, now
            if process in seen and seen[process][0] != ENDED and now - seen[process][1] > SILENCE:
                _leave(folder, process, witness)


def _leave(folder: pathlib.Path, gone: int, witness: subprocess.Popen) -> None:
    _dismiss(witness)
    print(
        last_words.last_words(folder, f"process {gone} of {jax.process_count()} is gone"), file=sys.stderr, flush=True
    )
    if jax.process_index() == 0:
        time.sleep(3 * BEAT)  # the others are aborted as soon as this process ends, so they go first
    os._exit(2)
